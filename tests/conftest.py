"""Fixtures every test can use."""

from tests.application import api, either_api, shared_api
from tests.postgres import database_url, postgres_cluster, postgres_url
from tests.service import postgres_service, service

__all__ = [
    "api",
    "database_url",
    "either_api",
    "postgres_cluster",
    "postgres_service",
    "postgres_url",
    "service",
    "shared_api",
]
