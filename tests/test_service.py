"""`holdfast serve`, as the rest of the tests use it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.service import Service, serving


def test_it_answers_with_its_apis_and_writes_a_clouds_file(service: Service) -> None:
    index = service.request("GET", "/").json()
    assert index["apis"]["baremetal"] == service.baremetal
    assert f"baremetal_endpoint_override: {service.baremetal}" in service.clouds.read_text()
    assert service.request("GET", "/healthz").json() == {"status": "ok"}
    assert "holdfast_build_info" in service.request("GET", "/metrics").text


def test_nodes_come_into_the_state_a_test_needs(service: Service) -> None:
    (first, second) = service.enrol(2, state="active", name="ready")
    for uuid in (first, second):
        assert service.send("GET", f"/v1/nodes/{uuid}")["provision_state"] == "active"


@pytest.mark.real
def test_it_serves_from_postgresql_with_two_workers(postgres_service: Service) -> None:
    (uuid,) = postgres_service.enrol(state="available")
    assert {postgres_service.send("GET", f"/v1/nodes/{uuid}")["provision_state"] for _ in range(20)} == {"available"}


def test_what_it_holds_survives_a_kill(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        (uuid,) = service.enrol(state="manageable", name="keeper")
        service.kill()
    with serving(tmp_path) as service:
        assert service.send("GET", "/v1/nodes/keeper")["uuid"] == uuid


def test_it_stops_when_told_to(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        assert service.stop() == 0


def test_a_state_directory_has_one_service(tmp_path: Path) -> None:
    with serving(tmp_path), pytest.raises(AssertionError, match="another service uses"), serving(tmp_path):
        pass
