"""Fixtures every test can use."""

import pytest
from hypothesis import settings

from tests.application import api, either_api, shared_api, shared_either_api
from tests.postgres import database_url, postgres_cluster, postgres_url
from tests.service import postgres_service, service
from tests.volumes import cinder_api, cinder_sim

__all__ = [
    "api",
    "cinder_api",
    "cinder_sim",
    "database_url",
    "either_api",
    "postgres_cluster",
    "postgres_service",
    "postgres_url",
    "service",
    "shared_api",
    "shared_either_api",
]

# The same examples in every run: a test fails when the code changed, not by luck.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile("steady")


# What `make check` leaves to `make test`: whole matrices, races, and everything a second time on PostgreSQL.
SLOW = (
    "[postgres",
    "-postgres",
    "_at_once",
    "flows/test_every_flow",
    "flows/test_recovery",
    "baremetal/test_neutron",
    "baremetal/test_trait_filters_",
    "security/test_rbac",
    "security/test_scoping",
    "web/test_openapi",
    "web/test_sweep",
    "drivers/test_agent",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(part in item.nodeid for part in SLOW):
            item.add_marker(pytest.mark.slow)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says how often flows were killed: see tests/crash/test_kill_matrix.py."""
    passed = terminalreporter.getreports("passed")
    points = sum(n for report in passed for name, n in report.user_properties if name == "kill points")
    if points:
        terminalreporter.write_line(f"kill matrix: {points} kill points, none of which broke anything")
