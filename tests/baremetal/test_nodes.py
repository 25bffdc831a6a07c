"""Nodes: the rules of enrolling, showing, changing and deleting them."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import update

from holdfast import config
from holdfast.baremetal import states
from holdfast.db.tables import nodes
from tests.application import Application

UNKNOWN = "5b1f5fb4-5b5e-4c3b-9a5e-2a6f0f4c2d11"


def force(api: Application, uuid: str, **values: Any) -> str:
    """Sets what the API would not let anybody set."""
    with api.services.db.write() as connection:
        connection.execute(update(nodes).where(nodes.c.uuid == uuid).values(**values))
    return uuid


def in_state(api: Application, state: str, **fields: Any) -> str:
    values = {"provision_state": state, "target_provision_state": states.TARGETS.get(state)}
    return force(api, api.enrol(**fields)[0], **values)


def patch(api: Application, uuid: str, version: str = "latest", query: str = "", /, **values: Any) -> Any:
    operations = [{"op": "add", "path": f"/{name}", "value": value} for name, value in values.items()]
    return api.request("PATCH", f"/v1/nodes/{uuid}{query}", operations, version=version)


# -- create


def test_a_node_needs_only_a_driver_and_gets_the_rest(shared_api: Application) -> None:
    answer = shared_api.request("POST", "/v1/nodes", {"driver": "fake-hardware"})
    assert answer.status == 201
    node = answer.json
    assert answer.headers["location"] == f"http://127.0.0.1:6385/baremetal/v1/nodes/{node['uuid']}"
    assert node == shared_api.send("GET", f"/v1/nodes/{node['uuid']}")
    defaults = shared_api.services.drivers.defaults("fake-hardware")
    for kind in config.INTERFACES:
        assert node.get(f"{kind}_interface") in (defaults[kind], None)
    for name in ("driver_info", "properties", "instance_info", "extra", "clean_step", "deploy_step", "raid_config"):
        assert node[name] == {}
    for name in ("name", "instance_uuid", "power_state", "last_error", "reservation", "updated_at", "fault"):
        assert node[name] is None
    assert node["provision_state"] == "enroll"
    assert node["maintenance"] is node["console_enabled"] is False
    assert node["created_at"].endswith("+00:00")
    assert node["traits"] == []


def test_what_is_given_is_kept(shared_api: Application) -> None:
    given = {
        "uuid": str(uuid4()),
        "name": f"kept-{uuid4()}",
        "driver": "fake-hardware",
        "driver_info": {"address": "10.0.0.1", "port": 623},
        "properties": {"cpus": 8, "capabilities": "boot_mode:uefi"},
        "instance_info": {"image_source": "http://example/image"},
        "extra": {"rack": {"row": [1, 2]}, "umlaut": "ü 💥"},
        "instance_uuid": str(uuid4()),
        "resource_class": "small",
        "conductor_group": "East-1",
        "maintenance": True,
        "console_interface": "no-console",
    }
    node = shared_api.send("POST", "/v1/nodes", given)
    assert {name: node[name] for name in given} == {**given, "conductor_group": "east-1"}


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({}, 400, "driver"),
        ({"driver": None}, 400, "driver"),
        ({"driver": "nonsense"}, 400, "fake-hardware"),
        ({"driver": "fake-hardware", "nonsense": 1}, 400, "nonsense"),
        ({"driver": "fake-hardware", "traits": ["CUSTOM_A"]}, 400, "traits"),
        ({"driver": "fake-hardware", "provision_state": "active"}, 400, "provision_state"),
        ({"driver": "fake-hardware", "driver_internal_info": {}}, 400, "driver_internal_info"),
        ({"driver": "fake-hardware", "power_state": "power on"}, 400, "power_state"),
        ({"driver": "fake-hardware", "maintenance_reason": "x"}, 400, "maintenance_reason"),
        ({"driver": "fake-hardware", "links": []}, 400, "links"),
        ({"driver": "fake-hardware", "uuid": "x"}, 400, "uuid"),
        ({"driver": "fake-hardware", "instance_uuid": "x"}, 400, "instance_uuid"),
        ({"driver": "fake-hardware", "chassis_uuid": UNKNOWN}, 400, UNKNOWN),
        ({"driver": "fake-hardware", "resource_class": "x" * 81}, 400, "resource_class"),
        ({"driver": "fake-hardware", "conductor_group": "with space"}, 400, "conductor_group"),
        ({"driver": "fake-hardware", "extra": []}, 400, "extra"),
        ({"driver": "fake-hardware", "power_interface": "nonsense"}, 400, "nonsense"),
        ({"driver": "fake-hardware", "power_interface": "ipmitool"}, 400, "ipmitool"),
    ],
    ids=str,
)
def test_what_cannot_be_enrolled_is_refused_with_a_reason(
    shared_api: Application, body: dict[str, Any], status: int, text: str
) -> None:
    answer = shared_api.request("POST", "/v1/nodes", body)
    assert answer.status == status
    assert text in answer.text


@pytest.mark.parametrize("kind", config.INTERFACES)
def test_an_interface_may_be_any_the_driver_supports(shared_api: Application, kind: str) -> None:
    field = f"{kind}_interface"
    for name in shared_api.services.drivers.enabled("fake-hardware", kind):
        given: dict[str, Any] = {field: name}
        (uuid,) = shared_api.enrol(**given)
        assert shared_api.send("GET", f"/v1/nodes/{uuid}")[field] == name


# -- show


def test_a_node_is_found_by_name_and_by_uuid_however_it_is_written(shared_api: Application) -> None:
    (uuid,) = shared_api.enrol(name="found")
    for ident in ("found", uuid, uuid.upper()):
        for path in ("", "/", "/states"):
            assert shared_api.request("GET", f"/v1/nodes/{ident}{path}").status == 200


@pytest.mark.parametrize(
    ("ident", "status"), [(UNKNOWN, 404), ("nobody", 404), ("no%20name", 400), ("traits", 404), ("ports", 404)]
)
def test_a_node_nobody_knows_is_not_found(shared_api: Application, ident: str, status: int) -> None:
    for path in ("", "/states", "/validate", "/management/boot_device"):
        assert shared_api.request("GET", f"/v1/nodes/{ident}{path}").status == status


def test_secrets_are_never_shown(shared_api: Application) -> None:
    secret = {"password": "hunter2", "deep": {"auth_token": "hunter2"}, "url": "http://a:hunter2@b/"}
    (uuid,) = shared_api.enrol(driver_info=secret, instance_info=secret)
    for path in (f"/v1/nodes/{uuid}", "/v1/nodes/detail", f"/v1/nodes/{uuid}?fields=driver_info,instance_info"):
        content = shared_api.request("GET", path).content
        assert b"hunter2" not in content
        assert b"******" in content
    assert b"hunter2" not in patch(shared_api, uuid, extra={}).content


def test_times_tell_when_it_was_enrolled_and_changed(shared_api: Application) -> None:
    (uuid,) = shared_api.enrol()
    before = shared_api.send("GET", f"/v1/nodes/{uuid}")
    after = patch(shared_api, uuid, extra={"a": 1}).json
    assert before["updated_at"] is None
    assert after["created_at"] == before["created_at"] <= after["updated_at"]


# -- change


@pytest.mark.parametrize("state", sorted(states.STATES))
def test_a_node_on_its_way_is_left_alone(shared_api: Application, state: str) -> None:
    uuid = in_state(shared_api, state)
    open_states = states.STABLE | states.FAILED | {"inspect wait", "verifying", "error"}
    assert patch(shared_api, uuid, extra={"a": 1}).status == (200 if state in open_states else 409)
    assert patch(shared_api, uuid, "1.38", extra={"a": 2}).status == (
        200 if state in open_states | {"inspecting"} else 409
    )


@pytest.mark.parametrize("state", sorted(states.STATES))
def test_the_instance_of_a_node_in_maintenance_may_always_be_taken_off(shared_api: Application, state: str) -> None:
    uuid = in_state(shared_api, state, instance_uuid=str(uuid4()), maintenance=True)
    operations = [{"op": "remove", "path": "/instance_uuid"}]
    answer = shared_api.request("PATCH", f"/v1/nodes/{uuid}", operations)
    assert (answer.status, answer.json["instance_uuid"]) == (200, None)


@pytest.mark.parametrize("maintenance", [False, True])
@pytest.mark.parametrize("state", sorted(states.STABLE | states.FAILED))
def test_driver_and_interfaces_change_before_anything_depends_on_them(
    shared_api: Application, state: str, maintenance: bool
) -> None:
    uuid = in_state(shared_api, state, maintenance=maintenance, resource_class="small")
    free = maintenance or state in ("enroll", "manageable", "available")
    assert patch(shared_api, uuid, console_interface="no-console").status == (200 if free else 409)
    assert patch(shared_api, uuid, resource_class="large").status == (200 if free else 409)
    node = shared_api.send("GET", f"/v1/nodes/{uuid}")
    expected = ("no-console", "large") if free else ("fake", "small")
    assert (node["console_interface"], node["resource_class"]) == expected


def test_a_missing_resource_class_may_be_set_at_any_time(shared_api: Application) -> None:
    uuid = in_state(shared_api, states.ACTIVE)
    assert patch(shared_api, uuid, resource_class="small").status == 200
    assert patch(shared_api, uuid, resource_class="large").status == 409


def test_a_new_driver_must_fit_the_interfaces_or_they_are_chosen_anew(shared_api: Application) -> None:
    (uuid,) = shared_api.enrol(driver="fake-hardware")
    refused = patch(shared_api, uuid, driver="ipmi")
    assert refused.status == 400
    assert "ipmi" in refused.text
    node = patch(shared_api, uuid, "latest", "?reset_interfaces=true", driver="ipmi").json
    assert (node["driver"], node["power_interface"]) == ("ipmi", "ipmitool")
    defaults = shared_api.services.drivers.defaults("ipmi")
    assert {k: v for k, v in node.items() if k.endswith("_interface")}.items() <= {
        f"{kind}_interface": name for kind, name in defaults.items()
    }.items()


@pytest.mark.parametrize(
    ("version", "query", "values", "status"),
    [
        ("1.44", "?reset_interfaces=true", {"driver": "ipmi"}, 406),
        ("1.45", "?reset_interfaces=true", {"driver": "ipmi"}, 200),
        ("latest", "?reset_interfaces=true", {"extra": {}}, 400),
        ("latest", "?reset_interfaces=false", {"extra": {}}, 200),
        ("latest", "?reset_interfaces=perhaps", {"driver": "ipmi"}, 400),
        ("latest", "?nonsense=true", {"driver": "ipmi"}, 400),
    ],
)
def test_reset_interfaces_goes_with_a_new_driver(
    shared_api: Application, version: str, query: str, values: dict[str, Any], status: int
) -> None:
    (uuid,) = shared_api.enrol()
    assert patch(shared_api, uuid, version, query, **values).status == status


def test_the_driver_stays_while_the_console_is_on(shared_api: Application) -> None:
    (uuid,) = shared_api.enrol()
    force(shared_api, uuid, console_enabled=True)
    assert patch(shared_api, uuid, "latest", "?reset_interfaces=true", driver="ipmi").status == 409


def test_an_instance_is_not_overwritten_and_not_on_two_nodes(shared_api: Application) -> None:
    first, second = shared_api.enrol(2)
    instance, other = str(uuid4()), str(uuid4())
    assert patch(shared_api, first, instance_uuid=instance).status == 200
    # Nova sends it again when it repeats a request.
    assert patch(shared_api, first, instance_uuid=instance).status in (200, 409)
    overwritten = patch(shared_api, first, instance_uuid=other)
    assert (overwritten.status, overwritten.json["code"]) == (409, "associated")
    taken = patch(shared_api, second, instance_uuid=instance)
    assert (taken.status, taken.json["code"]) == (409, "associated")
    shared_api.send("PATCH", f"/v1/nodes/{first}", [{"op": "remove", "path": "/instance_uuid"}])
    assert patch(shared_api, second, instance_uuid=instance).status == 200


@pytest.mark.parametrize(("version", "status"), [("1.24", 406), ("1.25", 200)])
def test_a_chassis_may_be_left_from_1_25_on(shared_api: Application, version: str, status: int) -> None:
    chassis = shared_api.send("POST", "/v1/chassis", {})["uuid"]
    (uuid,) = shared_api.enrol(chassis_uuid=chassis)
    assert shared_api.send("GET", f"/v1/nodes/{uuid}")["chassis_uuid"] == chassis
    operations = [{"op": "remove", "path": "/chassis_uuid"}]
    assert shared_api.request("PATCH", f"/v1/nodes/{uuid}", operations, version=version).status == status


def test_a_chassis_nobody_knows_is_refused(shared_api: Application) -> None:
    (uuid,) = shared_api.enrol()
    assert patch(shared_api, uuid, chassis_uuid=UNKNOWN).status == 400


def test_a_locked_node_is_not_changed_and_its_holder_is_named(shared_api: Application) -> None:
    (uuid,) = shared_api.enrol()
    force(shared_api, uuid, reservation="deploy_node/4711")
    for answer in (patch(shared_api, uuid, extra={}), shared_api.request("DELETE", f"/v1/nodes/{uuid}")):
        assert (answer.status, answer.json["code"]) == (409, "node-locked")
        assert "4711" in answer.text
    assert shared_api.request("GET", f"/v1/nodes/{uuid}").json["reservation"] == "deploy_node/4711"


# -- delete


@pytest.mark.parametrize("state", sorted(states.STATES))
def test_only_a_node_nobody_uses_is_deleted(shared_api: Application, state: str) -> None:
    uuid = in_state(shared_api, state)
    deletable = state in ("enroll", "manageable", "available", "adopt failed")
    assert shared_api.request("DELETE", f"/v1/nodes/{uuid}").status == (204 if deletable else 409)
    assert shared_api.request("GET", f"/v1/nodes/{uuid}").status == (404 if deletable else 200)
    if not deletable:
        force(shared_api, uuid, maintenance=True)
        assert shared_api.request("DELETE", f"/v1/nodes/{uuid}").status == 204


def test_a_node_with_an_instance_is_deleted_in_maintenance_only(shared_api: Application) -> None:
    (uuid,) = shared_api.enrol(instance_uuid=str(uuid4()))
    answer = shared_api.request("DELETE", f"/v1/nodes/{uuid}")
    assert (answer.status, answer.json["code"]) == (409, "associated")
    shared_api.send("PUT", f"/v1/nodes/{uuid}/maintenance")
    assert shared_api.request("DELETE", f"/v1/nodes/{uuid}").status == 204


def test_available_nodes_may_be_protected_from_deletion(shared_api: Application) -> None:
    conf = shared_api.services.conf
    conf.set_override("allow_deleting_available_nodes", False, group="conductor")
    try:
        uuid = in_state(shared_api, states.AVAILABLE)
        assert shared_api.request("DELETE", f"/v1/nodes/{uuid}").status == 409
    finally:
        conf.clear_override("allow_deleting_available_nodes", group="conductor")


# -- cost


def test_one_node_takes_as_many_queries_as_it_has_tables(shared_api: Application) -> None:
    (uuid,) = shared_api.enrol()
    with shared_api.counted() as statements:
        shared_api.send("GET", f"/v1/nodes/{uuid}")
    assert len(statements) <= 3
