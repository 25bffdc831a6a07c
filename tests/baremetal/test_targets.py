"""/v1/volume/targets and /v1/nodes/<node>/volume/targets: a node's remote volumes (spec 000)."""

from __future__ import annotations

import json
import logging
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import insert, select, update
from sqlalchemy.exc import IntegrityError

from holdfast import errors
from holdfast.baremetal import locks, nodes
from holdfast.baremetal.drivers.fake.storage import FakeStorage
from holdfast.baremetal.task import Target, Task
from holdfast.db import tables
from holdfast.secrets import MASK
from holdfast.web.auth import Caller
from tests.application import Answer, Application

ALL = "/v1/volume/targets"
# Of nothing and nobody; fixed, because the names of tests are made from it.
UNKNOWN = "00000000-0000-4000-8000-000000000000"


def power(api: Application, node: str, state: str | None, provision_state: str | None = None) -> None:
    values = {"power_state": state} | ({"provision_state": provision_state} if provision_state else {})
    with api.services.db.write() as connection:
        connection.execute(update(tables.nodes).where(tables.nodes.c.uuid == node).values(values))


@pytest.fixture
def node(shared_api: Application) -> str:
    uuid = shared_api.enrol(storage_interface="fake")[0]
    power(shared_api, uuid, "power off")
    return uuid


def body(node: str, **fields: Any) -> dict[str, Any]:
    return {"node_uuid": node, "volume_type": "iscsi", "volume_id": str(uuid4()), "boot_index": 0, **fields}


def give(api: Application, node: str, **fields: Any) -> dict[str, Any]:
    document: dict[str, Any] = api.send("POST", ALL, body(node, **fields))
    return document


def change(api: Application, uuid: str, *operations: tuple[Any, ...]) -> Answer:
    patch = [dict(zip(("op", "path", "value"), operation, strict=False)) for operation in operations]
    return api.request("PATCH", f"{ALL}/{uuid}", patch)


def stored(api: Application, uuid: str) -> dict[str, Any]:
    """The properties as drivers will get them."""
    table = tables.volume_targets
    with api.services.db.read() as connection:
        properties = connection.execute(select(table.c.properties).where(table.c.uuid == uuid)).scalar_one()
    document: dict[str, Any] = json.loads(properties)
    return document


# POST


def test_post_answers_201_with_the_target_and_where_it_is(shared_api: Application, node: str) -> None:
    properties = {"target_iqn": "iqn.2010-10.com.example:vol-X", "target_portal": "192.0.2.1:3260", "target_lun": 0}
    sent = body(node, properties=properties, extra={"a": 1})
    answer = shared_api.request("POST", ALL, sent)
    document = answer.json
    base = "http://127.0.0.1:6385/baremetal"
    own = f"{base}/v1/volume/targets/{document['uuid']}"
    assert answer.status == 201
    assert answer.headers["location"] == own
    assert document.pop("created_at").endswith("+00:00")
    assert document == {
        **sent,
        "uuid": document["uuid"],
        "updated_at": None,
        "links": [
            {"href": own, "rel": "self"},
            {"href": f"{base}/volume/targets/{document['uuid']}", "rel": "bookmark"},
        ],
    }


def test_the_uuid_may_be_given(shared_api: Application, node: str) -> None:
    uuid = str(uuid4())
    assert give(shared_api, node, uuid=uuid)["uuid"] == uuid
    answer = shared_api.request("POST", ALL, body(node, uuid=uuid, boot_index=1))
    assert answer.status == 409
    assert uuid in answer.text


def test_a_boot_index_is_taken_once_on_a_node(shared_api: Application, node: str) -> None:
    give(shared_api, node, boot_index=0)
    give(shared_api, node, boot_index=-1)
    give(shared_api, shared_api.enrol()[0], boot_index=0)
    answer = shared_api.request("POST", ALL, body(node, boot_index=0))
    assert answer.status == 409
    assert "boot index 0" in answer.text
    assert node in answer.text


@pytest.mark.parametrize("missing", ["node_uuid", "volume_type", "volume_id", "boot_index"])
@pytest.mark.parametrize("how", ["absent", "null"])
def test_required_fields(shared_api: Application, node: str, missing: str, how: str) -> None:
    sent = body(node)
    if how == "absent":
        del sent[missing]
    else:
        sent[missing] = None
    answer = shared_api.request("POST", ALL, sent)
    assert answer.status == 400
    assert missing in answer.text


