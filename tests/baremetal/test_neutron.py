"""Spec 003 with a Neutron behind it: the real one, and the simulator that must behave like it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest

from holdfast import invariants
from holdfast.baremetal.flows import clean_node, deploy_node
from holdfast.baremetal.flows.node_work import NodeParams
from holdfast.sim.neutron import NeutronSimulator, serving
from tests.application import Application
from tests.baremetal.peers import (
    Peer,
    ask,
    attach,
    detach,
    links,
    listed,
    machine,
    on_neutron,
    ours,
    wired,
)
from tests.baremetal.wiring import add_group, add_port
from tests.flows.scenarios import hear
from tests.neutron import neutron

__all__ = ["neutron"]  # a fixture

INSTANCE = {"image_source": "http://images/debian.qcow2", "image_checksum": "0" * 32, "root_gb": 10}


@dataclass
class Simulated:
    """The simulator, told apart from a real Neutron by nothing but its speed."""

    url: str
    simulator: NeutronSimulator

    def __getattr__(self, name: str) -> Any:
        return getattr(self.simulator, name)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("simulated", marks=pytest.mark.xdist_group("simulated-neutron")),
        pytest.param("real", marks=[pytest.mark.real, pytest.mark.xdist_group("neutron")]),
    ],
)
def peer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    if request.param == "real":
        yield request.getfixturevalue("neutron")
        return
    simulator = NeutronSimulator(tmp_path_factory.mktemp("neutron") / "neutron.sqlite")
    with serving(simulator) as url:
        yield Simulated(url, simulator)


@pytest.fixture(scope="module")
def api(peer: Peer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    with on_neutron(peer, tmp_path_factory.mktemp("on-neutron")) as application:
        yield application
        assert invariants.violations(application.services) == []


@pytest.fixture(scope="module")
def network(peer: Peer, api: Application) -> str:
    """A tenant's network."""
    return peer.network(f"tenant-{uuid4().hex[:8]}")


def deployed(api: Application, peer: Peer, network: str, ports: int = 2, **fields: Any) -> tuple[str, str]:
    """An active node and its VIF."""
    node = machine(api, ports, state="available", instance_info=INSTANCE, **fields)
    vif = peer.port(network)
    attach(api, node, vif)
    assert ask(api, node, "active")["provision_state"] == "active"
    return node, vif


# -- attach and detach


def test_a_vif_gets_the_mac_address_and_the_host_and_loses_both(api: Application, peer: Peer, network: str) -> None:
    (node,) = api.enrol()
    port = wired(api, node)
    vif = peer.port(network)
    attach(api, node, vif)
    shown = peer.show(vif)
    assert (shown["mac_address"], shown["binding:host_id"]) == (port["address"], node)
    assert shown["binding:vnic_type"] == "baremetal"
    assert links(shown) == [], "no switch is told before the node is on its network"
    assert listed(api, node) == [vif]
    assert api.send("GET", f"/v1/ports/{port['uuid']}")["internal_info"] == {"tenant_vif_port_id": vif}
    detach(api, node, vif)
    shown = peer.show(vif)
    assert (shown["binding:host_id"], shown["binding:profile"]) == ("", {})
    assert shown["mac_address"] != port["address"], "it would keep the next VIF from getting it"
    assert listed(api, node) == []
    second = peer.port(network)
    attach(api, node, second)
    assert peer.show(second)["mac_address"] == port["address"]


def test_a_port_that_somebody_bound_before_is_taken_over(api: Application, peer: Peer, network: str) -> None:
    node = machine(api)
    vif = peer.port(network, **{"binding:host_id": "a-nova-compute"})
    attach(api, node, vif)
    assert peer.show(vif)["binding:host_id"] == node


def test_a_vif_that_neutron_does_not_have_is_a_bad_request(api: Application, peer: Peer) -> None:
    node = machine(api)
    for vif in (str(uuid4()), "a-name"):
        answer = api.request("POST", f"/v1/nodes/{node}/vifs", {"id": vif})
        assert answer.status == 400
        assert "Neutron" in answer.text
    assert listed(api, node) == []
    assert api.request("DELETE", f"/v1/nodes/{node}/vifs/{uuid4()}").status == 400


