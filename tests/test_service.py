"""`holdfast serve`, as the rest of the tests use it."""

from __future__ import annotations

import os
import signal
import time
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


def test_it_is_one_process(service: Service) -> None:
    assert children(service) == []


@pytest.mark.real
def test_a_worker_that_dies_is_replaced(postgres_service: Service) -> None:
    victim, survivor = children(postgres_service)
    os.kill(victim, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while victim in children(postgres_service) or len(children(postgres_service)) < 2:
        assert time.monotonic() < deadline, "Nobody took its place."
        time.sleep(0.1)
    assert survivor in children(postgres_service)


def children(service: Service) -> list[int]:
    pid = service.process.pid
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


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