@pytest.mark.parametrize(
    "wrong",
    [
        {"node_uuid": UNKNOWN},
        {"node_uuid": "a-name"},
        {"uuid": "x"},
        {"volume_type": ""},
        {"volume_type": "x" * 65},
        {"volume_id": ""},
        {"volume_id": "x" * 37},
        {"boot_index": "0"},
        {"boot_index": 0.5},
        {"boot_index": True},
        {"boot_index": 2**31},
        {"properties": "x"},
        {"properties": []},
        {"extra": 1},
        {"updated_at": "2020-01-01"},
        {"surprise": 1},
    ],
)
def test_bad_fields_are_400(shared_api: Application, node: str, wrong: dict[str, Any]) -> None:
    assert shared_api.request("POST", ALL, body(node, **wrong)).status == 400


@pytest.mark.parametrize("state", ["power on", None])
def test_targets_are_given_whatever_the_power_state(shared_api: Application, node: str, state: Any) -> None:
    power(shared_api, node, state)
    give(shared_api, node)


# GET


def test_lists_show_the_short_form_and_details_the_whole(shared_api: Application, node: str) -> None:
    document = give(shared_api, node, properties={"target_lun": 1})
    short = {"uuid", "node_uuid", "volume_type", "boot_index", "volume_id", "links"}
    for path in (f"{ALL}?node={node}", f"/v1/nodes/{node}/volume/targets"):
        (found,) = shared_api.send("GET", path)["targets"]
        assert found == {name: document[name] for name in short}
    for path in (
        f"{ALL}/detail?node={node}",
        f"{ALL}?node={node}&detail=true",
        f"/v1/nodes/{node}/volume/targets?detail=true",
    ):
        (found,) = shared_api.send("GET", path)["targets"]
        assert found == document
    (found,) = shared_api.send("GET", f"{ALL}?node={node}&fields=properties")["targets"]
    assert found.keys() == {"properties", "links"}


def test_targets_are_found_by_node_volume_type_and_index(shared_api: Application) -> None:
    node = shared_api.enrol(name="filtered-targets")[0]
    root = give(shared_api, node, volume_id="root-of-filtered")
    data = give(shared_api, node, volume_type="fibre_channel", boot_index=1)

    def found(query: str) -> list[str]:
        return [t["uuid"] for t in shared_api.send("GET", f"{ALL}?{query}")["targets"]]

    assert found(f"node={node}") == found("node=filtered-targets") == [root["uuid"], data["uuid"]]
    assert found("volume_id=root-of-filtered") == [root["uuid"]]
    assert found("node=filtered-targets&volume_type=fibre_channel") == [data["uuid"]]
    assert found("node=filtered-targets&boot_index=1") == [data["uuid"]]
    assert found("node=filtered-targets&boot_index=-1") == []
    assert found("node=filtered-targets&sort_key=boot_index&sort_dir=desc") == [data["uuid"], root["uuid"]]
    by_name = shared_api.send("GET", "/v1/nodes/filtered-targets/volume/targets")["targets"]
    assert [t["uuid"] for t in by_name] == [root["uuid"], data["uuid"]]


def test_next_links_keep_filters_and_path(shared_api: Application, node: str) -> None:
    expected = [give(shared_api, node, boot_index=index)["uuid"] for index in range(3)]
    starts = (
        f"{ALL}?node={node}&volume_type=iscsi&limit=2",
        f"{ALL}/detail?node={node}&limit=2",
        f"/v1/nodes/{node}/volume/targets?limit=2",
    )
    for path in starts:
        first = shared_api.send("GET", path)
        following = first["next"].split("/baremetal")[1]
        assert following.split("?")[0] == path.split("?")[0]
        rest = shared_api.send("GET", following)
        assert [t["uuid"] for t in first["targets"] + rest["targets"]] == expected


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"{ALL}?node=no-such-node", 404),
        ("/v1/nodes/no-such-node/volume/targets", 404),
        (f"{ALL}?boot_index=first", 400),
        (f"{ALL}?boot_index=", 400),
        (f"{ALL}?boot_index=99999999999", 400),
        (f"{ALL}?volume_id=" + "x" * 37, 400),
        (f"{ALL}?sort_key=properties", 400),
        (f"{ALL}?type=iqn", 400),
        (f"{ALL}/{UNKNOWN}", 404),
        (f"{ALL}/not-a-uuid", 400),
    ],
)
def test_what_is_not_there_or_makes_no_sense(shared_api: Application, path: str, status: int) -> None:
    assert shared_api.request("GET", path).status == status


