"""The contents page of the bare-metal API: every path, its handler, its policy rule, its version."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast import errors
from holdfast.baremetal.api import (
    allocations,
    bios,
    chassis,
    conductors,
    connectors,
    deploy_templates,
    drivers,
    events,
    indicators,
    management,
    nodes,
    portgroups,
    ports,
    ramdisk,
    root,
    states,
    targets,
    traits,
    vifs,
    volume,
)
from holdfast.baremetal.api.nodes import NODE, scope, subject
from holdfast.baremetal.versions import LATER_PATHS, NEGOTIATION
from holdfast.web.kinds import BOOLEAN, text
from holdfast.web.routes import Api, Param, Route
from holdfast.web.versions import Version as V

N = "/v1/nodes/{node}"
D = "/v1/drivers/{driver}"


def _node(method: str, path: str, handler: Any, rule: str, about: str, **more: Any) -> Route:
    """A route below one node: the node is loaded and the rule checked against it."""
    return Route(method, N + path, handler, rule, about, subject=subject(rule), **more)


def _passthru(path: str, handler: Any, rule: str, about: str, **more: Any) -> list[Route]:
    return [
        Route(method, path, handler, rule, about, body=dict, optional_body=True, any_query=True, **more)
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
    ]


ROUTES: list[Route] = [
    Route("GET", "", root.versions, None, "The versions of this API."),
    Route("GET", "/v1", root.v1, None, "The collections of this API."),
    # nodes
    Route(
        "GET",
        "/v1/nodes",
        nodes.index,
        "baremetal:node:list_all",
        "List nodes.",
        lists=NODE,
        query=[nodes.EXPLAIN],
        subject=scope("node"),
    ),
    Route(
        "GET",
        "/v1/nodes/detail",
        nodes.detail,
        "baremetal:node:list_all",
        "List nodes with all fields.",
        lists=NODE,
        query=[nodes.EXPLAIN],
        subject=scope("node"),
    ),
    Route(
        "POST",
        "/v1/nodes",
        nodes.create,
        "baremetal:node:create",
        "Enrol a node.",
        success=201,
        body=NODE,
        shows=NODE,
    ),
    Route(
        "GET",
        N,
        nodes.show,
        "baremetal:node:get",
        "Show a node.",
        shows=NODE,
        subject=nodes.glance("baremetal:node:get", subject("baremetal:node:get")),
    ),
    _node(
        "PATCH",
        "",
        nodes.update,
        "baremetal:node:update",
        "Change a node.",
        body=list,
        shows=NODE,
        query=[Param("reset_interfaces", BOOLEAN, V(1, 45))],
    ),
    _node("DELETE", "", nodes.destroy, "baremetal:node:delete", "Delete a node.", success=204),
    _node("GET", "/validate", management.validate, "baremetal:node:validate", "Check a node's interfaces."),
    _node("GET", "/states", states.show, "baremetal:node:get_states", "Show a node's states."),
    _node(
        "PUT",
        "/states/power",
        states.set_power,
        "baremetal:node:set_power_state",
        "Change the power state.",
        body=states.PowerRequest,
        success=202,
    ),
    _node(
        "PUT",
        "/states/provision",
        states.set_provision,
        "baremetal:node:set_provision_state",
        "Ask for a provisioning verb.",
        body=states.ProvisionRequest,
        success=202,
        body_limit="max_json_body_size_provision",
    ),
    _node(
        "PUT",
        "/states/raid",
        states.set_raid,
        "baremetal:node:set_raid_state",
        "Set the wanted RAID configuration.",
        body=dict,
        success=204,
        since=V(1, 12),
        older=406,
    ),
    _node("GET", "/states/console", states.show_console, "baremetal:node:get_console", "Show the console."),
    _node(
        "PUT",
        "/states/console",
        states.set_console,
        "baremetal:node:set_console_state",
        "Open or close the console.",
        body=states.ConsoleRequest,
        success=202,
    ),
    _node(
        "PUT",
        "/maintenance",
        states.set_maintenance,
        "baremetal:node:set_maintenance",
        "Begin maintenance.",
        body=states.MaintenanceRequest,
        optional_body=True,
        success=202,
    ),
    _node(
        "DELETE",
        "/maintenance",
        states.clear_maintenance,
        "baremetal:node:clear_maintenance",
        "End maintenance.",
        success=202,
    ),
    _node(
        "GET",
        "/management/boot_device",
        management.show_boot_device,
        "baremetal:node:get_boot_device",
        "Show what the node boots from.",
    ),
    _node(
        "PUT",
        "/management/boot_device",
        management.set_device,
        "baremetal:node:set_boot_device",
        "Set what the node boots from.",
        body=management.BootDeviceRequest,
        success=204,
    ),
    _node(
        "GET",
        "/management/boot_device/supported",
        management.supported_boot_devices,
        "baremetal:node:get_boot_device",
        "Show what the node could boot from.",
    ),
    _node(
        "PUT",
        "/management/inject_nmi",
        management.inject_nmi,
        "baremetal:node:inject_nmi",
        "Inject an NMI.",
        body=dict,
        optional_body=True,
        success=204,
        since=V(1, 29),
    ),
    _node("GET", "/bios", bios.index, "baremetal:node:bios:get", "List BIOS settings.", since=V(1, 40)),
    _node("GET", "/bios/{setting}", bios.show, "baremetal:node:bios:get", "Show a BIOS setting.", since=V(1, 40)),
    _node(
        "GET",
        "/vendor_passthru/methods",
        drivers.node_methods,
        "baremetal:node:vendor_passthru",
        "List the vendor methods of a node.",
    ),
    *_passthru(
        N + "/vendor_passthru",
        drivers.node_call,
        "baremetal:node:vendor_passthru",
        "Call a vendor method.",
        subject=subject("baremetal:node:vendor_passthru"),
    ),
    *_passthru(
        N + "/vendor_passthru/{method}",
        drivers.node_call,
        "baremetal:node:vendor_passthru",
        "Call a vendor method.",
        subject=subject("baremetal:node:vendor_passthru"),
    ),
    *indicators.ROUTES,
    *traits.ROUTES,
    *vifs.ROUTES,
    *ramdisk.ROUTES,
    *ports.ROUTES,
    *portgroups.ROUTES,
    *chassis.ROUTES,
    *conductors.ROUTES,
    *allocations.ROUTES,
    *deploy_templates.ROUTES,
    *events.ROUTES,
    *volume.ROUTES,
    *connectors.ROUTES,
    *targets.ROUTES,
    # drivers
    Route(
        "GET",
        "/v1/drivers",
        drivers.index,
        "baremetal:driver:get",
        "List drivers.",
        query=[Param("type", text(16), V(1, 30)), Param("detail", BOOLEAN, V(1, 30))],
    ),
    Route("GET", D, drivers.show, "baremetal:driver:get", "Show a driver."),
    Route(
        "GET",
        D + "/properties",
        drivers.properties,
        "baremetal:driver:get_properties",
        "Show what a driver's nodes need.",
    ),
    Route(
        "GET",
        D + "/raid/logical_disk_properties",
        drivers.logical_disk_properties,
        "baremetal:driver:get_raid_logical_disk_properties",
        "Show what a RAID configuration may say.",
        since=V(1, 12),
    ),
    Route(
        "GET",
        D + "/vendor_passthru/methods",
        drivers.methods,
        "baremetal:driver:vendor_passthru",
        "List the vendor methods of a driver.",
    ),
    *_passthru(
        D + "/vendor_passthru",
        drivers.call,
        "baremetal:driver:vendor_passthru",
        "Call a driver's vendor method.",
    ),
    *_passthru(
        D + "/vendor_passthru/{method}",
        drivers.call,
        "baremetal:driver:vendor_passthru",
        "Call a driver's vendor method.",
    ),
]


def error_body(error: errors.HoldfastError) -> dict[str, str]:
    """Ironic's form: a JSON document inside a string, which its clients insist on; our code beside it."""
    if isinstance(error, errors.NotAcceptable | errors.MethodNotAllowed):
        inner = {"code": error.status, "title": _TITLES[error.status], "description": error.public}
    else:
        fault = "Client" if error.status < 500 else "Server"
        inner = {"faultcode": fault, "faultstring": error.public, "debuginfo": None}
    return {"error_message": msgspec.json.encode(inner).decode(), "code": error.code}


_TITLES = {405: "Method Not Allowed", 406: "Not Acceptable"}

API = Api("baremetal", "/baremetal", ROUTES, NEGOTIATION, error_body, implied="/v1", later=LATER_PATHS)
