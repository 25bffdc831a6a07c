"""Conductors: the hosts of this installation, and which of them is said to look after a node."""

from __future__ import annotations

import socket
from collections import Counter

import pytest
from sqlalchemy import insert

from holdfast.db.engine import ago, now
from holdfast.db.tables import processes
from tests.application import Application

HERE = socket.gethostname()[:255]


def joins(api: Application, executor: str, hostname: str, **columns: str) -> None:
    """Another process of the installation, somewhere else."""
    life = {"pid": 1, "place": "elsewhere", "started_at": ago(60), "beat_at": now(), "drivers": '["redfish"]'}
    with api.services.db.write() as connection:
        connection.execute(insert(processes).values(executor=executor, hostname=hostname, **{**life, **columns}))


@pytest.fixture
def hosts(api: Application) -> list[str]:
    joins(api, "b-1", "host-b")
    joins(api, "b-2", "host-b")
    joins(api, "c-1", "host-c")
    return sorted([HERE, "host-b", "host-c"])


def test_every_host_is_a_conductor_once(api: Application, hosts: list[str]) -> None:
    found = api.send("GET", "/v1/conductors")["conductors"]
    assert [conductor["hostname"] for conductor in found] == hosts
    assert all(conductor.keys() == {"hostname", "conductor_group", "alive", "links"} for conductor in found)
    assert all(conductor["alive"] is True for conductor in found)


def test_a_conductor_tells_its_drivers(api: Application, hosts: list[str]) -> None:
    assert api.send("GET", f"/v1/conductors/{HERE}")["drivers"] == api.services.drivers.types()
    assert api.send("GET", "/v1/conductors/host-b")["drivers"] == ["redfish"]
    assert api.send("GET", "/v1/conductors/host-b?fields=alive").keys() == {"alive", "links"}
    assert api.request("GET", "/v1/conductors/unknown").status == 404


def test_the_marker_of_a_page_is_a_host_name(api: Application, hosts: list[str]) -> None:
    first = api.send("GET", "/v1/conductors?limit=2&detail=true")
    assert [conductor["hostname"] for conductor in first["conductors"]] == hosts[:2]
    assert f"marker={hosts[1]}" in first["next"]
    rest = api.send("GET", f"/v1/conductors?limit=2&marker={hosts[1]}")
    assert [conductor["hostname"] for conductor in rest["conductors"]] == hosts[2:]
    assert api.request("GET", "/v1/conductors?marker=unknown").status == 404


def test_a_host_whose_processes_all_died_is_not_alive(api: Application) -> None:
    joins(api, "b-1", "host-b", dead_at=now())
    assert api.send("GET", "/v1/conductors/host-b")["alive"] is False
    joins(api, "b-2", "host-b")
    assert api.send("GET", "/v1/conductors/host-b")["alive"] is True


def test_nodes_are_dealt_out_over_the_hosts_that_live(either_api: Application) -> None:
    api = either_api
    nodes = api.enrol(12)
    assert {api.send("GET", f"/v1/nodes/{node}")["conductor"] for node in nodes} == {HERE}
    joins(api, "b-1", "host-b")
    joins(api, "c-1", "host-c")
    joins(api, "d-1", "host-d", dead_at=now())
    shown = {node["uuid"]: node["conductor"] for node in api.send("GET", "/v1/nodes?fields=uuid,conductor")["nodes"]}
    assert Counter(shown.values()) == dict.fromkeys([HERE, "host-b", "host-c"], 4)
    for host in (HERE, "host-b", "host-c", "host-d", "unknown"):
        listed = [node["uuid"] for node in api.send("GET", f"/v1/nodes?conductor={host}")["nodes"]]
        assert listed == [node for node in nodes if shown[node] == host]


def test_pages_of_a_conductors_nodes_are_full(api: Application) -> None:
    joins(api, "b-1", "host-b")
    api.enrol(10)
    assert len(api.send("GET", "/v1/nodes?conductor=host-b&limit=4")["nodes"]) == 4
