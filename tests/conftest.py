"""Fixtures every test can use."""

from tests.postgres import database_url, postgres_cluster, postgres_url

__all__ = ["database_url", "postgres_cluster", "postgres_url"]
