"""What is left when Neutron fails, or does what it was asked and does not say so."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import invariants
from holdfast.sim.neutron import CUT, NeutronSimulator, serving
from tests.application import Application, running
from tests.baremetal.peers import ask, attach, links, listed, machine, on_neutron, wired
from tests.baremetal.test_neutron import Simulated

# every call of an attach or a detach, as (method, path), and how it goes wrong
CALLS = [("GET", "/ports/"), ("GET", "/networks/"), ("PUT", "/ports/"), ("GET", "/ports$")]
WAYS = [(500, False), (500, True), (CUT, False), (CUT, True), (409, False)]


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    simulator = NeutronSimulator(tmp_path_factory.mktemp("neutron") / "neutron.sqlite")
    with serving(simulator) as url:
        yield Simulated(url, simulator)


@pytest.fixture(scope="module")
def api(peer: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    with on_neutron(peer, tmp_path_factory.mktemp("faults"), flows__step_attempts=1) as application:
        yield application


@pytest.fixture
def network(peer: Any) -> Iterator[str]:
    yield peer.network("tenant")
    peer.disarm()


@pytest.fixture
def node(api: Application) -> str:
    return machine(api, 2)


@pytest.mark.parametrize(("status", "after"), WAYS)
@pytest.mark.parametrize(("method", "path"), CALLS[:3])
def test_an_attach_that_fails_leaves_the_vif_as_it_came(
    api: Application, peer: Any, node: str, network: str, method: str, path: str, status: int, after: bool
) -> None:
    vif = peer.port(network)
    peer.arm(method, path, status, after=after)
    answer = api.request("POST", f"/v1/nodes/{node}/vifs", {"id": vif})
    assert answer.status in (503, 400), "never 409: Nova would take the VIF for attached"
    assert answer.status == (400 if status == 409 else 503)
    shown = peer.show(vif)
    assert (shown["binding:host_id"], links(shown), listed(api, node)) == ("", [], [])
    assert invariants.violations(api.services) == []
    attach(api, node, vif)  # nothing is in the way


@pytest.mark.parametrize(("status", "after"), WAYS)
@pytest.mark.parametrize(("method", "path"), [CALLS[0], CALLS[2], CALLS[3]])
def test_a_detach_that_fails_leaves_the_vif_attached(
    api: Application, peer: Any, node: str, network: str, method: str, path: str, status: int, after: bool
) -> None:
    vif = peer.port(network)
    attach(api, node, vif)
    before = peer.show(vif)
    peer.arm(method, path, status, after=after)
    answer = api.request("DELETE", f"/v1/nodes/{node}/vifs/{vif}")
    assert answer.status in (503, 400)
    assert (peer.show(vif), listed(api, node)) == (before, [vif])
    assert invariants.violations(api.services) == []


@pytest.mark.parametrize(("status", "after"), WAYS)
@pytest.mark.parametrize(("method", "path"), [("POST", "/ports$"), ("GET", "/ports$"), ("DELETE", "/ports/")])
def test_a_network_of_ours_that_fails_leaves_no_port_behind(
    api: Application, peer: Any, network: str, method: str, path: str, status: int, after: bool
) -> None:
    node = machine(api, 2, state="manageable")
    peer.arm(method, path, status, after=after)
    shown = ask(api, node, "provide")
    assert shown["provision_state"] == "clean failed"
    assert "Neutron" in shown["last_error"]
    assert peer.ports(device_id=node) == []
    assert [flow for flow in api.call("GET", "/flows?state=stuck").json["flows"] if flow["subject"] == node] == []
    ask(api, node, "manage")
    api.send("DELETE", f"/v1/nodes/{node}/maintenance")
    assert ask(api, node, "provide")["provision_state"] == "available"
    assert peer.ports(device_id=node) == []


def test_while_neutron_is_away_vifs_are_listed_and_nothing_gets_stuck(
    api: Application, peer: Any, node: str, network: str
) -> None:
    vif, other = peer.port(network), peer.port(network)
    attach(api, node, vif)
    peer.arm("GET", ".", 503, times=1000)
    assert api.request("POST", f"/v1/nodes/{node}/vifs", {"id": other}).status == 503
    assert api.request("DELETE", f"/v1/nodes/{node}/vifs/{vif}").status == 503
    assert api.request("DELETE", f"/v1/nodes/{node}").status == 503
    assert listed(api, node) == [vif]
    peer.disarm()
    assert api.send("GET", f"/v1/nodes/{node}")["reservation"] is None
    assert invariants.violations(api.services) == []


def test_an_undo_that_neutron_refuses_is_stuck_until_it_is_retried(
    api: Application, peer: Any, node: str, network: str
) -> None:
    vif = peer.port(network)
    peer.arm("PUT", "/ports/", 500, after=True, times=2)
    assert api.request("POST", f"/v1/nodes/{node}/vifs", {"id": vif}).status == 503
    (flow,) = [flow for flow in api.call("GET", "/flows?state=stuck").json["flows"] if flow["subject"] == node]
    api.services.flows.retry(flow["id"])
    api.settle(node)
    assert (peer.show(vif)["binding:host_id"], listed(api, node)) == ("", [])
    assert invariants.violations(api.services) == []


def test_a_vif_that_was_deleted_in_neutron_can_be_detached(
    api: Application, peer: Any, node: str, network: str
) -> None:
    vif = peer.port(network)
    attach(api, node, vif)
    peer.simulator.delete("ports", vif)
    api.send("DELETE", f"/v1/nodes/{node}/vifs/{vif}")
    assert listed(api, node) == []


def test_a_port_that_others_bound_meanwhile_is_not_taken_from_them(
    api: Application, peer: Any, node: str, network: str
) -> None:
    vif = peer.port(network)
    attach(api, node, vif)
    peer.simulator.update("ports", vif, {"binding:host_id": "somebody-else"})
    api.send("DELETE", f"/v1/nodes/{node}/vifs/{vif}")
    assert peer.show(vif)["binding:host_id"] == "somebody-else"


def test_a_port_that_neutron_cannot_bind_is_an_error(api: Application, peer: Any, network: str) -> None:
    (node,) = api.enrol()
    link = {"switch_id": "0a:00:00:00:00:99", "port_id": "1"}
    api.send("POST", "/v1/ports", {"node_uuid": node, "address": "52:54:00:99:99:99", "local_link_connection": link})
    ask(api, node, "manage")
    shown = ask(api, node, "provide")
    assert shown["provision_state"] == "clean failed"
    assert "cannot bind" in shown["last_error"]
    assert peer.ports(device_id=node) == []


def test_of_a_network_with_segments_the_one_of_the_ports_addresses_counts(
    api: Application, peer: Any, network: str
) -> None:
    segments = [{"provider:physical_network": name} for name in ("physnet1", "physnet2")]
    routed = peer.simulator.create("networks", {"name": "routed", "segments": segments})["id"]
    second = {"network_id": routed, "physical_network": "physnet2"}
    segment = peer.simulator.create("segments", second)["id"]
    subnet = peer.simulator.create("subnets", {"network_id": routed, "segment_id": segment})["id"]
    node = machine(api, 0)
    wanted = wired_to(api, node, "physnet2")
    other = wired_to(api, node, "physnet1")
    fixed = peer.port(routed, fixed_ips=[{"subnet_id": subnet, "ip_address": "10.0.0.9"}])
    attach(api, node, fixed)
    assert peer.show(fixed)["mac_address"] == wanted
    anywhere = peer.port(routed)
    attach(api, node, anywhere)
    assert peer.show(anywhere)["mac_address"] == other


def wired_to(api: Application, node: str, physical_network: str) -> str:
    return str(wired(api, node, physical_network=physical_network)["address"])


def test_without_a_neutron_the_interface_says_what_to_do(tmp_path: Path) -> None:
    with running(tmp_path / "state", default_network_interface="neutron") as api:
        node = machine(api)
        result = api.send("GET", f"/v1/nodes/{node}/validate")["network"]
        assert result["result"] is False
        assert "[neutron] cleaning_network" in result["reason"]
        assert listed(api, node) == []
        answer = api.request("POST", f"/v1/nodes/{node}/vifs", {"id": "a-vif"})
        assert answer.status == 400


def test_openstacksdk_is_not_imported_before_it_is_used() -> None:
    code = (
        "import sys; from holdfast import app, config; from holdfast.baremetal.drivers.registry import Drivers;"
        "drivers = Drivers(config.load(environment={})); drivers.properties('fake-hardware');"
        "sys.exit('openstack' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