# PATCH and DELETE


def test_patch_changes_and_answers_with_the_target(shared_api: Application, node: str) -> None:
    document = give(shared_api, node, properties={"target_lun": 1})
    answer = change(
        shared_api,
        document["uuid"],
        ("replace", "/boot_index", 7),
        ("replace", "/volume_id", "another"),
        ("replace", "/properties/target_lun", 2),
        ("add", "/properties/access_mode", "rw"),
        ("add", "/extra/rack", 1),
    )
    assert answer.status == 200
    changed = answer.json
    assert (changed["boot_index"], changed["volume_id"]) == (7, "another")
    assert changed["properties"] == {"target_lun": 2, "access_mode": "rw"}
    assert shared_api.send("GET", f"{ALL}/{document['uuid']}") == changed
    assert change(shared_api, document["uuid"], ("remove", "/properties")).json["properties"] == {}


def test_patch_moves_a_target_to_another_node(shared_api: Application, node: str) -> None:
    other = shared_api.enrol(storage_interface="fake")[0]
    power(shared_api, other, "power off")
    give(shared_api, other, boot_index=0)
    uuid = give(shared_api, node, boot_index=0)["uuid"]
    answer = change(shared_api, uuid, ("replace", "/node_uuid", other))
    assert answer.status == 409
    assert other in answer.text
    moved = change(shared_api, uuid, ("replace", "/node_uuid", other), ("replace", "/boot_index", 1))
    assert moved.json["node_uuid"] == other


@pytest.mark.parametrize(
    "operation",
    [
        ("replace", "/boot_index", "0"),
        ("remove", "/boot_index"),
        ("remove", "/volume_id"),
        ("remove", "/volume_type"),
        ("remove", "/node_uuid"),
        ("replace", "/node_uuid", UNKNOWN),
        ("replace", "/properties", "x"),
        ("replace", "/properties/nothing", 1),
        ("replace", "/uuid", UNKNOWN),
        ("add", "/surprise", 1),
    ],
)
def test_patches_that_cannot_be(shared_api: Application, node: str, operation: tuple[Any, ...]) -> None:
    document = give(shared_api, node)
    assert change(shared_api, document["uuid"], operation).status == 400
    assert shared_api.send("GET", f"{ALL}/{document['uuid']}") == document


def test_patch_cannot_take_a_boot_index_that_is_taken(shared_api: Application, node: str) -> None:
    give(shared_api, node, boot_index=0)
    uuid = give(shared_api, node, boot_index=1)["uuid"]
    assert change(shared_api, uuid, ("replace", "/boot_index", 0)).status == 409


@pytest.mark.parametrize(("state", "shown"), [("power on", "power on"), (None, "unknown")])
def test_changes_need_the_machine_off(shared_api: Application, node: str, state: str | None, shown: str) -> None:
    document = give(shared_api, node)
    power(shared_api, node, state, "active")
    for answer in (
        change(shared_api, document["uuid"], ("replace", "/boot_index", 1)),
        change(shared_api, document["uuid"]),
        shared_api.request("DELETE", f"{ALL}/{document['uuid']}"),
    ):
        assert answer.status == 400
        assert shown in answer.text
    assert shared_api.send("GET", f"{ALL}/{document['uuid']}") == document


@pytest.mark.parametrize("state", ["enroll", "manageable", "adopt failed"])
def test_before_a_node_is_offered_a_target_is_deleted_whatever_its_power(
    shared_api: Application, node: str, state: str
) -> None:
    uuid = give(shared_api, node)["uuid"]
    power(shared_api, node, "power on", state)
    assert change(shared_api, uuid).status == 400
    assert shared_api.request("DELETE", f"{ALL}/{uuid}").status == 204


def test_delete(shared_api: Application, node: str) -> None:
    uuid = give(shared_api, node)["uuid"]
    power(shared_api, node, "power off", "active")
    answer = shared_api.request("DELETE", f"{ALL}/{uuid}")
    assert (answer.status, answer.content) == (204, b"")
    for method in ("GET", "DELETE"):
        assert shared_api.request(method, f"{ALL}/{uuid}").status == 404


