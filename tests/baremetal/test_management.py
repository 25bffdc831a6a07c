"""What is asked of a machine and answered at once: boot device, console, NMI, BIOS, RAID, validation, vendor."""

from __future__ import annotations

from typing import Any

import pytest

from tests.application import Application


@pytest.fixture
def node(shared_api: Application) -> str:
    (uuid,) = shared_api.enrol()
    return f"/v1/nodes/{uuid}"


# -- boot device


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"boot_device": "pxe"}, 204),
        ({"boot_device": "disk", "persistent": True}, 204),
        ({"boot_device": "disk", "persistent": "true"}, 204),
        ({"boot_device": "disk", "persistent": "perhaps"}, 400),
        ({"boot_device": "nonsense"}, 400),
        ({"boot_device": None}, 400),
        ({}, 400),
        ({"boot_device": "pxe", "nonsense": 1}, 400),
    ],
    ids=str,
)
def test_the_boot_device_is_set_and_shown(
    shared_api: Application, node: str, body: dict[str, Any], status: int
) -> None:
    answer = shared_api.request("PUT", f"{node}/management/boot_device", body)
    assert answer.status == status, answer
    if status == 204:
        assert answer.content == b""
        shown = shared_api.send("GET", f"{node}/management/boot_device")
        persistent = str(body.get("persistent", False)).lower() == "true"
        assert shown == {"boot_device": body["boot_device"], "persistent": persistent}


def test_a_machine_tells_what_it_can_boot_from(shared_api: Application, node: str) -> None:
    devices = shared_api.send("GET", f"{node}/management/boot_device/supported")["supported_boot_devices"]
    assert {"pxe", "disk"} <= set(devices)
    unsupported = sorted({"wanboot", "iscsiboot", "floppy"} - set(devices))
    for device in unsupported:
        answer = shared_api.request("PUT", f"{node}/management/boot_device", {"boot_device": device})
        assert answer.status == 400
        assert "pxe" in answer.text


# -- console


def test_a_console_is_opened_and_closed(shared_api: Application, node: str) -> None:
    off = {"console_enabled": False, "console_info": None}
    assert shared_api.send("GET", f"{node}/states/console") == off
    answer = shared_api.request("PUT", f"{node}/states/console", {"enabled": True})
    assert answer.status == 202
    assert answer.headers["location"].endswith("/states/console")
    shown = shared_api.send("GET", f"{node}/states/console")
    assert shown["console_enabled"] is True
    assert shown["console_info"].keys() >= {"type", "url"}
    assert shared_api.send("GET", node)["console_enabled"] is True
    shared_api.send("PUT", f"{node}/states/console", {"enabled": "false"})
    assert shared_api.send("GET", f"{node}/states/console") == off


@pytest.mark.parametrize(
    "body", [{}, {"enabled": "perhaps"}, {"enabled": 1}, {"enabled": None}, {"enabled": True, "x": 1}]
)
def test_a_console_request_is_checked(shared_api: Application, node: str, body: dict[str, Any]) -> None:
    assert shared_api.request("PUT", f"{node}/states/console", body).status == 400


def test_a_machine_without_a_console_says_so(shared_api: Application) -> None:
    (uuid,) = shared_api.enrol(console_interface="no-console")
    path = f"/v1/nodes/{uuid}/states/console"
    assert shared_api.send("GET", path) == {"console_enabled": False, "console_info": None}
    answer = shared_api.request("PUT", path, {"enabled": True})
    assert (answer.status, answer.json["code"]) == (400, "unsupported-by-driver")


# -- NMI


@pytest.mark.parametrize(("version", "status"), [("1.28", 404), ("1.29", 204)])
def test_an_nmi_is_injected_from_1_29_on(shared_api: Application, node: str, version: str, status: int) -> None:
    bodies: list[Any] = [None, {}]
    for body in bodies:
        assert shared_api.request("PUT", f"{node}/management/inject_nmi", body, version=version).status == status


# -- BIOS


def test_bios_settings_are_shown_once_they_were_read(shared_api: Application, node: str) -> None:
    assert shared_api.send("GET", f"{node}/bios") == {"bios": []}
    shared_api.send("PUT", f"{node}/states/provision", {"target": "manage"})
    shared_api.settle(node.removeprefix("/v1/nodes/"), "manageable")
    settings = shared_api.send("GET", f"{node}/bios")["bios"]
    assert [setting["name"] for setting in settings] == sorted(setting["name"] for setting in settings)
    first = settings[0]
    assert first.keys() >= {"name", "value", "created_at", "updated_at", "links"}
    assert shared_api.send("GET", f"{node}/bios/{first['name']}")[first["name"]]["value"] == first["value"]
    assert shared_api.request("GET", f"{node}/bios/nonsense").status == 404


