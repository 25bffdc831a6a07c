"""Allocations: somebody asks for a node of a kind and gets one, or hears why not."""

from __future__ import annotations

import time
from typing import Any

import pytest
from sqlalchemy import text

from holdfast import invariants
from holdfast.baremetal import allocations
from tests.application import Application
from tests.baremetal.wiring import lock, put

CLASS = {"resource_class": "big"}


def settled(api: Application, ident: str) -> dict[str, Any]:
    """The allocation once nobody looks for a node any more."""
    until = time.monotonic() + 30
    while (found := api.send("GET", f"/v1/allocations/{ident}"))["state"] == "allocating":
        assert time.monotonic() < until, found
        time.sleep(0.01)
    document: dict[str, Any] = found
    return document


def allocate(api: Application, **fields: Any) -> dict[str, Any]:
    return settled(api, api.send("POST", "/v1/allocations", {**CLASS, **fields})["uuid"])


@pytest.fixture
def free(api: Application) -> list[str]:
    """Three nodes anybody may have."""
    return api.enrol(3, state="available", name="free", **CLASS)


def test_an_allocation_gets_a_free_node_and_both_know(api: Application, free: list[str]) -> None:
    created = api.request("POST", "/v1/allocations", {**CLASS, "name": "mine", "extra": {"a": 1}})
    assert created.status == 201
    assert created.headers["location"].endswith(f"/v1/allocations/{created.json['uuid']}")
    assert created.json["state"] in ("allocating", "active")
    allocation = settled(api, "mine")
    assert (allocation["state"], allocation["last_error"], allocation["extra"]) == ("active", None, {"a": 1})
    assert allocation["node_uuid"] in free
    node = api.send("GET", f"/v1/nodes/{allocation['node_uuid']}")
    assert node["instance_uuid"] == node["allocation_uuid"] == allocation["uuid"]
    assert api.send("GET", f"/v1/nodes/{node['uuid']}/allocation")["uuid"] == allocation["uuid"]
    assert invariants.violations(api.services) == []


def test_traits_must_all_be_there_and_are_asked_of_the_instance(api: Application, free: list[str]) -> None:
    api.send("PUT", f"/v1/nodes/{free[0]}/traits", {"traits": ["CUSTOM_A"]})
    api.send("PUT", f"/v1/nodes/{free[1]}/traits", {"traits": ["CUSTOM_A", "CUSTOM_B", "CUSTOM_C"]})
    allocation = allocate(api, traits=["CUSTOM_A", "CUSTOM_B"])
    assert (allocation["node_uuid"], allocation["traits"]) == (free[1], ["CUSTOM_A", "CUSTOM_B"])
    node = api.send("GET", f"/v1/nodes/{free[1]}")
    assert node["instance_info"]["traits"] == ["CUSTOM_A", "CUSTOM_B"]


def test_candidates_may_be_named_and_no_other_is_taken(api: Application, free: list[str]) -> None:
    allocation = allocate(api, candidate_nodes=["free-2", free[1], "free-2"])
    assert allocation["candidate_nodes"] == [free[2], free[1]]
    assert allocation["node_uuid"] in free[1:]
    assert allocate(api, candidate_nodes=[allocation["node_uuid"]])["state"] == "error"


def test_an_owner_gets_nodes_it_owns_or_leases_only(api: Application, free: list[str]) -> None:
    put(api, free[0], owner="p1")
    put(api, free[1], owner="other", lessee="p1")
    got = {allocate(api, owner="p1")["node_uuid"] for _ in range(2)}
    assert got == set(free[:2])
    failed = allocate(api, owner="p1")
    assert failed["state"] == "error"
    assert "for project p1" in failed["last_error"]


@pytest.mark.parametrize(
    "columns",
    [
        {"provision_state": "manageable"},
        {"maintenance": True},
        {"power_state": None},
        {"retired": True},
        {"resource_class": "small"},
        {"instance_uuid": "7c1c5e4f-53b4-4b5f-8f3c-0a7a4a4d8b5e"},
        {"reservation": "clean_node/5d6f5d3c-6a0b-4a43-9d3d-9d2f7f1a0c11"},
    ],
    ids=str,
)
def test_a_node_that_is_not_free_is_not_given(api: Application, columns: dict[str, Any]) -> None:
    (node,) = api.enrol(state="available", **CLASS)
    put(api, node, **columns)
    failed = allocate(api)
    assert (failed["state"], failed["node_uuid"]) == ("error", None)
    assert "resource class big" in failed["last_error"]
    put(api, node, reservation=None)


