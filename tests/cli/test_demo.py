"""`holdfast demo` brings a fleet into a running service, again and again if need be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from holdfast.cli.main import main
from holdfast.sim import fleet
from tests.postgres import free_port
from tests.service import Service


def demo(service: Service, *arguments: str) -> int:
    return main(["demo", "--url", service.url, *arguments])


def everything(service: Service, collection: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = service.send("GET", f"/v1/{collection}/detail?limit=1000")[collection]
    return found


def named(service: Service, prefix: str) -> dict[str, dict[str, Any]]:
    return {n["name"]: n for n in everything(service, "nodes") if (n["name"] or "").startswith(prefix)}


def test_the_fleet_arrives_as_planned(service: Service) -> None:
    assert demo(service, "--nodes", "23", "--prefix", "plan") == 0
    servers = {server.node["name"]: server for server in fleet.plan(23, "plan")}
    nodes = named(service, "plan")
    assert nodes.keys() == servers.keys()
    ports = {port["address"]: port for port in everything(service, "ports")}
    groups = {group["name"]: group for group in everything(service, "portgroups")}
    for name, server in servers.items():
        node = nodes[name]
        assert node["provision_state"] == "enroll"
        for field in ("uuid", "driver", "resource_class", "properties", "extra", "chassis_uuid"):
            assert node[field] == server.node[field]
        assert sorted(node["traits"]) == server.traits
        for port in server.ports:
            assert ports[port["address"]]["node_uuid"] == node["uuid"]
            assert ports[port["address"]]["portgroup_uuid"] == port.get("portgroup_uuid")
        if server.portgroup:
            assert groups[server.portgroup["name"]]["node_uuid"] == node["uuid"]
    assert {"Rack plan01", "Rack plan02"} <= {c["description"] for c in everything(service, "chassis")}


def test_it_may_be_repeated_and_carried_on(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    demo(service, "--nodes", "3", "--prefix", "twice")
    before = {name: node["created_at"] for name, node in named(service, "twice").items()}
    capsys.readouterr()
    assert demo(service, "--nodes", "5", "--prefix", "twice") == 0
    assert "2 enrolled" in capsys.readouterr().out
    after = {name: node["created_at"] for name, node in named(service, "twice").items()}
    assert len(after) == 5
    assert before.items() <= after.items()


def test_what_an_interrupted_run_left_out_is_made_up_for(service: Service) -> None:
    demo(service, "--nodes", "1", "--prefix", "torn")
    [node] = named(service, "torn").values()
    ports = service.send("GET", f"/v1/nodes/{node['uuid']}/ports")["ports"]
    service.send("DELETE", f"/v1/ports/{ports[0]['uuid']}")
    assert demo(service, "--nodes", "1", "--prefix", "torn") == 0
    again = service.send("GET", f"/v1/nodes/{node['uuid']}/ports")["ports"]
    assert {port["address"] for port in again} == {port["address"] for port in ports}


def test_a_node_of_the_same_name_that_is_somebody_elses_is_not_touched(service: Service) -> None:
    service.enrol(name="theirs01-u01", extra={"mine": True})
    assert demo(service, "--nodes", "2", "--prefix", "theirs") == 0
    node = named(service, "theirs")["theirs01-u01"]
    assert node["extra"] == {"mine": True}
    assert service.send("GET", f"/v1/nodes/{node['uuid']}/ports")["ports"] == []
    assert "theirs01-u03" in named(service, "theirs")


@pytest.mark.parametrize("state", ["manageable", "available"])
def test_it_brings_the_nodes_where_they_are_wanted(service: Service, state: str) -> None:
    prefix = state[:3]
    assert demo(service, "--nodes", "2", "--prefix", prefix) == 0
    for _ in range(2):
        assert demo(service, "--nodes", "4", "--prefix", prefix, "--state", state) == 0
        assert {node["provision_state"] for node in named(service, prefix).values()} == {state}


def test_what_fails_is_told_by_name_and_with_the_reason(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo(service, "--nodes", "2", "--prefix", "bad", "--driver", "nonesuch") == 1
    told = capsys.readouterr().out
    assert "bad01-u01" in told
    assert "'nonesuch'" in told


def test_a_service_that_is_not_there_is_told_how_to_start(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--url", f"http://127.0.0.1:{free_port()}"]) == 1
    assert "holdfast serve" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--nodes", "0"], ["--nodes", "many"], ["--state", "sunny"]])
def test_arguments_that_make_no_sense_are_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["demo", *arguments])
    assert ended.value.code == 2


class OldService(HTTPServer):
    """Answers as a service of an old version, or as something else altogether; notes what it is sent."""

    def __init__(self, version: str | None) -> None:
        super().__init__(("127.0.0.1", 0), _OldHandler)
        self.version = version
        self.sent: list[tuple[str, str, Any, str | None]] = []


class _OldHandler(BaseHTTPRequestHandler):
    server: OldService

    def do_GET(self) -> None:
        self._answer(200 if self.path == "/v1" else 404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        version = self.headers["X-OpenStack-Ironic-API-Version"]
        self.server.sent.append((self.command, self.path, body, version))
        self._answer(201)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        if self.server.version:
            self.send_header("X-OpenStack-Ironic-API-Maximum-Version", self.server.version)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def old_service(request: pytest.FixtureRequest) -> Iterator[OldService]:
    with OldService(request.param) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("old_service", ["1.22"], indirect=True)
def test_an_older_service_is_sent_what_it_knows(old_service: OldService) -> None:
    assert main(["demo", "--url", f"http://127.0.0.1:{old_service.server_port}", "--nodes", "1"]) == 0
    assert {version for _, _, _, version in old_service.sent} == {"1.22"}
    assert [path for _, path, _, _ in old_service.sent] == ["/v1/chassis", "/v1/nodes", "/v1/ports", "/v1/ports"]
    port = old_service.sent[-1][2]
    assert "local_link_connection" in port
    assert not {"portgroup_uuid", "physical_network"} & port.keys()


@pytest.mark.parametrize("old_service", [None], indirect=True)
def test_something_that_is_no_bare_metal_service_is_told_apart(
    old_service: OldService, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--url", f"http://127.0.0.1:{old_service.server_port}"]) == 1
    assert "not as a bare-metal service" in capsys.readouterr().err
    assert old_service.sent == []