# -- RAID


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"logical_disks": [{"size_gb": 10, "raid_level": "1"}]}, 204),
        ({"logical_disks": [{"size_gb": "MAX", "raid_level": "0", "is_root_volume": True}]}, 204),
        ({"logical_disks": []}, 400),
        ({"logical_disks": [{"size_gb": 10}]}, 400),
        ({"logical_disks": [{"size_gb": -1, "raid_level": "1"}]}, 400),
        ({"logical_disks": [{"size_gb": 10, "raid_level": "nonsense"}]}, 400),
        ({"nonsense": 1}, 400),
    ],
    ids=str,
)
def test_the_wanted_raid_is_checked_and_kept(
    shared_api: Application, node: str, body: dict[str, Any], status: int
) -> None:
    answer = shared_api.request("PUT", f"{node}/states/raid", body)
    assert answer.status == status, answer
    assert shared_api.send("GET", node)["target_raid_config"] == (body if status == 204 else {})


def test_a_machine_without_raid_says_so(shared_api: Application) -> None:
    (uuid,) = shared_api.enrol(raid_interface="no-raid")
    body = {"logical_disks": [{"size_gb": 10, "raid_level": "1"}]}
    assert shared_api.request("PUT", f"/v1/nodes/{uuid}/states/raid", body).status in (400, 404)


@pytest.mark.parametrize(
    ("interface", "verb", "state"), [("inspect", "inspect", "manageable"), ("rescue", "rescue", "active")]
)
def test_a_machine_that_cannot_is_not_asked_to(shared_api: Application, interface: str, verb: str, state: str) -> None:
    fields: dict[str, Any] = {f"{interface}_interface": f"no-{interface}"}
    (uuid,) = shared_api.enrol(state=state, **fields)
    body = {"target": verb, **({"rescue_password": "hunter2"} if verb == "rescue" else {})}
    answer = shared_api.request("PUT", f"/v1/nodes/{uuid}/states/provision", body)
    assert (answer.status, answer.json["code"]) == (400, "unsupported-by-driver")
    assert shared_api.send("GET", f"/v1/nodes/{uuid}")["provision_state"] == state


# -- validation


def test_validation_tells_of_each_interface_whether_it_could_work(shared_api: Application, node: str) -> None:
    results = shared_api.send("GET", f"{node}/validate")
    expected = {"bios", "boot", "console", "deploy", "inspect", "management", "network", "power", "raid", "rescue"}
    assert results.keys() >= expected | {"storage"}
    assert "vendor" not in results
    assert results["power"] == {"result": True}


def test_validation_says_why_not(shared_api: Application) -> None:
    fails = {"fake_fail": ["power.validate"]}
    (uuid,) = shared_api.enrol(driver_info=fails, instance_info={"traits": ["CUSTOM_A"]}, bios_interface="no-bios")
    results = shared_api.send("GET", f"/v1/nodes/{uuid}/validate")
    assert results["power"]["result"] is False
    assert "fake_fail" in results["power"]["reason"]
    assert results["deploy"]["result"] is False
    assert "CUSTOM_A" in results["deploy"]["reason"]
    assert results["bios"]["result"] is None
    assert results["management"] == {"result": True}


# -- vendor methods


def test_vendor_methods_are_listed_and_called(shared_api: Application, node: str) -> None:
    methods = shared_api.send("GET", f"{node}/vendor_passthru/methods")
    assert methods["echo"] == {
        "http_methods": ["POST"],
        "async": False,
        "description": "Answers with the body it was sent.",
        "attach": False,
        "require_exclusive_lock": False,
    }
    assert shared_api.send("POST", f"{node}/vendor_passthru/echo", {"colour": "blue"}) == {"colour": "blue"}
    assert shared_api.send("POST", f"{node}/vendor_passthru?method=echo", {"a": 1}) == {"a": 1}
    answer = shared_api.request("POST", f"{node}/vendor_passthru/push_button", {})
    assert (answer.status, answer.content) == (202, b"")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/vendor_passthru/echo", 400),
        ("POST", "/vendor_passthru/nonsense", 400),
        ("POST", "/vendor_passthru", 400),
        ("POST", "/vendor_passthru/validate", 400),
        ("POST", "/vendor_passthru/__init__", 400),
    ],
)
def test_only_vendor_methods_are_called_and_as_they_want(
    shared_api: Application, node: str, method: str, path: str, status: int
) -> None:
    assert shared_api.request(method, f"{node}{path}", {} if method == "POST" else None).status == status
