"""/v1/nodes/<node>/vifs: which VIF is on which machine (spec 003)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import update

from holdfast import config, errors
from holdfast.baremetal import vifs
from holdfast.baremetal.drivers.noop import NoopNetwork
from holdfast.baremetal.task import Node, Port, Portgroup, Task
from holdfast.db import tables
from holdfast.invariants import violations
from tests.application import Application
from tests.baremetal.wiring import add_group, add_port, claims, lock, put

VIF = "5f2c9a34-3a0b-4d27-8f53-6f3c1f0b7a10"
OTHER = "6a3d8b45-4b1c-4e38-9a64-7a4d2a1c8b21"


@pytest.fixture(scope="module")
def api(shared_either_api: Application) -> Application:
    return shared_either_api


@pytest.fixture
def node(api: Application) -> str:
    return api.enrol()[0]


def attached(api: Application, node: str) -> list[str]:
    return [vif["id"] for vif in api.send("GET", f"/v1/nodes/{node}/vifs")["vifs"]]


# -- the contract


def test_a_vif_is_attached_listed_and_detached(api: Application) -> None:
    node = api.enrol(name="named")[0]
    port = add_port(api, node)
    answer = api.request("POST", "/v1/nodes/named/vifs", {"id": VIF})
    assert (answer.status, answer.content) == (204, b"")
    assert api.send("GET", "/v1/nodes/named/vifs") == {"vifs": [{"id": VIF}]}
    shown = api.send("GET", f"/v1/ports/{port['uuid']}")
    assert shown["internal_info"] == {"tenant_vif_port_id": VIF}
    assert shown["updated_at"] is not None
    assert claims(api, node) == {VIF: node}
    answer = api.request("DELETE", f"/v1/nodes/named/vifs/{VIF}")
    assert (answer.status, answer.content) == (204, b"")
    assert api.send("GET", f"/v1/nodes/{node}/vifs") == {"vifs": []}
    assert api.send("GET", f"/v1/ports/{port['uuid']}")["internal_info"] == {}
    assert claims(api, node) == {}


def test_vifs_came_with_1_28(api: Application, node: str) -> None:
    path = f"/v1/nodes/{node}/vifs"
    for method, target, body in (("GET", path, None), ("POST", path, {"id": VIF}), ("DELETE", f"{path}/{VIF}", None)):
        assert api.request(method, target, body, version="1.27").status == 404
    assert api.request("GET", path, version="1.28").status == 200
    assert api.request("PUT", path, {"id": VIF}).status == 405
    assert api.request("GET", f"{path}/{VIF}").status == 405


@pytest.mark.parametrize(
    "body", [{}, {"id": None}, {"id": ""}, {"id": 7}, {"id": "has space"}, {"id": "x" * 256}, [], "vif"]
)
def test_a_vif_needs_an_id_that_is_a_uuid_or_a_name(api: Application, node: str, body: Any) -> None:
    add_port(api, node)
    assert api.request("POST", f"/v1/nodes/{node}/vifs", body).status == 400
    assert attached(api, node) == []


def test_one_uuid_is_one_vif_however_it_is_spelled(api: Application, node: str) -> None:
    add_port(api, node), add_port(api, node)
    path = f"/v1/nodes/{node}/vifs"
    api.send("POST", path, {"id": OTHER.upper()})
    assert attached(api, node) == [OTHER]
    assert api.request("POST", path, {"id": OTHER}).status == 409
    assert api.request("DELETE", f"{path}/{OTHER.upper()}").status == 204


def test_a_vif_is_on_one_node_once(api: Application, node: str) -> None:
    other = api.enrol()[0]
    for machine in (node, other):
        add_port(api, machine), add_port(api, machine)
    api.send("POST", f"/v1/nodes/{node}/vifs", {"id": "only-once"})
    for machine in (node, other):
        answer = api.request("POST", f"/v1/nodes/{machine}/vifs", {"id": "only-once"})
        assert (answer.status, answer.json["code"]) == (409, "duplicate")
        assert "only-once" in answer.text
    assert (attached(api, node), attached(api, other)) == (["only-once"], [])
    api.send("DELETE", f"/v1/nodes/{node}/vifs/only-once")
    api.send("POST", f"/v1/nodes/{other}/vifs", {"id": "only-once"})
    assert claims(api)["only-once"] == other


@pytest.mark.parametrize("vif", ["never-attached", "has%20space", VIF])
def test_detaching_what_is_not_attached_is_a_bad_request(api: Application, node: str, vif: str) -> None:
    other = api.enrol()[0]
    add_port(api, other)
    api.send("POST", f"/v1/nodes/{other}/vifs", {"id": "on-the-other"})
    # Nova swallows 400 here, and only 400.
    for name in (vif, "on-the-other"):
        assert api.request("DELETE", f"/v1/nodes/{node}/vifs/{name}").status == 400
    assert attached(api, other) == ["on-the-other"]
    api.send("DELETE", f"/v1/nodes/{other}/vifs/on-the-other")


def test_a_node_without_a_free_port_takes_no_vif(api: Application, node: str) -> None:
    path = f"/v1/nodes/{node}/vifs"
    assert api.request("POST", path, {"id": "no-port-at-all"}).status == 400
    add_port(api, node)
    api.send("POST", path, {"id": "first-come"})
    answer = api.request("POST", path, {"id": "second-come"})
    assert (answer.status, "free physical ports" in answer.text) == (400, True)
    assert attached(api, node) == ["first-come"]


def test_the_vifs_of_a_locked_node_can_only_be_listed(api: Application, node: str) -> None:
    add_port(api, node), add_port(api, node)
    path = f"/v1/nodes/{node}/vifs"
    api.send("POST", path, {"id": "before-the-lock"})
    lock(api, node)
    answer = api.request("POST", path, {"id": "too-late"})
    assert (answer.status, answer.json["code"]) == (503, "unavailable"), "Nova takes 409 for success"
    answer = api.request("DELETE", f"{path}/before-the-lock")
    assert (answer.status, answer.json["code"]) == (409, "node-locked")
    assert attached(api, node) == ["before-the-lock"]


def test_an_unknown_node_has_no_vifs(api: Application) -> None:
    path = f"/v1/nodes/{OTHER}/vifs"
    for method, target, body in (("GET", path, None), ("POST", path, {"id": VIF}), ("DELETE", f"{path}/{VIF}", None)):
        assert api.request(method, target, body).status == 404


def test_a_place_can_be_asked_for(api: Application, node: str) -> None:
    path = f"/v1/nodes/{node}/vifs"
    group = add_group(api, node)["uuid"]
    member = add_port(api, node, portgroup_uuid=group)["uuid"]
    _first, second = add_port(api, node)["uuid"], add_port(api, node)["uuid"]
    assert api.request("POST", path, {"id": "asks", "port_uuid": member}).status == 400
    assert api.request("POST", path, {"id": "asks", "port_uuid": second, "portgroup_uuid": group}).status == 400
    api.send("POST", path, {"id": "asks", "port_uuid": second.upper()})
    assert api.send("GET", f"/v1/ports/{second}")["internal_info"] == {"tenant_vif_port_id": "asks"}
    assert api.request("POST", path, {"id": "asks-too", "port_uuid": second}).status == 400
    assert api.request("POST", path, {"id": "asks", "portgroup_uuid": group}).status == 409
    api.send("POST", path, {"id": "asks-group", "portgroup_uuid": group})
    assert api.send("GET", f"/v1/portgroups/{group}")["internal_info"] == {"tenant_vif_port_id": "asks-group"}


def test_whatever_else_a_client_sends_reaches_the_network_interface(
    api: Application, node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Mapping[str, Any]] = []
    monkeypatch.setattr(NoopNetwork, "vif_attach", lambda _self, _task, vif: seen.append(vif))
    api.send("POST", f"/v1/nodes/{node}/vifs", {"id": "with-more", "vlan": 7, "binding": {"a": [1]}})
    assert seen == [{"id": "with-more", "vlan": 7, "binding": {"a": [1]}}]


def test_an_interface_without_what_it_needs_says_so(
    api: Application, node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_port(api, node)

    def lacking(_self: NoopNetwork, _task: Task) -> None:
        raise errors.DriverDataInvalid("driver_info has no cleaning_network.")

    path = f"/v1/nodes/{node}/vifs"
    monkeypatch.setattr(NoopNetwork, "validate", lacking)
    for method, target, body in (("GET", path, None), ("POST", path, {"id": VIF}), ("DELETE", f"{path}/{VIF}", None)):
        answer = api.request(method, target, body)
        assert (answer.status, answer.text) == (400, "driver_info has no cleaning_network.")


def test_an_interface_that_calls_out_is_never_asked_inside_a_transaction(
    api: Application, node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_port(api, node)
    asked: list[str] = []

    def outside(name: str) -> Callable[..., None]:
        plain = getattr(NoopNetwork, name)

        def call(self: NoopNetwork, task: Task, vif: Any) -> None:
            with api.services.db.write():  # on SQLite only possible when nobody else writes
                asked.append(name)
            if name == "vif_attach":  # the flow has noted where the VIF goes
                assert self.place_of(task, vif["id"]) is not None
                return
            plain(self, task, vif)

        return call

    monkeypatch.setattr(NoopNetwork, "calls_out", True)
    for name in ("place_vif", "vif_attach", "vif_detach"):
        monkeypatch.setattr(NoopNetwork, name, outside(name))
    api.send("POST", f"/v1/nodes/{node}/vifs", {"id": "by-flow"})
    assert attached(api, node) == ["by-flow"]
    api.send("DELETE", f"/v1/nodes/{node}/vifs/by-flow")
    assert attached(api, node) == []
    assert asked == ["place_vif", "vif_attach", "vif_detach"]
    assert "by-flow" not in claims(api)


def test_an_interface_that_fails_leaves_nothing_behind(
    api: Application, node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = add_port(api, node)
    record = vifs.record

    def fail(*arguments: Any) -> None:
        record(*arguments)
        raise errors.DriverFailed("The switch went away.")

    monkeypatch.setattr(vifs, "record", fail)
    assert api.request("POST", f"/v1/nodes/{node}/vifs", {"id": "half-way"}).status == 503
    assert api.send("GET", f"/v1/ports/{port['uuid']}") == port
    assert "half-way" not in claims(api)


def test_attaching_takes_the_same_queries_on_a_node_of_any_size(api: Application) -> None:
    counts = []
    for length in (1, 50):
        node = api.enrol()[0]
        for _ in range(length):
            add_port(api, node)
        with api.counted() as statements:
            api.send("POST", f"/v1/nodes/{node}/vifs", {"id": f"counted-{length}"})
        counts.append(len(statements))
        with api.counted() as statements:
            assert attached(api, node) == [f"counted-{length}"]
        counts.append(len(statements))
    assert counts[:2] == counts[2:]


# -- tear-down


def test_undeploying_a_node_takes_its_vifs_off(api: Application) -> None:
    node = api.enrol(state="manageable")[0]
    group = add_group(api, node)["uuid"]
    add_port(api, node, portgroup_uuid=group)
    add_port(api, node, extra={"vif_port_id": "the-old-way"})
    api.send("POST", f"/v1/nodes/{node}/vifs", {"id": "on-the-group"})
    for verb in ("provide", "active"):
        api.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": verb})
        api.settle(node)
    assert sorted(claims(api, node)) == ["on-the-group", "the-old-way"]
    api.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": "deleted"})
    api.settle(node, "available")
    assert attached(api, node) == []
    assert claims(api, node) == {}
    for port in api.send("GET", f"/v1/nodes/{node}/ports/detail")["ports"]:
        assert (port["internal_info"], port["extra"]) == ({}, {})


def test_taking_all_vifs_off_may_be_repeated(api: Application, node: str) -> None:
    add_port(api, node), add_port(api, node)
    for vif in ("repeated-1", "repeated-2"):
        api.send("POST", f"/v1/nodes/{node}/vifs", {"id": vif})
    lock(api, node)  # by the flow whose step this is
    for _ in range(2):
        vifs.detach_all(api.services, node, 1)
        assert attached(api, node) == []
        assert not {"repeated-1", "repeated-2"} & claims(api).keys()


# -- everybody at once


def test_of_many_nodes_that_want_one_vif_one_gets_it(api: Application) -> None:
    nodes = api.enrol(20)
    for node in nodes:
        add_port(api, node)
    with ThreadPoolExecutor(16) as pool:
        answers = list(
            pool.map(lambda n: api.request("POST", f"/v1/nodes/{nodes[n % 20]}/vifs", {"id": VIF}).status, range(200))
        )
    assert Counter(answers) == {204: 1, 409: 199}
    winners = [node for node in nodes if attached(api, node)]
    assert claims(api, *nodes) == {VIF: winners[0]}
    assert len(winners) == 1


def test_of_many_vifs_that_want_four_ports_four_get_one(api: Application) -> None:
    node = api.enrol()[0]
    ports = [add_port(api, node)["uuid"] for _ in range(4)]
    with ThreadPoolExecutor(16) as pool:
        answers = list(
            pool.map(lambda n: api.request("POST", f"/v1/nodes/{node}/vifs", {"id": f"vif-{n}"}).status, range(200))
        )
    assert Counter(answers) == {204: 4, 400: 196}
    shown = [api.send("GET", f"/v1/ports/{port}")["internal_info"]["tenant_vif_port_id"] for port in ports]
    winners = [f"vif-{n}" for n, status in enumerate(answers) if status == 204]
    assert sorted(shown) == sorted(winners)
    assert claims(api, node) == dict.fromkeys(winners, node)


def test_attaching_and_detaching_at_once_loses_neither(api: Application) -> None:
    node = api.enrol()[0]
    for _ in range(8):
        add_port(api, node)
    path = f"/v1/nodes/{node}/vifs"

    def churn(worker: int) -> None:
        for round_ in range(10):
            api.send("POST", path, {"id": f"vif-{worker}-{round_}"})
            api.send("DELETE", f"{path}/vif-{worker}-{round_}")
        api.send("POST", path, {"id": f"last-{worker}"})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(churn, range(8)))
    assert sorted(attached(api, node)) == sorted(claims(api, node)) == [f"last-{worker}" for worker in range(8)]


def test_two_records_that_disagree_are_a_violation(api: Application, node: str) -> None:
    def problems() -> list[str]:
        return [problem for problem in violations(api.services) if problem.startswith("VIF ")]

    add_port(api, node)
    api.send("POST", f"/v1/nodes/{node}/vifs", {"id": "carried"})
    assert problems() == []
    table = tables.node_vifs
    with api.services.db.write() as connection:
        connection.execute(update(table).where(table.c.vif_id == "carried").values(vif_id="claimed"))
    assert problems() == [
        f"VIF claimed is kept for node {node}, but none of its ports carries it.",
        f"VIF carried is on a port of node {node}, but could be attached to another node as well.",
    ]
    vifs.detach_all(api.services, node, 1)
    assert problems() == []


# -- choosing the port


class OnNetworks(NoopNetwork):
    """Knows on which physical networks a VIF is: those in its body."""

    def physical_networks(self, task: Task, vif: Mapping[str, Any]) -> frozenset[str]:
        return frozenset(vif.get("networks", ()))


def place(task: Task, vif: str, *networks: str, **asked: str) -> int | str:
    """Attaches a VIF: the id of the port it went to, "bond <id>" for a group, or why it went nowhere."""
    network = OnNetworks(config.load(environment={}))
    try:
        network.vif_attach(task, {"id": vif, "networks": networks, **asked})
    except errors.HoldfastError as error:
        return error.status
    for port in task.ports:
        if port.internal_info.get("tenant_vif_port_id") == vif:
            return port.id
    group = next(g for g in task.portgroups if g.internal_info.get("tenant_vif_port_id") == vif)
    return f"bond {group.id}"


def wired(*ports: Port, groups: int = 0) -> Task:
    bonds = [Portgroup(id=number, uuid=f"group-{number}") for number in range(1, groups + 1)]
    return Task(node=Node(id=1, uuid="node"), ports=list(ports), portgroups=bonds)


def port(number: int, *, pxe: bool = True, network: str | None = None, bond: int | None = None) -> Port:
    return Port(
        id=number,
        uuid=f"port-{number}",
        address=f"52:54:00:00:00:{number:02x}",
        pxe_enabled=pxe,
        physical_network=network,
        portgroup_id=bond,
    )


def test_ports_that_boot_come_first_and_only_those_on_the_right_network() -> None:
    task = wired(port(1, pxe=False), port(2, network="p2"), port(3))
    assert [place(task, vif, "p1") for vif in "abc"] == [3, 1, 400]


def test_the_right_network_counts_more_than_a_group_and_a_group_more_than_a_port() -> None:
    task = wired(port(1), port(2, bond=1), port(3, bond=1), port(4, pxe=False, network="p1"), groups=1)
    assert [place(task, vif, "p1") for vif in "abcd"] == [4, "bond 1", 1, 400]


def test_without_known_networks_every_port_will_do() -> None:
    task = wired(port(1, network="p1"), port(2, network="p2"))
    assert [place(task, vif) for vif in "abc"] == [1, 2, 400]


def test_a_group_with_a_vif_on_a_member_is_split() -> None:
    task = wired(port(1, bond=1), port(2, bond=1), port(3), groups=1)
    task.ports[0].internal_info = {"tenant_vif_port_id": "alone"}
    assert place(task, "asks-for-the-group", portgroup_uuid="group-1") == 400
    assert [place(task, vif) for vif in "abc"] == [2, 3, 400]


def test_an_empty_group_is_no_place() -> None:
    assert place(wired(groups=1), "a") == 400


def test_a_group_on_two_physical_networks_is_refused() -> None:
    assert place(wired(port(1, network="p1", bond=1), port(2, network="p2", bond=1), groups=1), "a", "p1") == 409


def test_the_same_vif_again_is_a_conflict_even_without_a_free_port() -> None:
    task = wired(port(1))
    assert [place(task, "a"), place(task, "a")] == [1, 409]


def test_a_service_network_hides_the_tenants_vif_but_does_not_replace_it() -> None:
    network = NoopNetwork(config.load(environment={}))
    busy = port(1)
    busy.internal_info = {"tenant_vif_port_id": "tenant", "cleaning_vif_port_id": "cleaning"}
    assert network.get_current_vif(busy) == "cleaning"
    assert network.vif_list(wired(busy)) == [{"id": "tenant"}]


def test_a_node_in_any_state_takes_vifs(api: Application) -> None:
    for state in ("enroll", "manageable", "available", "active", "deploy failed"):
        node = api.enrol()[0]
        add_port(api, node)
        put(api, node, provision_state=state)
        name = f"in-{state.replace(' ', '-')}"
        assert api.request("POST", f"/v1/nodes/{node}/vifs", {"id": name}).status == 204
        assert api.request("DELETE", f"/v1/nodes/{node}/vifs/{name}").status == 204
