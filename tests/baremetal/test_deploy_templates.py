"""Deploy templates and deploy steps: what joins a deploy, in which order, and with which arguments."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from sqlalchemy import select

from holdfast.db.tables import flows
from tests.application import Application
from tests.baremetal.wiring import remove, replace


def step(name: str = "apply_configuration", priority: Any = 150, **settings: str) -> dict[str, Any]:
    """A deploy step of the fake BIOS."""
    args = {"settings": [{"name": key, "value": value} for key, value in settings.items()]} if settings else {}
    return {"interface": "bios", "step": name, "args": args, "priority": priority}


def template(api: Application, name: str, *steps: dict[str, Any]) -> str:
    return str(api.send("POST", "/v1/deploy_templates", {"name": name, "steps": list(steps)})["uuid"])


def bios(api: Application, node: str) -> dict[str, str]:
    machine: dict[str, Any] = api.send("GET", f"/v1/nodes/{node}/vendor_passthru/effects")["machine"]
    found: dict[str, str] = machine["bios"]
    return found


def effects(api: Application, node: str) -> list[str]:
    return [entry["effect"] for entry in api.send("GET", f"/v1/nodes/{node}/vendor_passthru/effects")["effects"]]


def free_node(api: Application, *traits: str) -> str:
    """A free node that has these traits and is asked for them."""
    (node,) = api.enrol(state="available")
    api.send("PUT", f"/v1/nodes/{node}/traits", {"traits": list(traits)})
    api.send("PATCH", f"/v1/nodes/{node}", [{"op": "add", "path": "/instance_info/traits", "value": list(traits)}])
    return node


def deploy(api: Application, node: str, target: str = "active", **more: Any) -> int:
    status = api.request("PUT", f"/v1/nodes/{node}/states/provision", {"target": target, **more}).status
    if status == 202:
        api.settle(node, "active")
    return status


# -- templates as such


def test_a_template_is_created_shown_changed_and_deleted(api: Application) -> None:
    body = {"name": "CUSTOM_FAST", "steps": [step(priority="150", Turbo="On")], "extra": {"a": 1}}
    created = api.request("POST", "/v1/deploy_templates", body)
    assert created.status == 201
    uuid = created.json["uuid"]
    assert created.headers["location"].endswith(f"/v1/deploy_templates/{uuid}")
    assert created.json["steps"] == [step(priority=150, Turbo="On")]
    for ident in (uuid, "CUSTOM_FAST"):
        assert api.send("GET", f"/v1/deploy_templates/{ident}") == created.json
    assert api.send("GET", "/v1/deploy_templates")["deploy_templates"][0].keys() == {"uuid", "name", "links"}
    patch = [*replace("/name", "CUSTOM_SLOW"), {"op": "replace", "path": "/steps/0/priority", "value": 10}]
    changed = api.send("PATCH", f"/v1/deploy_templates/{uuid}", patch)
    assert (changed["name"], changed["steps"][0]["priority"]) == ("CUSTOM_SLOW", 10)
    assert api.request("DELETE", "/v1/deploy_templates/CUSTOM_SLOW").status == 204
    assert api.request("GET", f"/v1/deploy_templates/{uuid}").status == 404


@pytest.mark.parametrize(
    "change",
    [
        {"name": None},
        {"name": "lower"},
        {"steps": []},
        {"steps": None},
        {"steps": [step(), step()]},
        {"steps": [{**step(), "priority": -1}]},
        {"steps": [{**step(), "priority": "high"}]},
        {"steps": [{**step(), "priority": True}]},
        {"steps": [{**step(), "interface": "network"}]},
        {"steps": [{**step(), "args": []}]},
        {"steps": [{**step(), "step": ""}]},
        {"steps": [{**step(), "more": 1}]},
        {"steps": [{"interface": "bios", "step": "x", "args": {}}]},
    ],
    ids=str,
)
def test_a_template_that_makes_no_sense_is_refused(shared_api: Application, change: dict[str, Any]) -> None:
    body = {"name": "CUSTOM_ODD", "steps": [step()], **change}
    assert shared_api.request("POST", "/v1/deploy_templates", body).status == 400


def test_names_are_unique_and_needed_parts_stay(api: Application) -> None:
    template(api, "CUSTOM_A", step())
    uuid = template(api, "CUSTOM_B", step())
    assert api.request("POST", "/v1/deploy_templates", {"name": "CUSTOM_A", "steps": [step()]}).status == 409
    assert api.request("PATCH", f"/v1/deploy_templates/{uuid}", replace("/name", "CUSTOM_A")).status == 409
    for path in ("/name", "/steps"):
        assert api.request("PATCH", f"/v1/deploy_templates/{uuid}", remove(path)).status == 400


def test_secrets_in_arguments_are_masked_and_survive_being_sent_back(api: Application) -> None:
    secret = {**step(), "args": {"admin_password": "canary"}}
    uuid = template(api, "CUSTOM_A", secret)
    shown = api.request("GET", f"/v1/deploy_templates/{uuid}")
    assert b"canary" not in shown.content
    again = replace("/steps", [{**shown.json["steps"][0], "priority": 7}])
    assert b"canary" not in api.request("PATCH", f"/v1/deploy_templates/{uuid}", again).content
    from holdfast.baremetal import deploy_templates

    with api.services.db.read() as connection:
        stored = deploy_templates.steps_for(connection, ["CUSTOM_A"])
    assert stored == [{**secret, "priority": 7}]


# -- in a deploy


def test_a_template_joins_the_deploy_of_whoever_asks_for_its_trait(api: Application) -> None:
    template(api, "CUSTOM_FAST", step(Turbo="On"))
    asked, unasked = free_node(api, "CUSTOM_FAST"), free_node(api)
    assert deploy(api, asked) == deploy(api, unasked) == 202
    assert bios(api, asked)["Turbo"] == "On"
    assert "Turbo" not in bios(api, unasked)


@pytest.mark.parametrize(("priority", "order"), [(150, ["bios", "install"]), (50, ["install", "bios"])])
def test_steps_run_by_priority(api: Application, priority: int, order: list[str]) -> None:
    template(api, "CUSTOM_FAST", step(priority=priority, Turbo="On"))
    node = free_node(api, "CUSTOM_FAST")
    deploy(api, node)
    happened = effects(api, node)
    assert sorted(order, key=happened.index) == order


def test_priority_0_leaves_out_a_step_of_the_driver(api: Application) -> None:
    off = {"interface": "deploy", "step": "deploy", "args": {}, "priority": 0}
    template(api, "CUSTOM_BARE", off)
    node = free_node(api, "CUSTOM_BARE")
    deploy(api, node)
    assert "install" not in effects(api, node)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({**step("no_such_step")}, "no deploy step 'no_such_step'"),
        ({**step(), "args": {}}, "needs settings"),
        ({**step(), "args": {"settings": [], "odd": 1}}, "does not take odd"),
    ],
)
def test_a_step_the_node_lacks_is_found_before_the_deploy(api: Application, wanted: dict[str, Any], words: str) -> None:
    template(api, "CUSTOM_ODD", wanted)
    node = free_node(api, "CUSTOM_ODD")
    validated = api.send("GET", f"/v1/nodes/{node}/validate")["deploy"]
    assert validated["result"] is False
    assert words in validated["reason"]
    assert deploy(api, node) == 400
    assert api.send("GET", f"/v1/nodes/{node}")["provision_state"] == "available"


def test_steps_of_the_request_win_over_templates(api: Application) -> None:
    template(api, "CUSTOM_FAST", step(Turbo="Template"))
    node = free_node(api, "CUSTOM_FAST")
    assert deploy(api, node, deploy_steps=[step(Turbo="Request", priority=120)]) == 202
    assert bios(api, node)["Turbo"] == "Request"
    assert effects(api, node).count("bios") == 1


def test_steps_of_the_request_are_for_one_deploy(api: Application) -> None:
    node = free_node(api)
    deploy(api, node, deploy_steps=[step(Turbo="On")])
    assert deploy(api, node, "rebuild", deploy_steps=[step(Cores="4")]) == 202
    assert (bios(api, node)["Turbo"], bios(api, node)["Cores"]) == ("On", "4")
    count = effects(api, node).count("bios")
    assert deploy(api, node, "rebuild") == 202
    assert effects(api, node).count("bios") == count


@pytest.mark.parametrize(
    ("version", "body", "status"),
    [
        ("1.68", {"target": "active", "deploy_steps": [step(A="1")]}, 406),
        ("1.69", {"target": "active", "deploy_steps": [step(A="1")]}, 202),
        ("1.69", {"target": "active", "deploy_steps": []}, 400),
        ("1.69", {"target": "active", "deploy_steps": [{"interface": "bios", "step": "x"}]}, 400),
        ("1.69", {"target": "deleted", "deploy_steps": [step(A="1")]}, 400),
    ],
)
def test_deploy_steps_came_with_1_69(api: Application, version: str, body: dict[str, Any], status: int) -> None:
    node = free_node(api)
    answer = api.request("PUT", f"/v1/nodes/{node}/states/provision", body, version=version)
    assert answer.status == status, answer
    api.settle(node)


def test_arguments_of_steps_stay_out_of_the_flow(api: Application) -> None:
    node = free_node(api)
    deploy(api, node, deploy_steps=[step(Password="canary")])
    with api.services.db.read() as connection:
        params = connection.execute(select(flows.c.params)).scalars().all()
    assert params
    assert "canary" not in msgspec.json.encode(params).decode()


# -- cleaning without a ramdisk


@pytest.mark.parametrize(
    ("steps", "final"),
    [
        ([{"interface": "bios", "step": "factory_reset"}], "manageable"),
        ([{"interface": "deploy", "step": "erase_devices"}], "clean failed"),
    ],
)
def test_cleaning_without_a_ramdisk_boots_none(api: Application, steps: list[Any], final: str) -> None:
    (node,) = api.enrol(state="manageable")
    # With a ramdisk this node would wait for its heartbeat.
    api.send("PATCH", f"/v1/nodes/{node}", [{"op": "add", "path": "/driver_info/fake_wait", "value": ["clean"]}])
    body = {"target": "clean", "clean_steps": steps, "disable_ramdisk": True}
    assert api.request("PUT", f"/v1/nodes/{node}/states/provision", body).status == 202
    settled = api.settle(node)
    assert settled["provision_state"] == final
    if final == "clean failed":
        assert "needs the ramdisk" in settled["last_error"]
        assert "erase" not in effects(api, node)


@pytest.mark.parametrize(
    ("version", "target", "status"), [("1.69", "clean", 406), ("1.70", "clean", 202), ("1.70", "provide", 400)]
)
def test_disable_ramdisk_came_with_1_70(api: Application, version: str, target: str, status: int) -> None:
    (node,) = api.enrol(state="manageable")
    body: dict[str, Any] = {"target": target, "disable_ramdisk": "true"}
    if target == "clean":
        body["clean_steps"] = [{"interface": "bios", "step": "factory_reset"}]
    assert api.request("PUT", f"/v1/nodes/{node}/states/provision", body, version=version).status == status
    api.settle(node)


def test_a_field_of_a_later_version_is_named_with_that_version(shared_api: Application) -> None:
    body = {"name": "CUSTOM_ODD", "steps": [step()], "description": "later"}
    answer = shared_api.request("POST", "/v1/deploy_templates", body)
    assert answer.status == 406
    assert "1.112" in answer.text