def test_the_same_vif_twice_is_a_conflict(api: Application, peer: Peer, network: str) -> None:
    one, other = machine(api, 2), machine(api, 2)
    vif = peer.port(network)
    attach(api, one, vif)
    for node, message in ((one, "already attached"), (other, "another node")):
        answer = api.request("POST", f"/v1/nodes/{node}/vifs", {"id": vif})
        assert (answer.status, answer.json["code"]) == (409, "duplicate")
        assert message in answer.text
    assert peer.show(vif)["binding:host_id"] == one
    assert listed(api, other) == []


def test_without_a_free_port_nothing_happens_in_neutron(api: Application, peer: Peer, network: str) -> None:
    node = machine(api, 1)
    attach(api, node, peer.port(network))
    vif = peer.port(network)
    before = peer.show(vif)
    answer = api.request("POST", f"/v1/nodes/{node}/vifs", {"id": vif})
    assert answer.status == 400
    assert "not enough free physical ports" in answer.text
    assert peer.show(vif) == before


def test_only_ports_on_the_right_physical_network_take_a_vif(api: Application, peer: Peer) -> None:
    (node,) = api.enrol()
    elsewhere = wired(api, node, physical_network="physnet2")
    anywhere = wired(api, node)
    here = wired(api, node, physical_network="physnet1", pxe_enabled=False)
    network = peer.network("on-physnet1", physical_network="physnet1")
    vifs = [peer.port(network) for _ in range(3)]
    attach(api, node, vifs[0])
    attach(api, node, vifs[1])
    assert peer.show(vifs[0])["mac_address"] == here["address"]
    assert peer.show(vifs[1])["mac_address"] == anywhere["address"]
    answer = api.request("POST", f"/v1/nodes/{node}/vifs", {"id": vifs[2]})
    assert answer.status == 400, f"{elsewhere['address']} is on another physical network"


def test_ports_that_are_not_wired_take_no_vif(api: Application, peer: Peer, network: str) -> None:
    (node,) = api.enrol()
    add_port(api, node)
    vif = peer.port(network)
    assert api.request("POST", f"/v1/nodes/{node}/vifs", {"id": vif}).status == 400
    other = wired(api, node)
    attach(api, node, vif, port_uuid=other["uuid"])
    assert peer.show(vif)["mac_address"] == other["address"]


# -- the life of a node


def test_a_node_moves_from_network_to_network(api: Application, peer: Peer, network: str) -> None:
    node = machine(api, 2, state="manageable", instance_info=INSTANCE, driver_info={"fake_wait": ["clean", "deploy"]})
    assert ask(api, node, "provide")["provision_state"] == "clean wait"
    assert ours(peer, node) == ["holdfast cleaning"] * 2
    for port in peer.ports(device_id=node):
        assert (port["binding:host_id"], port["binding:vif_type"]) == (node, "other")
        assert port["device_owner"] == "baremetal:none"
        assert len(links(port)) == 1
    heartbeat(api, node, "available")
    assert ours(peer, node) == []
    vif = peer.port(network)
    attach(api, node, vif)
    assert ask(api, node, "active")["provision_state"] == "wait call-back"
    assert ours(peer, node) == ["holdfast provisioning"] * 2
    assert links(peer.show(vif)) == []
    heartbeat(api, node, "active")
    assert ours(peer, node) == []
    shown = peer.show(vif)
    assert (shown["binding:host_id"], shown["binding:vif_type"]) == (node, "other")
    assert len(links(shown)) == 1
    api.send("PATCH", f"/v1/nodes/{node}", [{"op": "remove", "path": "/driver_info/fake_wait"}])
    assert ask(api, node, "deleted")["provision_state"] == "available"
    assert ours(peer, node) == []
    assert listed(api, node) == []
    assert peer.show(vif)["binding:host_id"] == ""


def heartbeat(api: Application, node: str, state: str) -> None:
    """The node's ramdisk calls, and what waited for it goes on."""
    flow = {"available": clean_node.CONTINUE, "active": deploy_node.CONTINUE}[state]
    hear(api.services, node)
    api.services.flows.run(flow, NodeParams(node=node))
    api.settle(node, state)


def test_a_vif_comes_and_goes_while_the_node_is_active(api: Application, peer: Peer, network: str) -> None:
    node, first = deployed(api, peer, network)
    second = peer.port(network)
    attach(api, node, second)
    shown = peer.show(second)
    assert (shown["binding:vif_type"], len(links(shown))) == ("other", 1)
    detach(api, node, first)
    assert (peer.show(first)["binding:host_id"], links(peer.show(first))) == ("", [])
    assert listed(api, node) == [second]