def test_a_flow_that_holds_the_node_keeps_its_targets(shared_api: Application, node: str) -> None:
    uuid = give(shared_api, node)["uuid"]
    with shared_api.services.db.write() as connection:
        locks.take(connection, nodes.find(connection, node).id, "deploy_node/some-flow", node)
    for answer in (
        change(shared_api, uuid, ("replace", "/boot_index", 1)),
        shared_api.request("DELETE", f"{ALL}/{uuid}"),
    ):
        assert answer.status == 409
        assert "some-flow" in answer.text


def test_the_driver_is_told_and_may_refuse(shared_api: Application, node: str, monkeypatch: pytest.MonkeyPatch) -> None:
    document = give(shared_api, node, properties={"auth_password": "real", "target_lun": 1})
    told: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def changed(_self: Any, task: Task, target: Target) -> None:
        before = next(t.properties for t in task.targets if t.uuid == target.uuid)
        told.append((before, target.properties))

    def removed(_self: Any, _task: Task, _target: Target) -> None:
        raise errors.DriverDataInvalid("The volume is attached.")

    monkeypatch.setattr(FakeStorage, "target_changed", changed)
    monkeypatch.setattr(FakeStorage, "target_removed", removed)
    change(shared_api, document["uuid"], ("replace", "/properties/target_lun", 2))
    real = {"auth_password": "real", "target_lun": 1}
    assert told == [(real, {**real, "target_lun": 2})]
    answer = shared_api.request("DELETE", f"{ALL}/{document['uuid']}")
    assert (answer.status, answer.text) == (400, "The volume is attached.")
    assert shared_api.request("GET", f"{ALL}/{document['uuid']}").status == 200


# Lifetime and versions


def test_targets_go_with_the_instance_and_with_the_node(shared_api: Application) -> None:
    node = shared_api.enrol(state="active")[0]
    gone = give(shared_api, node)["uuid"]
    shared_api.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": "deleted"})
    shared_api.settle(node, "available")
    assert shared_api.request("GET", f"{ALL}/{gone}").status == 404
    gone = give(shared_api, node)["uuid"]
    shared_api.send("DELETE", f"/v1/nodes/{node}")
    assert shared_api.request("GET", f"{ALL}/{gone}").status == 404


def test_everything_begins_with_1_32(shared_api: Application, node: str) -> None:
    uuid = give(shared_api, node)["uuid"]
    for method, path, sent in [
        ("GET", ALL, None),
        ("GET", f"{ALL}/detail", None),
        ("POST", ALL, body(node, boot_index=1)),
        ("GET", f"{ALL}/{uuid}", None),
        ("PATCH", f"{ALL}/{uuid}", []),
        ("GET", f"/v1/nodes/{node}/volume/targets", None),
        ("DELETE", f"{ALL}/{uuid}", None),
    ]:
        assert shared_api.request(method, path, sent, version="1.31").status == 406
        assert shared_api.request(method, path, sent, version="1.32").status in (200, 201, 204)


# Secrets

CHAP = {
    "auth_method": "CHAP",
    "auth_username": "canary-user-7f3a",
    "auth_password": "canary-password-91bc",
    "discovery_auth_method": "CHAP",
    "discovery_auth_username": "canary-discovery-user-55e1",
    "discovery_auth_password": "canary-discovery-password-c0de",
    "target_portal": "192.0.2.1:3260",
    "target_lun": 1,
}
CANARIES = [value for value in CHAP.values() if str(value).startswith("canary")]
SHOWN = {**CHAP, **{key: MASK for key, value in CHAP.items() if value in CANARIES}}
# What a discovery authentication is called is no secret, but hiding it costs nothing.
SHOWN["discovery_auth_method"] = MASK


def test_secrets_are_masked_in_every_answer_and_stay_usable(shared_api: Application, node: str) -> None:
    document = give(shared_api, node, properties=CHAP)
    uuid = document["uuid"]
    assert document["properties"] == SHOWN
    assert change(shared_api, uuid, ("add", "/extra/a", 1)).json["properties"] == SHOWN
    assert shared_api.send("GET", f"{ALL}/{uuid}")["properties"] == SHOWN
    for path in (
        f"{ALL}/detail?node={node}",
        f"{ALL}?node={node}&fields=properties",
        f"/v1/nodes/{node}/volume/targets?detail=1",
    ):
        assert shared_api.send("GET", path)["targets"][0]["properties"] == SHOWN
    assert stored(shared_api, uuid) == CHAP