def test_the_error_tells_whether_there_is_none_or_none_free(api: Application, free: list[str]) -> None:
    assert allocate(api, resource_class="no-such")["last_error"] == "There is no node with resource class no-such."
    put(api, free[0], maintenance=True)
    put(api, free[1], provision_state="active", instance_uuid=free[1])
    put(api, free[2], provision_state="active", instance_uuid=free[2])
    assert allocate(api)["last_error"] == (
        "No node with resource class big is free: there are 3, of which 1 are available, "
        "but locked, in maintenance, or their power state is not known."
    )


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"resource_class": ""}, 400),
        ({**CLASS, "traits": ["lower"]}, 400),
        ({**CLASS, "traits": "CUSTOM_A"}, 400),
        ({**CLASS, "candidate_nodes": ["nobody"]}, 400),
        ({**CLASS, "name": "with space"}, 400),
        ({**CLASS, "state": "active"}, 400),
        ({**CLASS, "node_uuid": None}, 400),
        ({**CLASS, "name": "taken"}, 409),
        ({**CLASS, "uuid": "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"}, 409),
    ],
)
def test_a_request_that_makes_no_sense_leaves_nothing(api: Application, body: dict[str, Any], status: int) -> None:
    api.send("POST", "/v1/allocations", {**CLASS, "name": "taken", "uuid": "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"})
    settled(api, "taken")
    assert api.request("POST", "/v1/allocations", body).status == status
    assert len(api.send("GET", "/v1/allocations")["allocations"]) == 1
    assert invariants.violations(api.services) == []


def test_lists_are_filtered(api: Application, free: list[str]) -> None:
    first = allocate(api, name="first", owner=None)
    allocate(api, resource_class="none", owner="p2")
    for query, count in (
        ("state=active", 1),
        ("state=error", 1),
        ("resource_class=big", 1),
        ("owner=p2", 1),
        (f"node={first['node_uuid']}", 1),
        ("owner=nobody", 0),
        ("", 2),
    ):
        assert len(api.send("GET", f"/v1/allocations?{query}")["allocations"]) == count, query
    assert api.request("GET", "/v1/allocations?state=odd").status == 400
    assert api.request("GET", "/v1/allocations?node=unknown").status == 404


def test_name_and_extra_may_change_and_nothing_else(api: Application, free: list[str]) -> None:
    uuid = allocate(api)["uuid"]
    patch = [{"op": "add", "path": "/name", "value": "new"}, {"op": "add", "path": "/extra/a", "value": 1}]
    changed = api.request("PATCH", f"/v1/allocations/{uuid}", patch)
    assert (changed.json["name"], changed.json["extra"], changed.json["state"]) == ("new", {"a": 1}, "active")
    for path in ("/owner", "/resource_class", "/state", "/node_uuid", "/traits"):
        refused = api.request("PATCH", f"/v1/allocations/{uuid}", [{"op": "add", "path": path, "value": "x"}])
        assert refused.status == 400
    allocate(api, name="other")
    patch = [{"op": "add", "path": "/name", "value": "other"}]
    assert api.request("PATCH", f"/v1/allocations/{uuid}", patch).status == 409


def test_deleting_it_frees_the_node_and_forgets_what_its_user_said(api: Application, free: list[str]) -> None:
    node = allocate(api, name="mine")["node_uuid"]
    api.send("PATCH", f"/v1/nodes/{node}", [{"op": "add", "path": "/instance_info/image_source", "value": "x"}])
    assert api.request("DELETE", "/v1/allocations/mine").status == 204
    assert api.request("GET", "/v1/allocations/mine").status == 404
    shown = api.send("GET", f"/v1/nodes/{node}")
    assert (shown["instance_uuid"], shown["allocation_uuid"], shown["instance_info"]) == (None, None, {})
    assert api.request("GET", f"/v1/nodes/{node}/allocation").status == 404
    assert invariants.violations(api.services) == []


def test_it_can_be_deleted_through_its_node(api: Application, free: list[str]) -> None:
    allocation = allocate(api)
    assert api.request("DELETE", f"/v1/nodes/{allocation['node_uuid']}/allocation").status == 204
    assert api.request("GET", f"/v1/allocations/{allocation['uuid']}").status == 404


def test_an_instance_in_use_keeps_its_allocation_unless_in_maintenance(api: Application, free: list[str]) -> None:
    allocation = allocate(api)
    node, path = allocation["node_uuid"], f"/v1/allocations/{allocation['uuid']}"
    api.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": "active"})
    api.settle(node, "active")
    assert api.request("DELETE", path).status == 409
    removal = [{"op": "remove", "path": "/instance_uuid"}]
    assert api.request("PATCH", f"/v1/nodes/{node}", removal).status == 409
    api.send("PUT", f"/v1/nodes/{node}/maintenance", {})
    assert api.request("DELETE", path).status == 204
    assert api.send("GET", f"/v1/nodes/{node}")["instance_uuid"] is None