def test_a_deploy_without_a_vif_fails_and_leaves_no_port(api: Application, peer: Peer) -> None:
    node = machine(api, state="available", instance_info=INSTANCE)
    shown = ask(api, node, "active")
    assert shown["provision_state"] == "deploy failed"
    assert "has no VIF" in shown["last_error"]
    assert ours(peer, node) == []


def test_a_failed_deploy_leaves_its_vif_attached_and_unplugged(api: Application, peer: Peer, network: str) -> None:
    node = machine(api, state="available", instance_info=INSTANCE, driver_info={"fake_fail": ["deploy.deploy"]})
    vif = peer.port(network)
    attach(api, node, vif)
    assert ask(api, node, "active")["provision_state"] == "deploy failed"
    assert ours(peer, node) == []
    assert (listed(api, node), links(peer.show(vif))) == ([vif], [])


def test_rescue_takes_the_node_off_its_tenants_network(api: Application, peer: Peer, network: str) -> None:
    node, vif = deployed(api, peer, network)
    assert ask(api, node, "rescue", rescue_password="secret")["provision_state"] == "rescue"
    assert ours(peer, node) == ["holdfast rescuing"] * 2
    assert links(peer.show(vif)) == []
    assert ask(api, node, "unrescue")["provision_state"] == "active"
    assert ours(peer, node) == []
    assert len(links(peer.show(vif))) == 1


def test_a_rebuild_leaves_the_tenants_network_and_returns(api: Application, peer: Peer, network: str) -> None:
    node, vif = deployed(api, peer, network)
    assert ask(api, node, "rebuild")["provision_state"] == "active"
    assert ours(peer, node) == []
    assert len(links(peer.show(vif))) == 1


def test_deleting_a_node_leaves_no_port_bound(api: Application, peer: Peer, network: str) -> None:
    node = machine(api, 2)
    vif = peer.port(network)
    attach(api, node, vif)
    api.send("DELETE", f"/v1/nodes/{node}")
    assert api.request("GET", f"/v1/nodes/{node}").status == 404
    assert node not in peer.bound().values()
    other = machine(api)
    attach(api, other, vif)


# -- port groups


def test_a_port_group_is_bound_with_all_its_links_and_how_it_bonds(api: Application, peer: Peer, network: str) -> None:
    (node,) = api.enrol(instance_info=INSTANCE)
    group = add_group(
        api,
        node,
        name=f"bond-{uuid4().hex[:8]}",
        address=add_port(api, machine(api))["address"],
        mode="802.3ad",
        properties={"miimon": 100, "bond_xmit_hash_policy": "layer3+4"},
    )
    for _ in range(2):
        wired(api, node, portgroup_uuid=group["uuid"], physical_network="physnet1")
    for verb in ("manage", "provide"):
        ask(api, node, verb)
    vif = peer.port(network)
    attach(api, node, vif)
    assert api.send("GET", f"/v1/portgroups/{group['uuid']}")["internal_info"] == {"tenant_vif_port_id": vif}
    assert ask(api, node, "active")["provision_state"] == "active"
    shown = peer.show(vif)
    assert shown["mac_address"] == group["address"]
    assert len(links(shown)) == 2
    assert shown["binding:profile"]["local_group_information"] == {
        "id": group["uuid"],
        "name": group["name"],
        "bond_mode": "802.3ad",
        "bond_properties": {"bond_miimon": 100, "bond_xmit_hash_policy": "layer3+4"},
    }
    assert shown["binding:profile"]["physical_network"] == "physnet1"


# -- changes of ports with a VIF


def test_a_changed_mac_address_is_told_to_neutron(api: Application, peer: Peer, network: str) -> None:
    (node,) = api.enrol()
    port = wired(api, node)
    vif = peer.port(network)
    attach(api, node, vif)
    fresh = add_port(api, machine(api))["address"][:-2] + "fe"
    patch = [{"op": "replace", "path": "/address", "value": fresh}]
    assert api.send("PATCH", f"/v1/ports/{port['uuid']}", patch)["address"] == fresh
    shown = peer.show(vif)
    assert (shown["mac_address"], shown["binding:host_id"]) == (fresh, node)


