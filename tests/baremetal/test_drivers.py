"""/v1/drivers: what hardware types there are, and what their nodes need."""

from __future__ import annotations

import pytest

from holdfast import config
from tests.application import Application

TYPES = ["fake-hardware", "ipmi", "redfish"]


def test_every_enabled_hardware_type_is_listed(shared_api: Application) -> None:
    found = shared_api.send("GET", "/v1/drivers")["drivers"]
    assert [driver["name"] for driver in found] == TYPES
    for driver in found:
        assert driver["hosts"]
        assert driver["type"] == "dynamic"
        assert driver["default_power_interface"] is None
        assert driver["links"][0]["href"].endswith(f"/v1/drivers/{driver['name']}")
        assert driver["properties"][0]["href"].endswith(f"/v1/drivers/{driver['name']}/properties")


def test_a_driver_tells_its_interfaces(shared_api: Application) -> None:
    shown = shared_api.send("GET", "/v1/drivers/fake-hardware")
    detailed = shared_api.send("GET", "/v1/drivers?detail=true")["drivers"]
    assert shown in detailed
    for kind in config.INTERFACES:
        if f"default_{kind}_interface" in shown:
            assert shown[f"default_{kind}_interface"] in shown[f"enabled_{kind}_interfaces"]
    assert "fake" in shown["enabled_power_interfaces"]


@pytest.mark.parametrize(
    ("query", "version", "status", "names"),
    [
        ("type=dynamic", "latest", 200, TYPES),
        ("type=classic", "latest", 200, []),
        ("type=nonsense", "latest", 400, []),
        ("type=dynamic", "1.29", 406, []),
        ("detail=true", "1.29", 406, []),
        ("detail=maybe", "latest", 400, []),
        ("nonsense=1", "latest", 400, []),
        ("", "1.1", 200, TYPES),
    ],
)
def test_arguments_of_the_list(
    shared_api: Application, query: str, version: str, status: int, names: list[str]
) -> None:
    answer = shared_api.request("GET", f"/v1/drivers?{query}", version=version)
    assert answer.status == status
    if status == 200:
        assert [driver["name"] for driver in answer.json["drivers"]] == names


@pytest.mark.parametrize(
    ("version", "present", "absent"),
    [
        ("1.13", set(), {"properties", "type", "default_power_interface"}),
        ("1.14", {"properties"}, {"type", "default_power_interface"}),
        ("1.29", {"properties"}, {"type", "default_power_interface"}),
        ("1.30", {"type", "default_power_interface", "enabled_network_interfaces"}, {"default_storage_interface"}),
        ("1.33", {"default_storage_interface"}, {"default_rescue_interface"}),
        ("1.38", {"default_rescue_interface"}, {"default_bios_interface"}),
        ("1.40", {"default_bios_interface", "enabled_bios_interfaces"}, set()),
    ],
)
def test_what_a_driver_shows_by_version(
    shared_api: Application, version: str, present: set[str], absent: set[str]
) -> None:
    shown = shared_api.request("GET", "/v1/drivers/fake-hardware", version=version).json
    assert present <= shown.keys()
    assert not absent & shown.keys()


@pytest.mark.parametrize(("driver", "known"), [("redfish", "redfish_address"), ("ipmi", "ipmi_address")])
def test_properties_say_what_nodes_need(shared_api: Application, driver: str, known: str) -> None:
    properties = shared_api.send("GET", f"/v1/drivers/{driver}/properties")
    assert properties[known].endswith(".")


def test_raid_properties_say_what_a_configuration_may_have(shared_api: Application) -> None:
    path = "/v1/drivers/fake-hardware/raid/logical_disk_properties"
    assert {"size_gb", "raid_level"} <= shared_api.send("GET", path).keys()
    assert shared_api.request("GET", "/v1/drivers/ipmi/raid/logical_disk_properties").status in (200, 400)


@pytest.mark.parametrize("path", ["", "/properties", "/raid/logical_disk_properties", "/vendor_passthru/methods"])
def test_a_driver_nobody_knows_is_not_found(shared_api: Application, path: str) -> None:
    answer = shared_api.request("GET", f"/v1/drivers/nonsense{path}")
    assert answer.status == 404
    assert "nonsense" in answer.text


def test_vendor_methods_of_a_driver(shared_api: Application) -> None:
    methods = shared_api.send("GET", "/v1/drivers/fake-hardware/vendor_passthru/methods")
    assert methods["fleet"]["http_methods"] == ["GET"]
    assert methods["fleet"]["async"] is False
    for path in ("/vendor_passthru/fleet", "/vendor_passthru?method=fleet"):
        assert "nodes" in shared_api.send("GET", f"/v1/drivers/fake-hardware{path}")
    assert shared_api.request("POST", "/v1/drivers/fake-hardware/vendor_passthru/fleet", {}).status == 400
    assert shared_api.request("GET", "/v1/drivers/fake-hardware/vendor_passthru/nonsense").status == 400
