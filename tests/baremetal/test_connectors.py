"""/v1/volume/connectors and /v1/nodes/<node>/volume/connectors: a node's initiators (spec 000)."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import update

from holdfast import errors
from holdfast.baremetal import connectors, locks, nodes
from holdfast.baremetal.drivers.fake.storage import FakeStorage
from holdfast.baremetal.task import Connector, Task
from holdfast.db import tables
from tests.application import Answer, Application

ALL = "/v1/volume/connectors"
# Of nothing and nobody; fixed, because the names of tests are made from it.
UNKNOWN = "00000000-0000-4000-8000-000000000000"


def iqn() -> str:
    return f"iqn.2017-05.org.openstack:{uuid4()}"


def power(api: Application, node: str, state: str | None, provision_state: str | None = None) -> None:
    values = {"power_state": state} | ({"provision_state": provision_state} if provision_state else {})
    with api.services.db.write() as connection:
        connection.execute(update(tables.nodes).where(tables.nodes.c.uuid == node).values(values))


@pytest.fixture
def node(shared_api: Application) -> str:
    uuid = shared_api.enrol(storage_interface="fake")[0]
    power(shared_api, uuid, "power off")
    return uuid


def register(api: Application, node: str, **fields: Any) -> dict[str, Any]:
    body = {"node_uuid": node, "type": "iqn", "connector_id": iqn(), **fields}
    document: dict[str, Any] = api.send("POST", ALL, body)
    return document


def change(api: Application, uuid: str, *operations: tuple[Any, ...]) -> Answer:
    patch = [dict(zip(("op", "path", "value"), operation, strict=False)) for operation in operations]
    return api.request("PATCH", f"{ALL}/{uuid}", patch)


# POST


def test_post_answers_201_with_the_connector_and_where_it_is(shared_api: Application, node: str) -> None:
    body = {"node_uuid": node, "type": "iqn", "connector_id": iqn(), "extra": {"slot": 1}}
    answer = shared_api.request("POST", ALL, body)
    document = answer.json
    base = "http://127.0.0.1:6385/baremetal"
    own = f"{base}/v1/volume/connectors/{document['uuid']}"
    assert answer.status == 201
    assert answer.headers["location"] == own
    assert document.pop("created_at").endswith("+00:00")
    assert document == {
        **body,
        "uuid": document["uuid"],
        "updated_at": None,
        "links": [
            {"href": own, "rel": "self"},
            {"href": f"{base}/volume/connectors/{document['uuid']}", "rel": "bookmark"},
        ],
    }
    assert shared_api.send("GET", f"{ALL}/{document['uuid']}")["connector_id"] == body["connector_id"]


def test_the_uuid_may_be_given(shared_api: Application, node: str) -> None:
    uuid = str(uuid4())
    assert register(shared_api, node, uuid=uuid)["uuid"] == uuid
    again = {"node_uuid": node, "type": "iqn", "connector_id": iqn(), "uuid": uuid}
    answer = shared_api.request("POST", ALL, again)
    assert answer.status == 409
    assert uuid in answer.text


def test_a_connector_exists_once_whoever_has_it(shared_api: Application, node: str) -> None:
    first = register(shared_api, node)
    other = shared_api.enrol()[0]
    for home in (node, other):
        answer = shared_api.request(
            "POST", ALL, {"node_uuid": home, "type": "iqn", "connector_id": first["connector_id"]}
        )
        assert answer.status == 409
        assert first["connector_id"] in answer.text
    register(shared_api, other, type="ip", connector_id="10.9.8.7")


@pytest.mark.parametrize("missing", ["node_uuid", "type", "connector_id"])
@pytest.mark.parametrize("how", ["absent", "null"])
def test_required_fields(shared_api: Application, node: str, missing: str, how: str) -> None:
    body: dict[str, Any] = {"node_uuid": node, "type": "iqn", "connector_id": iqn()}
    if how == "absent":
        del body[missing]
    else:
        body[missing] = None
    answer = shared_api.request("POST", ALL, body)
    assert answer.status == 400
    assert missing in answer.text


@pytest.mark.parametrize(
    "wrong",
    [
        {"node_uuid": UNKNOWN},
        {"node_uuid": "a-name"},
        {"node_uuid": 1},
        {"uuid": "x"},
        {"type": "scsi"},
        {"type": "IQN"},
        {"type": 1},
        {"connector_id": ""},
        {"connector_id": 7},
        {"connector_id": "iqn.2017-05.org.openstack:" + "x" * 300},
        {"extra": []},
        {"created_at": "2020-01-01"},
        {"surprise": 1},
    ],
)
def test_bad_fields_are_400(shared_api: Application, node: str, wrong: dict[str, Any]) -> None:
    body = {"node_uuid": node, "type": "iqn", "connector_id": iqn(), **wrong}
    assert shared_api.request("POST", ALL, body).status == 400


# (type, what is sent, what is kept)
SPELLINGS = [
    ("iqn", "iqn.1993-08.org.debian:01:9B2f", "iqn.1993-08.org.debian:01:9B2f"),
    ("iqn", "iqn.2017-05.org.openstack.node-1", "iqn.2017-05.org.openstack.node-1"),
    ("iqn", "eui.02004567A425678D", "eui.02004567A425678D"),
    ("iqn", "naa.52004567BA64678D", "naa.52004567BA64678D"),
    ("ip", "192.0.2.17", "192.0.2.17"),
    ("ip", "2001:DB8:0:0::0001", "2001:db8::1"),
    ("mac", "52:54:00:AB:CD:EF", "52:54:00:ab:cd:ef"),
    ("wwnn", "20:00:00:25:B5:00:0A:0F", "20000025b5000a0f"),
    ("wwpn", "0x100000109B1C2D3E", "100000109b1c2d3e"),
    ("wwpn", "100000109b1c2d3f", "100000109b1c2d3f"),
    ("net-id", "8A6C8F0E-2D5A-4B45-9C5A-0F3B6F5E0C11", "8a6c8f0e-2d5a-4b45-9c5a-0f3b6f5e0c11"),
    ("port", "8a6c8f0e-2d5a-4b45-9c5a-0f3b6f5e0c12", "8a6c8f0e-2d5a-4b45-9c5a-0f3b6f5e0c12"),
    ("portgroup", "8a6c8f0e-2d5a-4b45-9c5a-0f3b6f5e0c13", "8a6c8f0e-2d5a-4b45-9c5a-0f3b6f5e0c13"),
]


@pytest.mark.parametrize(("kind", "sent", "kept"), SPELLINGS)
def test_ids_are_kept_in_one_spelling(shared_api: Application, node: str, kind: str, sent: str, kept: str) -> None:
    document = register(shared_api, node, type=kind, connector_id=sent)
    assert document["connector_id"] == kept
    for spelled in (sent, kept):
        body = {"node_uuid": node, "type": kind, "connector_id": spelled}
        assert shared_api.request("POST", ALL, body).status == 409
        found = shared_api.send("GET", f"{ALL}?connector_id={spelled}")["connectors"]
        assert [c["uuid"] for c in found] == [document["uuid"]]


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("iqn", "iqn.2017-13.org.openstack:x"),
        ("iqn", "iqn.17-05.org.openstack:x"),
        ("iqn", "iqn.2017-05.org.openstack:a b"),
        ("iqn", "iqn.2017-05.org.openstack:x\nsanhook"),
        ("iqn", "iqn.2017-05.org.openstack:" + "x" * 200),
        ("iqn", "eui.02004567A425678"),
        ("iqn", "node-1"),
        ("ip", "192.0.2.256"),
        ("ip", "192.0.2.0/24"),
        ("ip", "fe80::1%eth0"),
        ("ip", "host.example.com"),
        ("mac", "52:54:00:ab:cd"),
        ("mac", "5254.00ab.cdef"),
        ("wwnn", "20:00:00:25:b5:00:0a"),
        ("wwpn", "100000109b1c2d3g"),
        ("wwpn", "100000109b1c2d3e00"),
        ("net-id", "public"),
        ("port", "52:54:00:ab:cd:ef"),
        ("portgroup", "bond0"),
    ],
)
def test_ids_without_the_syntax_of_their_type_are_400(
    shared_api: Application, node: str, kind: str, wrong: str
) -> None:
    answer = shared_api.request("POST", ALL, {"node_uuid": node, "type": kind, "connector_id": wrong})
    assert answer.status == 400
    assert connectors.TYPES[kind].about in answer.text


@pytest.mark.parametrize("state", ["power on", None])
def test_connectors_are_registered_whatever_the_power_state(shared_api: Application, node: str, state: Any) -> None:
    power(shared_api, node, state)
    register(shared_api, node)


# GET


def test_lists_show_the_short_form_and_details_the_whole(shared_api: Application, node: str) -> None:
    document = register(shared_api, node)
    short = {"uuid", "node_uuid", "type", "connector_id", "links"}
    for path in (f"{ALL}?node={node}", f"/v1/nodes/{node}/volume/connectors"):
        (found,) = shared_api.send("GET", path)["connectors"]
        assert found == {name: document[name] for name in short}
    for path in (
        f"{ALL}/detail?node={node}",
        f"{ALL}?node={node}&detail=true",
        f"/v1/nodes/{node}/volume/connectors?detail=true",
    ):
        (found,) = shared_api.send("GET", path)["connectors"]
        assert found == document
    (found,) = shared_api.send("GET", f"{ALL}?node={node}&fields=type,extra")["connectors"]
    assert found.keys() == {"type", "extra", "links"}


def test_connectors_are_found_by_node_type_and_id(shared_api: Application) -> None:
    node = shared_api.enrol(name="filtered-connectors")[0]
    mac = register(shared_api, node, type="mac", connector_id="52:54:00:00:77:01")
    name = register(shared_api, node)

    def found(query: str) -> list[str]:
        return [c["uuid"] for c in shared_api.send("GET", f"{ALL}?{query}")["connectors"]]

    assert found(f"node={node}") == found("node=filtered-connectors") == [mac["uuid"], name["uuid"]]
    assert found(f"node={node}&type=iqn") == [name["uuid"]]
    assert found("connector_id=52:54:00:00:77:01") == [mac["uuid"]]
    assert found("connector_id=52:54:00:00:77:01&type=iqn") == []
    assert found(f"node={node}&sort_key=type") == [name["uuid"], mac["uuid"]]
    by_name = shared_api.send("GET", "/v1/nodes/filtered-connectors/volume/connectors")["connectors"]
    assert [c["uuid"] for c in by_name] == [mac["uuid"], name["uuid"]]


def test_next_links_keep_filters_and_path(shared_api: Application, node: str) -> None:
    expected = [register(shared_api, node)["uuid"] for _ in range(3)]
    starts = (
        f"{ALL}?node={node}&type=iqn&limit=2",
        f"{ALL}/detail?node={node}&limit=2",
        f"/v1/nodes/{node}/volume/connectors?limit=2",
    )
    for path in starts:
        first = shared_api.send("GET", path)
        following = first["next"].split("/baremetal")[1]
        assert following.split("?")[0] == path.split("?")[0]
        rest = shared_api.send("GET", following)
        assert [c["uuid"] for c in first["connectors"] + rest["connectors"]] == expected
        assert "next" not in rest


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"{ALL}?node=no-such-node", 404),
        (f"{ALL}?node={UNKNOWN}", 404),
        (f"{ALL}/detail?node=no-such-node", 404),
        ("/v1/nodes/no-such-node/volume/connectors", 404),
        (f"{ALL}?node=", 400),
        (f"{ALL}?type=scsi", 400),
        (f"{ALL}?connector_id=", 400),
        (f"{ALL}?sort_key=extra", 400),
        (f"{ALL}?fields=nope", 400),
        (f"{ALL}?fields=type&detail=true", 400),
        (f"{ALL}?limit=0", 400),
        (f"{ALL}?volume_id=x", 400),
        (f"{ALL}?marker={UNKNOWN}", 404),
        (f"{ALL}/{UNKNOWN}", 404),
        (f"{ALL}/not-a-uuid", 400),
    ],
)
def test_what_is_not_there_or_makes_no_sense(shared_api: Application, path: str, status: int) -> None:
    assert shared_api.request("GET", path).status == status


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
def test_unknown_and_malformed_uuids(shared_api: Application, method: str) -> None:
    body = [] if method == "PATCH" else None
    assert shared_api.request(method, f"{ALL}/{uuid4()}", body).status == 404
    assert shared_api.request(method, f"{ALL}/not-a-uuid", body).status == 400


# PATCH


def test_patch_changes_and_answers_with_the_connector(shared_api: Application, node: str) -> None:
    document = register(shared_api, node, extra={"a": 1})
    answer = change(
        shared_api,
        document["uuid"],
        ("replace", "/type", "mac"),
        ("replace", "/connector_id", "52:54:00:00:99:0A"),
        ("add", "/extra/b", 2),
        ("remove", "/extra/a"),
    )
    assert answer.status == 200
    changed = answer.json
    assert (changed["type"], changed["connector_id"]) == ("mac", "52:54:00:00:99:0a")
    assert changed["extra"] == {"b": 2}
    assert changed["updated_at"] is not None
    assert shared_api.send("GET", f"{ALL}/{document['uuid']}") == changed


def test_patch_moves_a_connector_to_another_node(shared_api: Application, node: str) -> None:
    document = register(shared_api, node)
    other = shared_api.enrol(storage_interface="fake")[0]
    assert change(shared_api, document["uuid"], ("replace", "/node_uuid", other)).status == 400  # power unknown
    power(shared_api, other, "power off")
    assert change(shared_api, document["uuid"], ("replace", "/node_uuid", other)).json["node_uuid"] == other
    assert change(shared_api, document["uuid"], ("replace", "/node_uuid", str(uuid4()))).status == 400


@pytest.mark.parametrize(
    "operation",
    [
        ("replace", "/type", "scsi"),
        ("replace", "/type", "mac"),  # its id is no MAC address
        ("replace", "/connector_id", "node-1"),
        ("remove", "/type"),
        ("remove", "/connector_id"),
        ("remove", "/node_uuid"),
        ("replace", "/uuid", UNKNOWN),
        ("add", "/surprise", 1),
        ("replace", "/extra/nothing", 1),
        ("copy", "/extra", {}),
    ],
)
def test_patches_that_cannot_be(shared_api: Application, node: str, operation: tuple[Any, ...]) -> None:
    document = register(shared_api, node)
    assert change(shared_api, document["uuid"], operation).status == 400
    assert shared_api.send("GET", f"{ALL}/{document['uuid']}") == document


def test_patch_cannot_take_what_another_connector_is(shared_api: Application, node: str) -> None:
    taken, document = register(shared_api, node), register(shared_api, node)
    answer = change(shared_api, document["uuid"], ("replace", "/connector_id", taken["connector_id"]))
    assert answer.status == 409
    assert taken["connector_id"] in answer.text


# The machine must be off, nobody else at work, and the driver is told


@pytest.mark.parametrize(("state", "shown"), [("power on", "power on"), (None, "unknown"), ("error", "error")])
def test_changes_need_the_machine_off(shared_api: Application, node: str, state: str | None, shown: str) -> None:
    document = register(shared_api, node)
    power(shared_api, node, state, "active")
    for answer in (
        change(shared_api, document["uuid"], ("replace", "/connector_id", iqn())),
        change(shared_api, document["uuid"]),
        shared_api.request("DELETE", f"{ALL}/{document['uuid']}"),
    ):
        assert answer.status == 400
        assert shown in answer.text
    assert shared_api.send("GET", f"{ALL}/{document['uuid']}") == document


@pytest.mark.parametrize("state", ["enroll", "manageable", "adopt failed"])
def test_before_a_node_is_offered_a_connector_is_deleted_whatever_its_power(
    shared_api: Application, node: str, state: str
) -> None:
    document = register(shared_api, node)
    power(shared_api, node, "power on", state)
    assert change(shared_api, document["uuid"]).status == 400
    assert shared_api.request("DELETE", f"{ALL}/{document['uuid']}").status == 204


def test_delete(shared_api: Application, node: str) -> None:
    document = register(shared_api, node)
    power(shared_api, node, "power off", "active")
    answer = shared_api.request("DELETE", f"{ALL}/{document['uuid']}")
    assert (answer.status, answer.content) == (204, b"")
    assert shared_api.request("GET", f"{ALL}/{document['uuid']}").status == 404
    assert shared_api.request("DELETE", f"{ALL}/{document['uuid']}").status == 404


def test_a_flow_that_holds_the_node_keeps_its_connectors(shared_api: Application, node: str) -> None:
    document = register(shared_api, node)
    with shared_api.services.db.write() as connection:
        locks.take(connection, nodes.find(connection, node).id, "deploy_node/some-flow", node)
    for answer in (
        change(shared_api, document["uuid"], ("replace", "/connector_id", iqn())),
        shared_api.request("DELETE", f"{ALL}/{document['uuid']}"),
    ):
        assert answer.status == 409
        assert "some-flow" in answer.text


def test_the_driver_is_told_and_may_refuse(shared_api: Application, node: str, monkeypatch: pytest.MonkeyPatch) -> None:
    document = register(shared_api, node)
    told: list[tuple[str, str, str]] = []

    def changed(_self: Any, task: Task, connector: Connector) -> None:
        before = next(c.connector_id for c in task.connectors if c.uuid == connector.uuid)
        told.append((task.node.uuid, before, connector.connector_id))

    def removed(_self: Any, task: Task, connector: Connector) -> None:
        raise errors.DriverDataInvalid("The machine boots through it.")

    monkeypatch.setattr(FakeStorage, "connector_changed", changed)
    monkeypatch.setattr(FakeStorage, "connector_removed", removed)
    wanted = iqn()
    change(shared_api, document["uuid"], ("replace", "/connector_id", wanted))
    assert told == [(node, document["connector_id"], wanted)]
    answer = shared_api.request("DELETE", f"{ALL}/{document['uuid']}")
    assert (answer.status, answer.text) == (400, "The machine boots through it.")
    assert shared_api.send("GET", f"{ALL}/{document['uuid']}")["connector_id"] == wanted


# Lifetime, versions, roots


def test_connectors_stay_when_the_instance_goes_and_go_with_the_node(shared_api: Application) -> None:
    node = shared_api.enrol(state="active")[0]
    document = register(shared_api, node)
    shared_api.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": "deleted"})
    shared_api.settle(node, "available")
    assert shared_api.send("GET", f"{ALL}/{document['uuid']}")["node_uuid"] == node
    shared_api.send("DELETE", f"/v1/nodes/{node}")
    assert shared_api.request("GET", f"{ALL}/{document['uuid']}").status == 404


def test_inspection_registers_what_it_finds_and_steals_nothing(shared_api: Application, node: str) -> None:
    db, other = shared_api.services.db, shared_api.enrol()[0]
    first = connectors.ensure(db, node, "wwpn", "0x10000000C9A1B2C3")
    assert connectors.ensure(db, node, "wwpn", "10:00:00:00:c9:a1:b2:c3") == first
    with pytest.raises(errors.Duplicate):
        connectors.ensure(db, other, "wwpn", "10000000c9a1b2c3")
    with pytest.raises(errors.InvalidValue):
        connectors.ensure(db, node, "wwpn", "none")


def test_everything_begins_with_1_32(shared_api: Application, node: str) -> None:
    uuid = register(shared_api, node)["uuid"]
    for method, path, body in [
        ("GET", "/v1/volume", None),
        ("GET", f"/v1/nodes/{node}/volume", None),
        ("GET", ALL, None),
        ("GET", f"{ALL}/detail", None),
        ("POST", ALL, {"node_uuid": node, "type": "iqn", "connector_id": iqn()}),
        ("GET", f"{ALL}/{uuid}", None),
        ("PATCH", f"{ALL}/{uuid}", []),
        ("GET", f"/v1/nodes/{node}/volume/connectors", None),
        ("DELETE", f"{ALL}/{uuid}", None),
    ]:
        assert shared_api.request(method, path, body, version="1.31").status == 406
        assert shared_api.request(method, path, body, version="1.32").status in (200, 201, 204)
    answer = shared_api.request("GET", f"/v1/nodes/{node}", version="1.31")
    assert "volume" not in answer.json


def test_the_roots_link_to_connectors_and_targets(shared_api: Application) -> None:
    node = shared_api.enrol(name="rooted")[0]
    base = "http://127.0.0.1:6385/baremetal"
    for ident in (node, "rooted"):
        for path, below in (("/v1/volume", "volume"), (f"/v1/nodes/{ident}/volume", f"nodes/{ident}/volume")):
            expected = {
                key: [
                    {"href": f"{base}/v1/{below}/{tail}", "rel": "self"},
                    {"href": f"{base}/{below}/{tail}", "rel": "bookmark"},
                ]
                for key, tail in (("links", ""), ("connectors", "connectors"), ("targets", "targets"))
            }
            assert shared_api.send("GET", path) == expected
    assert shared_api.request("GET", "/v1/nodes/no-such-node/volume").status == 404
    assert shared_api.request("GET", "/v1/volume/nonsense").status == 404
    links = shared_api.send("GET", f"/v1/nodes/{node}")["volume"]
    assert links[0] == {"href": f"{base}/v1/nodes/{node}/volume", "rel": "self"}
