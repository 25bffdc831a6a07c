"""/v1/portgroups: ports of a node that its switch bonds."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import errors
from holdfast.baremetal.drivers.noop import NoopNetwork
from holdfast.baremetal.task import Portgroup, Task
from tests.application import Application
from tests.baremetal.wiring import add_group, add_port, claims, lock, mac, put, remove, replace

UNKNOWN = "7f6d3c1e-0d6b-4c57-8f0b-1f1a4d1c9b11"


@pytest.fixture(scope="module")
def api(shared_either_api: Application) -> Application:
    return shared_either_api


@pytest.fixture
def node(api: Application) -> str:
    return api.enrol()[0]


# -- creating and showing


def test_a_new_group_has_defaults_and_links(api: Application, node: str) -> None:
    answer = api.request("POST", "/v1/portgroups", {"node_uuid": node})
    assert answer.status == 201
    group = answer.json
    base, path = "http://127.0.0.1:6385/baremetal", f"portgroups/{group['uuid']}"
    assert answer.headers["location"] == f"{base}/v1/{path}"
    assert group["ports"] == [
        {"href": f"{base}/v1/{path}/ports", "rel": "self"},
        {"href": f"{base}/{path}/ports", "rel": "bookmark"},
    ]
    expected = {
        "name": None,
        "address": None,
        "node_uuid": node,
        "standalone_ports_supported": True,
        "extra": {},
        "internal_info": {},
        "mode": "active-backup",
        "properties": {},
        "updated_at": None,
    }
    assert {name: group[name] for name in expected} == expected
    assert api.send("GET", f"/v1/{path}") == group


def test_a_new_group_keeps_what_it_is_given(api: Application, node: str) -> None:
    given = {
        "uuid": "c2d7a1f2-5f3a-4f70-8f1d-6b3a0f6f2c10",
        "name": "bond0.rack~7",
        "address": mac(),
        "standalone_ports_supported": False,
        "extra": {"a": 1},
        "mode": "802.3ad",
        "properties": {"miimon": 100, "xmit_hash_policy": "layer3+4"},
    }
    group = add_group(api, node, **given)
    assert {name: group[name] for name in given} == given
    assert api.send("GET", "/v1/portgroups/bond0.rack~7") == group


def test_the_default_mode_is_configured(api: Application, node: str) -> None:
    api.services.conf.set_override("default_portgroup_mode", "802.3ad")
    try:
        assert add_group(api, node)["mode"] == "802.3ad"
        old = api.request("POST", "/v1/portgroups", {"node_uuid": node}, version="1.25").json
    finally:
        api.services.conf.clear_override("default_portgroup_mode")
    assert api.send("GET", f"/v1/portgroups/{old['uuid']}")["mode"] == "802.3ad"


def test_groups_came_with_1_23_and_their_lists_with_1_24(api: Application, node: str) -> None:
    group, port = add_group(api, node), add_port(api, node)
    api.send("PATCH", f"/v1/ports/{port['uuid']}", replace("/portgroup_uuid", group["uuid"]))
    one = f"/v1/portgroups/{group['uuid']}"
    for method, path, body in (
        ("GET", "/v1/portgroups", None),
        ("GET", "/v1/portgroups/detail", None),
        ("POST", "/v1/portgroups", {"node_uuid": node}),
        ("GET", one, None),
        ("PATCH", one, []),
        ("DELETE", one, None),
    ):
        assert api.request(method, path, body, version="1.22").status == 404
    assert api.request("GET", one, version="1.23").status == 200
    for path in (f"/v1/nodes/{node}/portgroups", f"{one}/ports"):
        assert api.request("GET", path, version="1.23").status == 404
        assert api.request("GET", path, version="1.24").status == 200


@pytest.mark.parametrize(("field", "value"), [("mode", "802.3ad"), ("properties", {"miimon": 100})])
def test_mode_and_properties_came_with_1_26(api: Application, node: str, field: str, value: Any) -> None:
    path = f"/v1/portgroups/{add_group(api, node)['uuid']}"
    assert field not in api.request("GET", path, version="1.25").json
    assert field in api.request("GET", path, version="1.26").json
    assert api.request("GET", f"{path}?fields={field}", version="1.25").status == 406
    assert api.request("PATCH", path, replace(f"/{field}", value), version="1.25").status == 406
    body = {"node_uuid": node, field: value}
    assert api.request("POST", "/v1/portgroups", body, version="1.25").status == 406


@pytest.mark.parametrize(
    "body",
    [
        {"node_uuid": None},
        {"node_uuid": UNKNOWN},
        {"name": "has space"},
        {"name": "x" * 256},
        {"name": UNKNOWN},
        {"name": "detail"},
        {"address": "nonsense"},
        {"mode": ""},
        {"mode": 4},
        {"properties": []},
        {"standalone_ports_supported": "perhaps"},
        {"internal_info": {}},
        {"colour": "red"},
    ],
)
def test_malformed_groups_are_refused(api: Application, node: str, body: dict[str, Any]) -> None:
    assert api.request("POST", "/v1/portgroups", {"node_uuid": node} | body).status == 400
    assert api.send("GET", f"/v1/nodes/{node}/portgroups")["portgroups"] == []


@pytest.mark.parametrize("field", ["uuid", "name", "address"])
def test_names_addresses_and_uuids_are_unique(api: Application, node: str, field: str) -> None:
    group = add_group(api, node, name=f"unique-{field}", address=mac())
    body = {"node_uuid": api.enrol()[0], field: group[field]}
    answer = api.request("POST", "/v1/portgroups", body)
    assert (answer.status, answer.json["code"]) == (409, "duplicate")
    assert group[field] in answer.text
    if field != "uuid":
        other = add_group(api, node)
        patch = replace(f"/{field}", group[field])
        assert api.request("PATCH", f"/v1/portgroups/{other['uuid']}", patch).status == 409


# -- lists


def test_lists_are_short_unless_detail_is_asked_for(api: Application, node: str) -> None:
    group = add_group(api, node, name="short-or-detailed", address=mac())
    short = {name: group[name] for name in ("uuid", "address", "name", "links")}
    assert api.send("GET", f"/v1/portgroups?node={node}")["portgroups"] == [short]
    for path in ("/v1/portgroups/detail?x=", "/v1/portgroups?detail=true&x="):
        assert api.send("GET", path.replace("x=", f"node={node}"))["portgroups"] == [group]
    assert api.request("GET", "/v1/portgroups?detail=true", version="1.42").status == 400
    fields = api.send("GET", f"/v1/portgroups?node={node}&fields=mode")["portgroups"]
    assert fields == [{"mode": "active-backup", "links": group["links"]}]


def test_groups_are_found_by_node_and_address_together(api: Application) -> None:
    node = api.enrol(name="two-filters")[0]
    group, _other = add_group(api, node, address=mac()), add_group(api, node, address=mac())
    # Nova asks for the group of a MAC connector this way, with both.
    for query in (
        f"address={group['address'].upper()}",
        f"node={node}&address={group['address']}",
        f"node=two-filters&address={group['address']}",
    ):
        found = api.send("GET", f"/v1/portgroups/detail?{query}")["portgroups"]
        assert [entry["uuid"] for entry in found] == [group["uuid"]]
    assert api.send("GET", f"/v1/portgroups?address={mac()}")["portgroups"] == []
    assert api.request("GET", f"/v1/portgroups?node={UNKNOWN}").status == 404


@pytest.mark.parametrize("tail", ["portgroups", "portgroups/detail"])
def test_a_node_lists_its_groups_by_uuid_and_by_name(api: Application, tail: str) -> None:
    name = f"has-{tail.replace('/', '-')}"
    node = api.enrol(name=name)[0]
    created = [add_group(api, node)["uuid"] for _ in range(3)]
    for ident in (node, name):
        page = api.send("GET", f"/v1/nodes/{ident}/{tail}?limit=2")
        assert f"/v1/nodes/{node}/{tail}?" in page["next"]
        rest = api.send("GET", page["next"].partition("/baremetal")[2])
        assert [group["uuid"] for group in page["portgroups"] + rest["portgroups"]] == created
        assert ("mode" in rest["portgroups"][0]) is ("detail" in tail)


@pytest.mark.parametrize("tail", ["ports", "ports/detail"])
def test_a_group_lists_its_ports_by_uuid_and_by_name(api: Application, node: str, tail: str) -> None:
    name = f"bond-{tail.replace('/', '-')}"
    group = add_group(api, node, name=name)["uuid"]
    created = [add_port(api, node, portgroup_uuid=group)["uuid"] for _ in range(3)]
    add_port(api, node)
    for ident in (group, name):
        page = api.send("GET", f"/v1/portgroups/{ident}/{tail}?limit=2&sort_key=address")
        assert f"/v1/portgroups/{group}/{tail}?limit=2&sort_key=address&marker=" in page["next"]
        rest = api.send("GET", page["next"].partition("/baremetal")[2])
        assert [port["uuid"] for port in page["ports"] + rest["ports"]] == created
        assert ("node_uuid" in rest["ports"][0]) is ("detail" in tail)
    assert api.request("GET", f"/v1/portgroups/{UNKNOWN}/{tail}").status == 404


@pytest.mark.parametrize("path", ["/v1/portgroups/detail?x=", "/v1/nodes/{node}/portgroups?x="])
def test_a_list_of_any_length_takes_the_same_queries(api: Application, path: str) -> None:
    counts = []
    for length in (1, 50):
        node = api.enrol()[0]
        for _ in range(length):
            add_group(api, node)
        with api.counted() as statements:
            target = path.format(node=node).replace("x=", f"node={node}")
            assert len(api.send("GET", target)["portgroups"]) == length
        counts.append(len(statements))
    assert counts[0] == counts[1] <= 2


@pytest.mark.parametrize(("ident", "status"), [(UNKNOWN, 404), ("nobody", 404), ("has%20space", 400)])
def test_unknown_groups(api: Application, ident: str, status: int) -> None:
    for method, body in (("GET", None), ("PATCH", []), ("DELETE", None)):
        assert api.request(method, f"/v1/portgroups/{ident}", body).status == status


# -- changing


def test_a_group_can_be_changed_by_name(api: Application, node: str) -> None:
    add_group(api, node, name="before", extra={"a": 1})
    address = mac()
    patch = [
        {"op": "replace", "path": "/name", "value": "after"},
        {"op": "replace", "path": "/address", "value": address},
        {"op": "add", "path": "/properties/miimon", "value": 100},
        {"op": "replace", "path": "/mode", "value": "balance-rr"},
        {"op": "remove", "path": "/extra/a"},
        {"op": "replace", "path": "/standalone_ports_supported", "value": False},
    ]
    changed = api.send("PATCH", "/v1/portgroups/before", patch)
    expected = {
        "name": "after",
        "address": address,
        "properties": {"miimon": 100},
        "mode": "balance-rr",
        "extra": {},
        "standalone_ports_supported": False,
    }
    assert {name: changed[name] for name in expected} == expected
    cleared = api.send("PATCH", "/v1/portgroups/after", [*remove("/name"), *remove("/address")])
    assert (cleared["name"], cleared["address"]) == (None, None)


@pytest.mark.parametrize(
    "patch",
    [
        remove("/mode"),
        replace("/mode", None),
        remove("/node_uuid"),
        replace("/node_uuid", UNKNOWN),
        replace("/name", "has space"),
        replace("/name", "detail"),
        replace("/internal_info", {}),
        replace("/uuid", UNKNOWN),
    ],
)
def test_a_wrong_patch_changes_nothing(api: Application, node: str, patch: Any) -> None:
    group = add_group(api, node)
    path = f"/v1/portgroups/{group['uuid']}"
    assert api.request("PATCH", path, patch).status == 400
    assert api.send("GET", path) == group


def test_a_group_must_support_the_ports_it_has(api: Application, node: str) -> None:
    group = add_group(api, node)["uuid"]
    port = add_port(api, node, portgroup_uuid=group)["uuid"]
    patch = replace("/standalone_ports_supported", False)
    assert api.request("PATCH", f"/v1/portgroups/{group}", patch).status == 409
    used = {"pxe_enabled": False, "extra": {"vif_port_id": "on-a-member"}}
    api.send("PATCH", f"/v1/ports/{port}", [o for name, value in used.items() for o in replace(f"/{name}", value)])
    assert api.request("PATCH", f"/v1/portgroups/{group}", patch).status == 409
    api.send("DELETE", f"/v1/nodes/{node}/vifs/on-a-member")
    assert api.request("PATCH", f"/v1/portgroups/{group}", patch).status == 200


def test_only_an_empty_group_goes_to_another_node(api: Application, node: str) -> None:
    group = add_group(api, node)["uuid"]
    port = add_port(api, node, portgroup_uuid=group)["uuid"]
    home = api.enrol()[0]
    move = replace("/node_uuid", home)
    full = api.request("PATCH", f"/v1/portgroups/{group}", move)
    assert (full.status, full.json["code"]) == (400, "not-empty")
    api.send("DELETE", f"/v1/ports/{port}")
    for end in (node, home):
        put(api, end, provision_state="active")
        assert api.request("PATCH", f"/v1/portgroups/{group}", move).status == 409
        put(api, end, provision_state="manageable")
    lock(api, home)
    assert api.request("PATCH", f"/v1/portgroups/{group}", move).json["code"] == "node-locked"
    put(api, home, reservation=None)
    assert api.send("PATCH", f"/v1/portgroups/{group}", move)["node_uuid"] == home


def test_groups_are_closed_during_inspection_for_clients_that_know_of_it(api: Application, node: str) -> None:
    path = f"/v1/portgroups/{add_group(api, node)['uuid']}"
    put(api, node, provision_state="inspecting")
    assert api.request("PATCH", path, [], version="1.39").status == 409
    assert api.request("PATCH", path, [], version="1.38").status == 200


def test_the_groups_of_a_locked_node_cannot_change(api: Application, node: str) -> None:
    group = add_group(api, node)
    path = f"/v1/portgroups/{group['uuid']}"
    lock(api, node)
    requests: list[tuple[str, str, Any]] = [
        ("POST", "/v1/portgroups", {"node_uuid": node}),
        ("PATCH", path, []),
        ("PATCH", path, replace("/name", "locked")),
        ("DELETE", path, None),
    ]
    for method, target, body in requests:
        answer = api.request(method, target, body)
        assert (answer.status, answer.json["code"]) == (409, "node-locked")
    assert api.send("GET", path) == group


def test_the_network_interface_is_told_and_may_refuse(
    api: Application, node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = add_group(api, node)
    seen: list[tuple[str, str]] = []

    def refuse(_self: NoopNetwork, task: Task, changed: Portgroup) -> None:
        seen.append((task.portgroups[0].mode, changed.mode))
        raise errors.Conflict("The switch says no.")

    monkeypatch.setattr(NoopNetwork, "portgroup_changed", refuse)
    path = f"/v1/portgroups/{group['uuid']}"
    answer = api.request("PATCH", path, replace("/mode", "802.3ad"))
    assert (answer.status, answer.text) == (409, "The switch says no.")
    assert seen == [("active-backup", "802.3ad")]
    assert api.send("GET", path) == group


# -- deleting


def test_a_group_with_ports_is_not_deleted(api: Application, node: str) -> None:
    group = add_group(api, node, name="to-be-deleted")["uuid"]
    port = add_port(api, node, portgroup_uuid=group)["uuid"]
    answer = api.request("DELETE", f"/v1/portgroups/{group}")
    assert (answer.status, answer.json["code"]) == (400, "not-empty")
    api.send("PATCH", f"/v1/ports/{port}", remove("/portgroup_uuid"))
    deleted = api.request("DELETE", "/v1/portgroups/to-be-deleted")
    assert (deleted.status, deleted.content) == (204, b"")
    assert api.request("GET", f"/v1/portgroups/{group}").status == 404


def test_a_group_with_a_vif_is_deleted_in_maintenance_only(api: Application, node: str) -> None:
    group = add_group(api, node, extra={"vif_port_id": "on-a-deleted-group"})["uuid"]
    assert api.send("GET", f"/v1/nodes/{node}/vifs") == {"vifs": [{"id": "on-a-deleted-group"}]}
    answer = api.request("DELETE", f"/v1/portgroups/{group}")
    assert (answer.status, "on-a-deleted-group" in answer.text) == (409, True)
    move = replace("/node_uuid", api.enrol()[0])
    assert api.request("PATCH", f"/v1/portgroups/{group}", move).status == 409
    put(api, node, maintenance=True)
    assert api.request("DELETE", f"/v1/portgroups/{group}").status == 204
    assert "on-a-deleted-group" not in claims(api)


def test_a_vif_in_extra_of_a_group_is_attached_and_exclusive(api: Application, node: str) -> None:
    path = f"/v1/portgroups/{add_group(api, node)['uuid']}"
    api.send("PATCH", path, replace("/extra", {"vif_port_id": "group-legacy"}))
    body = {"node_uuid": api.enrol()[0], "extra": {"vif_port_id": "group-legacy"}}
    assert api.request("POST", "/v1/portgroups", body).status == 409
    twice = {"node_uuid": node, "address": mac(), "extra": {"vif_port_id": "group-legacy"}}
    assert api.request("POST", "/v1/ports", twice).status == 409
    api.send("PATCH", path, remove("/extra"))
    assert "group-legacy" not in claims(api)


def test_a_field_of_a_later_version_is_named_with_that_version(api: Application, node: str) -> None:
    answer = api.request("POST", "/v1/portgroups", {"node_uuid": node, "physical_network": "leaf-1"})
    assert answer.status == 406
    assert "1.102" in answer.text
