"""/v1/ports: the network cards of nodes."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from sqlalchemy import update

from holdfast import errors
from holdfast.baremetal import ports
from holdfast.baremetal.drivers.noop import NoopNetwork
from holdfast.baremetal.task import Port, Task
from holdfast.db import tables
from tests.application import Application
from tests.baremetal.wiring import add_group, add_port, claims, lock, mac, put, remove, replace

UNKNOWN = "7f6d3c1e-0d6b-4c57-8f0b-1f1a4d1c9b11"
LINK = {"switch_id": "0a:1b:2c:3d:4e:5f", "port_id": "Ethernet3/1", "switch_info": "tor-7"}


@pytest.fixture(scope="module")
def api(shared_either_api: Application) -> Application:
    return shared_either_api


@pytest.fixture
def node(api: Application) -> str:
    return api.enrol()[0]


# -- creating and showing


def test_a_new_port_has_defaults_and_links(api: Application, node: str) -> None:
    address = mac()
    answer = api.request("POST", "/v1/ports", {"node_uuid": node, "address": address.upper()})
    assert answer.status == 201
    port = answer.json
    base = "http://127.0.0.1:6385/baremetal"
    assert answer.headers["location"] == f"{base}/v1/ports/{port['uuid']}"
    assert port["links"] == [
        {"href": f"{base}/v1/ports/{port['uuid']}", "rel": "self"},
        {"href": f"{base}/ports/{port['uuid']}", "rel": "bookmark"},
    ]
    expected = {
        "address": address,
        "node_uuid": node,
        "extra": {},
        "internal_info": {},
        "pxe_enabled": True,
        "local_link_connection": {},
        "portgroup_uuid": None,
        "physical_network": None,
        "updated_at": None,
    }
    assert {name: port[name] for name in expected} == expected
    assert api.send("GET", f"/v1/ports/{port['uuid']}") == port
    assert api.send("GET", f"/ports/{port['uuid']}") == port  # as bookmark links spell it


def test_a_new_port_keeps_what_it_is_given(api: Application, node: str) -> None:
    group = add_group(api, node)
    given = {
        "uuid": "0b7a1f2e-93a4-4cd5-9a3f-0f5c4b8c7d21",
        "extra": {"rack": 7},
        "pxe_enabled": False,
        "local_link_connection": LINK,
        "portgroup_uuid": group["uuid"],
        "physical_network": "leaf-1",
    }
    port = add_port(api, node, **given)
    assert {name: port[name] for name in given} == given


FIELDS_SINCE = {
    "internal_info": "1.18",
    "pxe_enabled": "1.19",
    "local_link_connection": "1.19",
    "portgroup_uuid": "1.24",
    "physical_network": "1.34",
}


@pytest.mark.parametrize(("field", "since"), FIELDS_SINCE.items())
def test_fields_appear_with_the_version_that_brought_them(api: Application, node: str, field: str, since: str) -> None:
    before = f"1.{int(since[2:]) - 1}"
    uuid = add_port(api, node)["uuid"]
    path = f"/v1/ports/{uuid}"
    assert field in api.request("GET", path, version=since).json
    assert field not in api.request("GET", path, version=before).json
    assert api.request("GET", f"{path}?fields={field}", version=before).status == 406
    sortable = field not in ("internal_info", "local_link_connection")
    assert api.request("GET", f"/v1/ports?sort_key={field}", version=before).status == (406 if sortable else 400)


@pytest.mark.parametrize(
    ("field", "value"),
    [("pxe_enabled", False), ("local_link_connection", LINK), ("portgroup_uuid", None), ("physical_network", "x")],
)
def test_newer_fields_cannot_be_set_in_older_versions(api: Application, node: str, field: str, value: Any) -> None:
    before = f"1.{int(FIELDS_SINCE[field][2:]) - 1}"
    body = {"node_uuid": node, "address": mac(), field: value}
    assert api.request("POST", "/v1/ports", body, version=before).status == 406
    uuid = add_port(api, node)["uuid"]
    path = f"/v1/ports/{uuid}"
    assert api.request("PATCH", path, replace(f"/{field}", value), version=before).status == 406
    assert api.request("PATCH", path, remove(f"/{field}"), version=before).status == 200


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"address": "52:54:00:aa:bb:cc"},
        {"node_uuid": "NODE"},
        {"node_uuid": "NODE", "address": "52-54-00-aa-bb-cc"},
        {"node_uuid": "NODE", "address": "52:54:00:aa:bb"},
        {"node_uuid": "NODE", "address": None},
        {"node_uuid": "not-a-uuid", "address": "52:54:00:aa:bb:cc"},
        {"node_uuid": UNKNOWN, "address": "52:54:00:aa:bb:cc"},
        {"node_uuid": "NODE", "address": "52:54:00:aa:bb:cc", "portgroup_uuid": UNKNOWN},
        {"node_uuid": "NODE", "address": "52:54:00:aa:bb:cc", "physical_network": ""},
        {"node_uuid": "NODE", "address": "52:54:00:aa:bb:cc", "physical_network": "x" * 65},
        {"node_uuid": "NODE", "address": "52:54:00:aa:bb:cc", "pxe_enabled": "perhaps"},
        {"node_uuid": "NODE", "address": "52:54:00:aa:bb:cc", "internal_info": {}},
        {"node_uuid": "NODE", "address": "52:54:00:aa:bb:cc", "is_smartnic": True},
        {"node_uuid": "NODE", "address": "52:54:00:aa:bb:cc", "extra": []},
        {"node_uuid": "NODE", "address": "52:54:00:aa:bb:cc", "extra": {"vif_port_id": 7}},
    ],
)
def test_malformed_ports_are_refused(api: Application, node: str, body: dict[str, Any]) -> None:
    given = {name: node if value == "NODE" else value for name, value in body.items()}
    assert api.request("POST", "/v1/ports", given).status == 400
    assert api.send("GET", f"/v1/nodes/{node}/ports")["ports"] == []


def test_a_port_cannot_join_the_group_of_another_node(api: Application, node: str) -> None:
    elsewhere = add_group(api, api.enrol()[0])
    body = {"node_uuid": node, "address": mac(), "portgroup_uuid": elsewhere["uuid"]}
    assert api.request("POST", "/v1/ports", body).status == 400


def test_an_address_and_a_uuid_belong_to_one_port(api: Application, node: str) -> None:
    port = add_port(api, node)
    other = add_port(api, node)
    same_address = api.request("POST", "/v1/ports", {"node_uuid": node, "address": port["address"].upper()})
    assert (same_address.status, same_address.json["code"]) == (409, "duplicate")
    assert port["address"] in same_address.text
    body = {"node_uuid": node, "address": mac(), "uuid": port["uuid"]}
    assert api.request("POST", "/v1/ports", body).status == 409
    patch = replace("/address", port["address"])
    assert api.request("PATCH", f"/v1/ports/{other['uuid']}", patch).status == 409


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({}, {}),
        (LINK, LINK),
        (LINK | {"switch_id": "0A:1B:2C:3D:4E:5F"}, LINK),
        (LINK | {"switch_id": "00000A1B2C3D4E5F"}, LINK | {"switch_id": "00000a1b2c3d4e5f"}),
        ({"port_id": "p0", "hostname": "dpu-3"}, {"port_id": "p0", "hostname": "dpu-3"}),
        (None, {}),
    ],
)
def test_link_information_is_normalised(api: Application, node: str, given: Any, kept: Any) -> None:
    assert add_port(api, node, local_link_connection=given)["local_link_connection"] == kept


@pytest.mark.parametrize(
    "link",
    [
        {"port_id": "Ethernet3/1"},
        {"switch_id": "0a:1b:2c:3d:4e:5f"},
        {"switch_info": "tor-7"},
        LINK | {"switch_id": "tor-7"},
        LINK | {"switch_id": "0a1b2c3d4e5f"},
        LINK | {"vlan": "7"},
        LINK | {"port_id": 7},
        [],
        "tor-7",
    ],
)
def test_incomplete_link_information_is_refused(api: Application, node: str, link: Any) -> None:
    body = {"node_uuid": node, "address": mac(), "local_link_connection": link}
    assert api.request("POST", "/v1/ports", body).status == 400


# -- lists


def test_lists_are_short_unless_detail_is_asked_for(api: Application, node: str) -> None:
    port = add_port(api, node)
    assert api.send("GET", f"/v1/ports?node={node}")["ports"] == [
        {name: port[name] for name in ("uuid", "address", "links")}
    ]
    for path in (f"/v1/ports/detail?node={node}", f"/v1/ports?detail=True&node={node}"):
        assert api.send("GET", path)["ports"] == [port]
    assert api.request("GET", "/v1/ports?detail=True", version="1.42").status == 400
    fields = api.send("GET", f"/v1/ports?node={node}&fields=node_uuid,portgroup_uuid")["ports"]
    assert fields == [{"node_uuid": node, "portgroup_uuid": None, "links": port["links"]}]
    assert api.request("GET", "/v1/ports?fields=uuid", version="1.7").status == 406
    assert api.request("GET", "/v1/ports?fields=colour").status == 400


def test_ports_are_found_by_node_address_and_group(api: Application) -> None:
    name = "filtered-by"
    node = api.enrol(name=name)[0]
    group = add_group(api, node, name="filter-bond")
    single, member = add_port(api, node), add_port(api, node, portgroup_uuid=group["uuid"])
    add_port(api, api.enrol()[0])

    def found(query: str) -> list[str]:
        return [port["uuid"] for port in api.send("GET", f"/v1/ports?{query}")["ports"]]

    both = [single["uuid"], member["uuid"]]
    assert found(f"node={node}") == found(f"node={name}") == found(f"node_uuid={node}") == both
    assert found(f"address={single['address'].upper()}") == [single["uuid"]]
    assert found(f"address={mac()}") == []
    assert found(f"portgroup={group['uuid']}") == found("portgroup=filter-bond") == [member["uuid"]]
    assert found(f"node={node}&address={member['address']}") == [member["uuid"]]
    assert api.request("GET", "/v1/ports?address=nonsense").status == 400
    assert api.request("GET", f"/v1/ports?portgroup={group['uuid']}", version="1.23").status == 406
    assert api.request("GET", f"/v1/ports?node={name}", version="1.4").status == 404
    for unknown in (f"node={UNKNOWN}", "node=nobody", f"portgroup={UNKNOWN}"):
        assert api.request("GET", f"/v1/ports?{unknown}").status == 404
    assert api.request("GET", "/v1/ports?colour=red").status == 400


def test_the_next_page_keeps_every_argument(api: Application, node: str) -> None:
    wanted = [add_port(api, node)["uuid"] for _ in range(5)]
    add_port(api, api.enrol()[0])
    page = api.send("GET", f"/v1/ports/detail?node={node}&limit=2&sort_key=address&sort_dir=desc")
    seen = [port["uuid"] for port in page["ports"]]
    while "next" in page:
        assert "/v1/ports/detail?" in page["next"]
        page = api.send("GET", page["next"].partition("/baremetal")[2])
        seen += [port["uuid"] for port in page["ports"]]
    assert seen == wanted[::-1]


@pytest.mark.parametrize("tail", ["ports", "ports/detail"])
def test_a_node_lists_its_ports_by_uuid_and_by_name(api: Application, tail: str) -> None:
    name = f"lists-{tail.replace('/', '-')}"
    node = api.enrol(name=name)[0]
    created = [add_port(api, node) for _ in range(3)]
    expected = created if "detail" in tail else [{k: p[k] for k in ("uuid", "address", "links")} for p in created]
    for ident in (node, name):
        assert api.send("GET", f"/v1/nodes/{ident}/{tail}")["ports"] == expected
        page = api.send("GET", f"/v1/nodes/{ident}/{tail}?limit=2")
        assert f"/v1/nodes/{node}/{tail}?limit=2&marker=" in page["next"]
        assert api.send("GET", page["next"].partition("/baremetal")[2])["ports"] == expected[2:]
    assert api.request("GET", f"/v1/nodes/{UNKNOWN}/{tail}").status == 404
    assert api.request("GET", f"/v1/nodes/{name}/{tail}", version="1.4").status == 404


@pytest.mark.parametrize("path", ["/v1/ports?x=", "/v1/ports/detail?x=", "/v1/nodes/{node}/ports/detail?x="])
def test_a_list_of_any_length_takes_the_same_queries(api: Application, path: str) -> None:
    counts = []
    for length in (1, 50):
        node = api.enrol()[0]
        group = add_group(api, node)
        for _ in range(length):
            add_port(api, node, portgroup_uuid=group["uuid"])
        target = path.format(node=node).replace("x=", f"node={node}")
        with api.counted() as statements:
            assert len(api.send("GET", target)["ports"]) == length
        counts.append(len(statements))
    assert counts[0] == counts[1] <= 2


@pytest.mark.parametrize("path", ["/v1/ports/junk", "/v1/ports/52:54:00:00:00:01"])
def test_ports_are_named_by_uuid(api: Application, path: str) -> None:
    for method, body in (("GET", None), ("PATCH", []), ("DELETE", None)):
        assert api.request(method, path, body).status == 400
        assert api.request(method, f"/v1/ports/{UNKNOWN}", body).status == 404


# -- changing


def test_a_port_can_be_changed(api: Application, node: str) -> None:
    group = add_group(api, node)
    port = add_port(api, node, extra={"a": 1})
    address = mac()
    patch = [
        {"op": "replace", "path": "/address", "value": address},
        {"op": "add", "path": "/extra/b", "value": 2},
        {"op": "remove", "path": "/extra/a"},
        {"op": "add", "path": "/local_link_connection", "value": LINK},
        {"op": "add", "path": "/portgroup_uuid", "value": group["uuid"]},
        {"op": "add", "path": "/physical_network", "value": "leaf-1"},
        {"op": "add", "path": "/pxe_enabled", "value": "false"},
    ]
    answer = api.request("PATCH", f"/v1/ports/{port['uuid']}", patch)
    assert answer.status == 200
    expected = {
        "address": address,
        "extra": {"b": 2},
        "local_link_connection": LINK,
        "portgroup_uuid": group["uuid"],
        "physical_network": "leaf-1",
        "pxe_enabled": False,
    }
    assert {name: answer.json[name] for name in expected} == expected
    assert answer.json["updated_at"] is not None
    cleared = [{"op": "remove", "path": f"/{name}"} for name in expected if name != "address"]
    after = api.send("PATCH", f"/v1/ports/{port['uuid']}", cleared)
    defaults = {
        "extra": {},
        "local_link_connection": {},
        "portgroup_uuid": None,
        "physical_network": None,
        "pxe_enabled": True,
    }
    assert {name: after[name] for name in defaults} == defaults


@pytest.mark.parametrize(
    "patch",
    [
        remove("/address"),
        remove("/node_uuid"),
        replace("/address", "nonsense"),
        replace("/uuid", UNKNOWN),
        replace("/internal_info", {}),
        replace("/created_at", None),
        replace("/node_uuid", UNKNOWN),
        replace("/portgroup_uuid", UNKNOWN),
        replace("/physical_network", ""),
        replace("/local_link_connection/vlan", "7"),
        replace("/extra/missing", 1),
        [{"op": "test", "path": "/extra", "value": {}}],
        {"op": "remove", "path": "/extra"},
    ],
)
def test_a_wrong_patch_changes_nothing(api: Application, node: str, patch: Any) -> None:
    port = add_port(api, node)
    assert api.request("PATCH", f"/v1/ports/{port['uuid']}", patch).status == 400
    assert api.send("GET", f"/v1/ports/{port['uuid']}") == port


def test_an_empty_patch_is_answered_with_the_port(api: Application, node: str) -> None:
    port = add_port(api, node)
    assert api.send("PATCH", f"/v1/ports/{port['uuid']}", []) == port


def test_a_port_can_go_to_another_node(api: Application, node: str) -> None:
    port = add_port(api, node)
    home = api.enrol()[0]
    patch = replace("/node_uuid", home)
    assert api.send("PATCH", f"/v1/ports/{port['uuid']}", patch)["node_uuid"] == home
    assert [p["uuid"] for p in api.send("GET", f"/v1/nodes/{home}/ports")["ports"]] == [port["uuid"]]
    put(api, node, provision_state="active")
    assert api.request("PATCH", f"/v1/ports/{port['uuid']}", replace("/node_uuid", node)).status == 409


CHANGES: dict[str, Any] = {
    "pxe_enabled": False,
    "local_link_connection": LINK,
    "physical_network": "leaf-1",
    "portgroup_uuid": "GROUP",
}


@pytest.mark.parametrize("field", CHANGES)
@pytest.mark.parametrize(
    ("state", "maintenance", "status"),
    [
        ("enroll", False, 200),
        ("manageable", False, 200),
        ("inspect wait", False, 200),
        ("available", False, 409),
        ("active", False, 409),
        ("clean wait", False, 409),
        ("active", True, 200),
    ],
)
def test_wiring_changes_only_before_a_node_is_offered(
    api: Application, node: str, field: str, state: str, maintenance: bool, status: int
) -> None:
    group = add_group(api, node)
    port = add_port(api, node)
    put(api, node, provision_state=state, maintenance=maintenance)
    value = group["uuid"] if CHANGES[field] == "GROUP" else CHANGES[field]
    assert api.request("PATCH", f"/v1/ports/{port['uuid']}", replace(f"/{field}", value)).status == status
    # What says nothing about the wiring may always change.
    assert api.request("PATCH", f"/v1/ports/{port['uuid']}", replace("/extra", {"note": state})).status == 200


@pytest.mark.parametrize(
    ("columns", "status"),
    [
        ({"provision_state": "available"}, 200),
        ({"provision_state": "active"}, 409),
        ({"instance_uuid": "11111111-2222-4333-8444-555555555555"}, 409),
        ({"provision_state": "active", "maintenance": True}, 200),
    ],
)
def test_the_address_of_a_port_in_use_stays(api: Application, node: str, columns: dict[str, Any], status: int) -> None:
    port = add_port(api, node)
    put(api, node, **columns)
    try:
        answer = api.request("PATCH", f"/v1/ports/{port['uuid']}", replace("/address", mac()))
    finally:
        put(api, node, instance_uuid=None)
    assert answer.status == status


def test_ports_are_closed_during_inspection_for_clients_that_know_of_it(api: Application, node: str) -> None:
    path = f"/v1/ports/{add_port(api, node)['uuid']}"
    put(api, node, provision_state="inspecting")
    for patch in ([], replace("/extra", {"a": 1})):
        assert api.request("PATCH", path, patch, version="1.39").status == 409
        assert api.request("PATCH", path, patch, version="1.38").status == 200


def test_the_ports_of_a_locked_node_cannot_change(api: Application, node: str) -> None:
    port = add_port(api, node)
    other = add_port(api, api.enrol()[0])
    lock(api, node)
    path = f"/v1/ports/{port['uuid']}"
    requests: list[tuple[str, str, Any]] = [
        ("POST", "/v1/ports", {"node_uuid": node, "address": mac()}),
        ("PATCH", path, []),
        ("PATCH", path, replace("/extra", {"a": 1})),
        ("PATCH", f"/v1/ports/{other['uuid']}", replace("/node_uuid", node)),
        ("DELETE", path, None),
    ]
    for method, target, body in requests:
        answer = api.request(method, target, body)
        assert (answer.status, answer.json["code"]) == (409, "node-locked")
        assert "5d6f5d3c-6a0b-4a43-9d3d-9d2f7f1a0c11" in answer.text
    assert api.send("GET", path) == port
    assert len(api.send("GET", f"/v1/nodes/{node}/ports")["ports"]) == 1


# -- ports and their groups


def test_the_ports_of_a_group_share_a_physical_network(api: Application, node: str) -> None:
    group = add_group(api, node)["uuid"]
    first = add_port(api, node, portgroup_uuid=group, physical_network="leaf-1")
    add_port(api, node, portgroup_uuid=group, physical_network="leaf-1")
    for network in ("leaf-2", None):
        body = {"node_uuid": node, "address": mac(), "portgroup_uuid": group, "physical_network": network}
        assert api.request("POST", "/v1/ports", body).status == 409
        patch = replace("/physical_network", network)
        assert api.request("PATCH", f"/v1/ports/{first['uuid']}", patch).status == 409
    stranger = add_port(api, node, physical_network="leaf-2")
    join = replace("/portgroup_uuid", group)
    assert api.request("PATCH", f"/v1/ports/{stranger['uuid']}", join).status == 409
    assert (
        api.request("PATCH", f"/v1/ports/{stranger['uuid']}", [*replace("/physical_network", "leaf-1"), *join]).status
        == 200
    )


def test_the_only_port_of_a_group_may_change_its_physical_network(api: Application, node: str) -> None:
    port = add_port(api, node, portgroup_uuid=add_group(api, node)["uuid"], physical_network="leaf-1")
    assert api.request("PATCH", f"/v1/ports/{port['uuid']}", replace("/physical_network", "leaf-2")).status == 200


def test_ports_of_a_group_without_standalone_ports_do_not_boot_or_attach(api: Application, node: str) -> None:
    group = add_group(api, node, standalone_ports_supported=False)["uuid"]
    body = {"node_uuid": node, "address": mac(), "portgroup_uuid": group}
    assert api.request("POST", "/v1/ports", body).status == 409  # pxe_enabled unless told otherwise
    used = body | {"pxe_enabled": False, "extra": {"vif_port_id": "vif-of-a-member"}}
    assert api.request("POST", "/v1/ports", used).status == 409
    member = api.send("POST", "/v1/ports", body | {"pxe_enabled": False})
    path = f"/v1/ports/{member['uuid']}"
    assert api.request("PATCH", path, replace("/pxe_enabled", True)).status == 409
    assert api.request("PATCH", path, replace("/extra", {"vif_port_id": "vif-of-a-member"})).status == 409
    assert api.request("PATCH", path, remove("/pxe_enabled")).status == 409
    single = add_port(api, node)
    assert api.request("PATCH", f"/v1/ports/{single['uuid']}", replace("/portgroup_uuid", group)).status == 409


def test_a_port_stays_while_it_or_its_group_carries_a_vif(api: Application, node: str) -> None:
    group = add_group(api, node)["uuid"]
    member = add_port(api, node, portgroup_uuid=group)
    single = add_port(api, node)
    api.send("POST", f"/v1/nodes/{node}/vifs", {"id": "stays-on-the-group"})
    api.send("POST", f"/v1/nodes/{node}/vifs", {"id": "stays-on-the-port"})
    leave, join = remove("/portgroup_uuid"), replace("/portgroup_uuid", group)
    move = replace("/node_uuid", api.enrol()[0])
    assert api.request("PATCH", f"/v1/ports/{member['uuid']}", leave).status == 409
    assert api.request("PATCH", f"/v1/ports/{single['uuid']}", join).status == 409
    assert api.request("PATCH", f"/v1/ports/{single['uuid']}", move).status == 409
    put(api, node, maintenance=True)
    assert api.request("PATCH", f"/v1/ports/{member['uuid']}", leave).status == 200
    assert api.request("PATCH", f"/v1/ports/{single['uuid']}", move).status == 409


def test_the_network_interface_is_told_and_may_refuse(
    api: Application, node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = add_port(api, node, extra={"a": 1})
    seen: list[tuple[dict[str, Any], str, dict[str, Any]]] = []

    def refuse(_self: NoopNetwork, task: Task, changed: Port) -> None:
        seen.append((task.ports[0].extra, changed.address, changed.extra))
        raise errors.Conflict("The switch says no.")

    monkeypatch.setattr(NoopNetwork, "port_changed", refuse)
    answer = api.request("PATCH", f"/v1/ports/{port['uuid']}", replace("/extra/a", 2))
    assert (answer.status, answer.text) == (409, "The switch says no.")
    assert seen == [({"a": 1}, port["address"], {"a": 2})]
    assert api.send("GET", f"/v1/ports/{port['uuid']}") == port
    monkeypatch.setattr(NoopNetwork, "calls_out", True)  # now told by a flow, which is undone
    monkeypatch.setattr(
        NoopNetwork, "port_changed", lambda self, task, new: refuse(self, task, new) if new.extra == {"a": 2} else None
    )
    answer = api.request("PATCH", f"/v1/ports/{port['uuid']}", replace("/extra/a", 2))
    assert (answer.status, answer.text, len(seen)) == (409, "The switch says no.", 2)
    assert api.send("GET", f"/v1/ports/{port['uuid']}") == port


# -- deleting


def test_a_port_is_deleted_unless_a_vif_is_on_it(api: Application, node: str) -> None:
    port = add_port(api, node)
    path = f"/v1/ports/{port['uuid']}"
    api.send("POST", f"/v1/nodes/{node}/vifs", {"id": "on-a-deleted-port"})
    answer = api.request("DELETE", path)
    assert (answer.status, "on-a-deleted-port" in answer.text) == (409, True)
    put(api, node, maintenance=True)
    deleted = api.request("DELETE", path)
    assert (deleted.status, deleted.content) == (204, b"")
    assert api.request("GET", path).status == 404
    assert "on-a-deleted-port" not in claims(api)


def test_a_port_on_a_service_network_is_not_deleted(api: Application, node: str) -> None:
    table = tables.ports
    port = add_port(api, node)
    with api.services.db.write() as connection:
        info = '{"cleaning_vif_port_id": "service-vif"}'
        connection.execute(update(table).where(table.c.uuid == port["uuid"]).values(internal_info=info))
    answer = api.request("DELETE", f"/v1/ports/{port['uuid']}")
    assert (answer.status, "service-vif" in answer.text) == (409, True)


def test_deleting_a_node_deletes_its_ports_and_frees_its_vifs(api: Application, node: str) -> None:
    group = add_group(api, node)["uuid"]
    port = add_port(api, node, portgroup_uuid=group)
    api.send("POST", f"/v1/nodes/{node}/vifs", {"id": "on-a-deleted-node"})
    api.send("DELETE", f"/v1/nodes/{node}")
    assert api.request("GET", f"/v1/ports/{port['uuid']}").status == 404
    assert api.request("GET", f"/v1/portgroups/{group}").status == 404
    assert "on-a-deleted-node" not in claims(api)


# -- the older way to attach a VIF


def test_a_vif_in_extra_is_attached_and_deprecated(
    api: Application, node: str, caplog: pytest.LogCaptureFixture
) -> None:
    other = api.enrol()[0]
    add_port(api, other)
    with caplog.at_level(logging.WARNING, "holdfast.baremetal.vifs"):
        port = add_port(api, node, extra={"vif_port_id": "legacy-1"})
    assert "POST /v1/nodes/" in caplog.text
    assert "deprecated" in caplog.text
    assert api.send("GET", f"/v1/nodes/{node}/vifs") == {"vifs": [{"id": "legacy-1"}]}
    assert api.request("POST", f"/v1/nodes/{other}/vifs", {"id": "legacy-1"}).status == 409
    assert api.request("POST", f"/v1/nodes/{node}/vifs", {"id": "legacy-2"}).status == 400
    path = f"/v1/ports/{port['uuid']}"
    caplog.clear()
    api.send("PATCH", path, replace("/extra/vif_port_id", "legacy-2"))
    assert "deprecated" in caplog.text
    caplog.clear()
    api.send("PATCH", path, [{"op": "add", "path": "/extra/note", "value": 1}])
    assert not caplog.text
    assert api.send("GET", f"/v1/nodes/{node}/vifs") == {"vifs": [{"id": "legacy-2"}]}
    assert "legacy-1" not in claims(api)
    api.send("POST", f"/v1/nodes/{other}/vifs", {"id": "legacy-1"})
    taken = api.request("PATCH", path, replace("/extra/vif_port_id", "legacy-1"))
    assert (taken.status, taken.json["code"]) == (409, "duplicate")
    api.send("PATCH", path, remove("/extra/vif_port_id"))
    assert api.send("GET", f"/v1/nodes/{node}/vifs") == {"vifs": []}
    assert "legacy-2" not in claims(api)


# -- what inspection finds


def test_a_port_that_inspection_found_is_created_once(api: Application, node: str) -> None:
    address = mac()
    lock(api, node)  # by the flow that asks
    uuid = ports.ensure(api.services.db, node, address.upper())
    assert ports.ensure(api.services.db, node, address) == uuid
    assert api.send("GET", f"/v1/ports/{uuid}")["address"] == address
    with pytest.raises(errors.Duplicate):
        ports.ensure(api.services.db, api.enrol()[0], address)
    assert len(api.send("GET", f"/v1/nodes/{node}/ports")["ports"]) == 1