def test_a_mask_that_comes_back_keeps_the_secret(shared_api: Application, node: str) -> None:
    uuid = give(shared_api, node, properties=CHAP)["uuid"]
    shown = shared_api.send("GET", f"{ALL}/{uuid}")["properties"]
    change(shared_api, uuid, ("replace", "/properties", {**shown, "target_lun": 2}))
    assert stored(shared_api, uuid) == {**CHAP, "target_lun": 2}
    change(shared_api, uuid, ("replace", "/properties/auth_password", MASK))
    assert stored(shared_api, uuid)["auth_password"] == CHAP["auth_password"]
    change(shared_api, uuid, ("replace", "/properties/auth_password", "another"))
    assert stored(shared_api, uuid)["auth_password"] == "another"


def test_canary_secrets_never_leave(shared_api: Application, node: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    uuid = give(shared_api, node, properties=CHAP)["uuid"]
    answers = [
        shared_api.request("POST", ALL, body(node, properties=CHAP)),  # duplicate
        shared_api.request("POST", ALL, body(node, properties=CHAP, boot_index="x")),
        shared_api.request("POST", ALL, body(node, properties=[CHAP], boot_index=1)),
        shared_api.request("POST", ALL, {"properties": CHAP}),
        shared_api.request("POST", ALL, body(str(uuid4()), properties=CHAP)),
        shared_api.request("POST", ALL, body(node, properties={"deep": [{"er": CHAP}]}, boot_index=2)),
        shared_api.request("GET", f"{ALL}?detail=true"),
        shared_api.request("GET", f"/v1/nodes/{node}"),
        shared_api.request("GET", f"/v1/nodes/{node}/validate"),
        change(shared_api, uuid, ("replace", "/properties", CHAP), ("replace", "/boot_index", "x")),
        change(shared_api, uuid, ("replace", "/properties/nothing", CHAP["auth_password"])),
        change(shared_api, uuid, ("replace", "/properties", CHAP["auth_password"])),
        change(shared_api, uuid, ("replace", "/boot_index", CHAP["auth_password"])),
        change(shared_api, uuid, ("add", "/properties", CHAP)),
    ]
    power(shared_api, node, "power on", "active")
    answers += [
        change(shared_api, uuid, ("add", "/properties", CHAP)),
        shared_api.request("DELETE", f"{ALL}/{uuid}"),
    ]
    assert {answer.status for answer in answers} == {200, 201, 400, 409}
    told = b"".join(answer.content for answer in answers).decode() + caplog.text
    assert [canary for canary in CANARIES if canary in told] == []


def test_errors_of_the_database_do_not_carry_what_was_written(shared_api: Application, node: str) -> None:
    uuid = give(shared_api, node, properties=CHAP)["uuid"]
    broken = {
        "uuid": uuid,
        "node_id": 1,
        "volume_type": "iscsi",
        "volume_id": "x",
        "boot_index": 1,
        "created_at": "now",
    }
    with pytest.raises(IntegrityError) as caught, shared_api.services.db.write() as connection:
        connection.execute(insert(tables.volume_targets).values(**broken, properties=json.dumps(CHAP)))
    assert [canary for canary in CANARIES if canary in str(caught.value)] == []


def test_callers_without_the_rule_do_not_see_properties(
    shared_api: Application, node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    uuid = give(shared_api, node, properties=CHAP)["uuid"]
    policy = shared_api.services.policy
    allows = policy.allows

    def all_but_one(rule: str, caller: Caller, target: Any = None) -> bool:
        return rule != "baremetal:volume:view_target_properties" and allows(rule, caller, target)

    monkeypatch.setattr(policy, "allows", all_but_one)
    for document in (
        shared_api.send("GET", f"{ALL}/{uuid}"),
        shared_api.send("GET", f"{ALL}?detail=true&node={node}")["targets"][0],
        change(shared_api, uuid, ("add", "/extra/a", 1)).json,
    ):
        assert document["properties"].keys() == {"redacted_contents"}