def test_a_mac_address_that_is_taken_changes_nothing_anywhere(api: Application, peer: Peer, network: str) -> None:
    (node,) = api.enrol()
    port, other = wired(api, node), wired(api, node)
    vif = peer.port(network)
    attach(api, node, vif, port_uuid=port["uuid"])
    patch = [{"op": "replace", "path": "/address", "value": other["address"]}]
    answer = api.request("PATCH", f"/v1/ports/{port['uuid']}", patch)
    assert (answer.status, answer.json["code"]) == (409, "duplicate")
    assert peer.show(vif)["mac_address"] == port["address"]


def test_a_port_with_a_vif_is_protected_and_in_maintenance_lets_it_go(
    api: Application, peer: Peer, network: str
) -> None:
    (node,) = api.enrol()
    port = wired(api, node)
    vif = peer.port(network)
    attach(api, node, vif)
    assert api.request("DELETE", f"/v1/ports/{port['uuid']}").status == 409
    change = [{"op": "replace", "path": "/network_interface", "value": "noop"}]
    assert api.request("PATCH", f"/v1/nodes/{node}", change).status == 409, "noop would never unbind it"
    api.send("PUT", f"/v1/nodes/{node}/maintenance", {})
    api.send("DELETE", f"/v1/ports/{port['uuid']}")
    assert peer.show(vif)["binding:host_id"] == ""
    assert listed(api, node) == []


# -- the interface `flat`


def test_flat_binds_the_tenants_ports_and_no_switch(api: Application, peer: Peer, network: str) -> None:
    (node,) = api.enrol(network_interface="flat", instance_info=INSTANCE, driver_info={"fake_wait": ["deploy"]})
    port = add_port(api, node)  # flat needs no switch port
    for verb in ("manage", "provide"):
        ask(api, node, verb)
    vif = peer.port(network)
    attach(api, node, vif)
    assert ask(api, node, "active")["provision_state"] == "wait call-back"
    assert peer.show(vif)["binding:host_id"] == node
    assert ours(peer, node) == [], "flat provisions on the tenant's network"
    heartbeat(api, node, "active")
    shown = peer.show(vif)
    assert (shown["binding:host_id"], shown["mac_address"], links(shown)) == (node, port["address"], [])
    assert ask(api, node, "deleted")["provision_state"] == "available"
    assert (peer.show(vif)["binding:host_id"], listed(api, node)) == ("", [])


# -- validation


def test_a_node_may_name_networks_of_its_own(api: Application, peer: Peer) -> None:
    mine = peer.network(f"mine-{uuid4().hex[:8]}")
    node = machine(api, state="manageable", driver_info={"cleaning_network": mine, "fake_wait": ["clean"]})
    ask(api, node, "provide")
    assert [port["network_id"] for port in peer.ports(device_id=node)] == [mine]
    ask(api, node, "abort")
    assert ours(peer, node) == []


def test_a_network_that_is_not_there_is_found_by_validation(api: Application, peer: Peer) -> None:
    node = machine(api, driver_info={"provisioning_network": "nowhere"})
    result = api.send("GET", f"/v1/nodes/{node}/validate")["network"]
    assert result["result"] is False
    assert "'nowhere'" in result["reason"]


# -- everybody at once


def test_of_two_hundred_attaches_of_one_vif_one_wins(api: Application, peer: Peer, network: str) -> None:
    nodes = [machine(api, 2) for _ in range(4)]
    vif = peer.port(network)
    with ThreadPoolExecutor(200) as pool:
        answers = list(pool.map(lambda i: _attached(api, nodes[i % 4], vif), range(200)))
    assert sorted(answers) == [204] + [409] * 199
    (winner,) = [node for node in nodes if listed(api, node)]
    assert {node for node in peer.bound().values() if node in nodes} == {winner}
    assert peer.show(vif)["binding:host_id"] == winner


def test_of_two_hundred_vifs_that_want_four_ports_four_win(api: Application, peer: Peer, network: str) -> None:
    node = machine(api, 4)
    vifs = peer.many(network, 200)
    with ThreadPoolExecutor(200) as pool:
        answers = list(pool.map(lambda vif: _attached(api, node, vif), vifs))
    assert sorted(answers) == [204] * 4 + [400] * 196
    won = [vif for vif, answer in zip(vifs, answers, strict=True) if answer == 204]
    assert sorted(listed(api, node)) == sorted(won)
    assert {vif for vif, host in peer.bound().items() if host == node} == set(won)
    addresses = {peer.show(vif)["mac_address"] for vif in won}
    assert len(addresses) == 4


def _attached(api: Application, node: str, vif: str) -> int:
    return api.request("POST", f"/v1/nodes/{node}/vifs", {"id": vif}).status
