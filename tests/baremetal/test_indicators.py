"""Indicators (the lights of machines), events of other services, smart NICs, and where a VIF goes."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from tests.application import Application
from tests.baremetal.wiring import add_group, add_port, lock, mac, put, replace

LIGHTS = "management/indicators"


def test_a_machine_tells_its_lights_and_what_they_can_do(shared_api: Application) -> None:
    (node,) = shared_api.enrol()
    found = shared_api.send("GET", f"/v1/nodes/{node}/{LIGHTS}")["indicators"]
    assert [light["name"] for light in found] == ["led@chassis", "led@system", "power@system"]
    assert found[0].keys() == {"name", "component", "readonly", "states", "links"}
    assert (found[0]["component"], found[0]["readonly"]) == ("chassis", False)
    assert found[0]["states"] == ["on", "off", "blinking"]
    assert found[0]["links"][0]["href"].endswith(f"/v1/nodes/{node}/{LIGHTS}/led@chassis")


def test_a_light_is_switched_and_stays_so_even_while_a_flow_holds_the_node(shared_api: Application) -> None:
    (node,) = shared_api.enrol()
    path = f"/v1/nodes/{node}/{LIGHTS}/led@chassis"
    assert shared_api.send("GET", path) == {"state": "off"}
    lock(shared_api, node)
    assert shared_api.request("PUT", path, {"state": "blinking"}).status == 204
    assert shared_api.send("GET", path) == {"state": "blinking"}
    assert shared_api.send("GET", f"/v1/nodes/{node}/{LIGHTS}/led@system") == {"state": "off"}
    put(shared_api, node, reservation=None)


@pytest.mark.parametrize(
    ("light", "body", "status"),
    [
        ("led@chassis", {"state": "purple"}, 400),
        ("led@chassis", {}, 400),
        ("power@system", {"state": "on"}, 400),
        ("led@moon", {"state": "on"}, 404),
        ("led", {"state": "on"}, 404),
    ],
)
def test_a_light_that_cannot_be_switched_so(shared_api: Application, light: str, body: Any, status: int) -> None:
    (node,) = shared_api.enrol()
    assert shared_api.request("PUT", f"/v1/nodes/{node}/{LIGHTS}/{light}", body).status == status


def test_a_driver_without_lights_says_so(shared_api: Application) -> None:
    (node,) = shared_api.enrol(management_interface="noop")
    assert shared_api.request("GET", f"/v1/nodes/{node}/{LIGHTS}").json["code"] == "unsupported-by-driver"


# -- events

EVENT = {"event": "network.bind_port", "port_id": str(uuid4()), "mac_address": "52:54:00:12:34:56", "status": "ACTIVE"}


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({}, 204),
        ({"event": "network.delete_port", "device_id": str(uuid4()), "binding:host_id": "h"}, 204),
        ({"binding:vnic_type": "baremetal"}, 204),
        ({"event": "network.explode"}, 400),
        ({"port_id": "x"}, 400),
        ({"mac_address": "x"}, 400),
        ({"status": None}, 400),
        ({"odd": 1}, 400),
    ],
)
def test_events_of_known_kinds_are_taken(shared_api: Application, change: dict[str, Any], status: int) -> None:
    assert shared_api.request("POST", "/v1/events", {"events": [{**EVENT, **change}]}).status == status


def test_there_is_at_least_one_event(shared_api: Application) -> None:
    for body in ({}, {"events": []}, {"events": EVENT}):
        assert shared_api.request("POST", "/v1/events", body).status == 400


# -- smart NICs, and ports nobody manages

SMART = {"port_id": "rep0-0", "hostname": "host1"}


def test_a_smart_nic_names_its_host_and_port(shared_api: Application) -> None:
    (node,) = shared_api.enrol()
    port = add_port(shared_api, node, is_smartnic=True, local_link_connection=SMART)
    assert port["is_smartnic"] is True
    path = f"/v1/ports/{port['uuid']}"
    assert shared_api.request("PATCH", path, replace("/local_link_connection", {})).status == 400
    assert shared_api.request("PATCH", path, replace("/is_smartnic", False)).status == 200
    body = {"node_uuid": node, "address": mac(), "is_smartnic": True}
    assert shared_api.request("POST", "/v1/ports", body).status == 400


@pytest.mark.parametrize(
    ("link", "version", "status"),
    [
        ({"network_type": "unmanaged"}, "1.63", 406),
        ({"network_type": "unmanaged"}, "1.64", 201),
        ({**SMART, "network_type": "managed"}, "1.64", 201),
        ({"network_type": "managed"}, "1.64", 400),
        ({"network_type": "odd"}, "1.64", 400),
    ],
)
def test_network_type_came_with_1_64(shared_api: Application, link: dict[str, Any], version: str, status: int) -> None:
    (node,) = shared_api.enrol()
    body = {"node_uuid": node, "address": mac(), "local_link_connection": link}
    assert shared_api.request("POST", "/v1/ports", body, version=version).status == status
    port = add_port(shared_api, node, local_link_connection=SMART)["uuid"]
    patches: list[list[dict[str, Any]]] = [replace("/local_link_connection", link)]
    if status == 406:
        patches.append([{"op": "add", "path": "/local_link_connection/network_type", "value": "unmanaged"}])
    for patch in patches:
        changed = shared_api.request("PATCH", f"/v1/ports/{port}", patch, version=version)
        assert changed.status == (200 if status == 201 else status)


# -- where a VIF goes


def test_a_vif_goes_where_it_is_sent(shared_api: Application) -> None:
    (node,) = shared_api.enrol()
    add_port(shared_api, node)
    second = add_port(shared_api, node)["uuid"]
    vif = str(uuid4())
    assert shared_api.request("POST", f"/v1/nodes/{node}/vifs", {"id": vif, "port_uuid": second}).status == 204
    assert shared_api.send("GET", f"/v1/ports/{second}")["internal_info"]["tenant_vif_port_id"] == vif


@pytest.mark.parametrize("version", ["1.66", "1.67"])
def test_a_vif_goes_to_a_port_or_to_a_group(shared_api: Application, version: str) -> None:
    (node,) = shared_api.enrol()
    port, group = add_port(shared_api, node)["uuid"], add_group(shared_api, node)["uuid"]
    both = {"id": str(uuid4()), "port_uuid": port, "portgroup_uuid": group}
    assert shared_api.request("POST", f"/v1/nodes/{node}/vifs", both, version=version).status == 400
    odd = {"id": str(uuid4()), "port_uuid": "x"}
    assert shared_api.request("POST", f"/v1/nodes/{node}/vifs", odd, version=version).status == 400