def test_a_locked_node_keeps_its_allocation(api: Application, free: list[str]) -> None:
    allocation = allocate(api)
    lock(api, allocation["node_uuid"])
    assert api.request("DELETE", f"/v1/allocations/{allocation['uuid']}").json["code"] == "node-locked"
    put(api, allocation["node_uuid"], reservation=None)


def test_undeploying_and_deleting_the_node_end_it(api: Application, free: list[str]) -> None:
    first, second = allocate(api), allocate(api)
    node = first["node_uuid"]
    api.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": "active"})
    api.settle(node, "active")
    api.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": "deleted"})
    api.settle(node, "available")
    assert api.request("GET", f"/v1/allocations/{first['uuid']}").status == 404
    api.send("PUT", f"/v1/nodes/{second['node_uuid']}/maintenance", {})
    api.send("DELETE", f"/v1/nodes/{second['node_uuid']}")
    assert api.request("GET", f"/v1/allocations/{second['uuid']}").status == 404
    assert invariants.violations(api.services) == []


def test_removing_the_instance_from_the_node_ends_it(api: Application, free: list[str]) -> None:
    allocation = allocate(api)
    removal = [{"op": "remove", "path": "/instance_uuid"}]
    assert api.request("PATCH", f"/v1/nodes/{allocation['node_uuid']}", removal).status == 200
    assert api.request("GET", f"/v1/allocations/{allocation['uuid']}").status == 404


def test_the_owner_of_a_node_with_somebodys_allocation_stays(api: Application, free: list[str]) -> None:
    put(api, free[0], owner="p1")
    node = allocate(api, owner="p1")["node_uuid"]
    patch = [{"op": "add", "path": "/owner", "value": "p2"}]
    assert api.request("PATCH", f"/v1/nodes/{node}", patch).status == 409


# -- for nodes that are in use already


def test_an_active_node_gets_an_allocation_afterwards(api: Application) -> None:
    (node,) = api.enrol(state="active", name="used", **CLASS)
    created = api.request("POST", "/v1/allocations", {"node": "used", "name": "late"})
    assert created.status == 201
    assert (created.json["state"], created.json["node_uuid"], created.json["resource_class"]) == ("active", node, "big")
    assert api.send("GET", f"/v1/nodes/{node}")["instance_uuid"] == created.json["uuid"]
    assert invariants.violations(api.services) == []


def test_it_takes_the_uuid_of_the_instance_that_is_there(api: Application) -> None:
    (node,) = api.enrol(state="active", **CLASS)
    instance = "7c1c5e4f-53b4-4b5f-8f3c-0a7a4a4d8b5e"
    put(api, node, instance_uuid=instance)
    assert api.send("POST", "/v1/allocations", {"node": node})["uuid"] == instance


@pytest.mark.parametrize(
    ("state", "body", "status"),
    [
        ("available", {}, 409),
        ("active", {"resource_class": "small"}, 409),
        ("active", {"traits": ["CUSTOM_A"]}, 409),
        ("active", {"uuid": "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"}, 409),
        ("active", {"node": "unknown"}, 400),
        ("active", {"candidate_nodes": ["other"]}, 400),
    ],
)
def test_a_node_that_does_not_fit_gets_none(api: Application, state: str, body: dict[str, Any], status: int) -> None:
    (node,) = api.enrol(state=state, **CLASS)
    api.enrol(name="other")
    if "uuid" in body:
        put(api, node, instance_uuid="7c1c5e4f-53b4-4b5f-8f3c-0a7a4a4d8b5e")
    assert api.request("POST", "/v1/allocations", {"node": node, **body}).status == status
    assert api.send("GET", "/v1/allocations")["allocations"] == []


@pytest.mark.parametrize(("version", "status"), [("1.57", 406), ("1.58", 201)])
def test_the_node_came_with_1_58(api: Application, version: str, status: int) -> None:
    (node,) = api.enrol(state="active", **CLASS)
    assert api.request("POST", "/v1/allocations", {"node": node}, version=version).status == status


def test_the_nodes_of_a_trait_are_found_by_its_index(api: Application, free: list[str]) -> None:
    row = type("Wanted", (), {**CLASS, "traits": '["CUSTOM_A", "CUSTOM_B"]', "candidate_nodes": "[]", "owner": None})
    from sqlalchemy import select

    from holdfast.db.tables import nodes

    query = select(nodes.c.id).where(*allocations._matches(row))  # type: ignore[arg-type]
    compiled = query.compile(api.services.db.reader, compile_kwargs={"literal_binds": True})
    with api.services.db.read() as connection:
        plan = "\n".join(str(step) for step in connection.execute(text(f"EXPLAIN QUERY PLAN {compiled}")))
    assert "ix_node_traits_trait" in plan
    assert "SCAN node_traits" not in plan
