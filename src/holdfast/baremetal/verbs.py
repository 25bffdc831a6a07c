"""The provisioning verbs: what each needs, and the flow behind it."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec

from holdfast import errors
from holdfast.baremetal import configdrives, instances, nodes, provision, states, steps
from holdfast.baremetal.flows import (
    abort_node,
    adopt_node,
    clean_node,
    deploy_node,
    inspect_node,
    manage_node,
    rescue_node,
    tear_down_node,
    unrescue_node,
)
from holdfast.baremetal.flows.node_work import NodeParams
from holdfast.flows.flow import Flow
from holdfast.services import Services

FLOWS: dict[str, Flow[Any]] = {
    "deploy": deploy_node.DEPLOY,
    "rebuild": deploy_node.DEPLOY,
    "delete": tear_down_node.TEAR_DOWN,
    "manage": manage_node.MANAGE,
    "inspect": inspect_node.INSPECT,
    "clean": clean_node.CLEAN,
    "provide": clean_node.CLEAN,
    "adopt": adopt_node.ADOPT,
    "rescue": rescue_node.RESCUE,
    "unrescue": unrescue_node.UNRESCUE,
    "abort": abort_node.ABORT,
}

# The argument a verb takes beside its name, and which verbs take it.
ARGUMENTS = {
    "configdrive": ("deploy", "rebuild"),
    "clean_steps": ("clean",),
    "deploy_steps": ("deploy", "rebuild"),
    "disable_ramdisk": ("clean",),
    "rescue_password": ("rescue",),
}
NOT_IN_MAINTENANCE = ("deploy", "rebuild", "clean")


def ask(services: Services, node: Any, event: str, arguments: dict[str, Any], request_id: str) -> None:
    """Starts what a verb asks for, or raises why it cannot. Returns once the node's state shows it."""
    if node.maintenance and event in NOT_IN_MAINTENANCE:
        raise errors.NodeInMaintenance(
            f"Node {nodes.label(node)} is in maintenance ({node.maintenance_reason or 'no reason given'}). "
            "End that first: `baremetal node maintenance unset`."
        )
    provision.require(node, event)
    if event in ("delete", "rebuild"):
        nodes.require_unprotected(node)
    if event == "provide" and node.retired:
        raise errors.InvalidStateRequested(
            f"Node {nodes.label(node)} is retired ({node.retired_reason or 'no reason given'}) and cannot be "
            "provided. End that first: `baremetal node unset --retired`."
        )
    _check_arguments(event, arguments)
    if event == "manage" and node.provision_state != states.ENROLL:
        provision.move(services.db, node.uuid, event)
        return
    with services.db.read() as connection:
        task = nodes.load_task(connection, node.uuid)
    if event in ("deploy", "rebuild"):
        task.node.driver_internal_info[steps.REQUESTED] = arguments.get("deploy_steps")
    if event in ("deploy", "rebuild", "adopt"):
        instances.require_deployable(services.drivers, task)
    elif event in ("rescue", "unrescue"):
        services.drivers.rescue(task).validate(task)
    elif event == "inspect":
        services.drivers.inspect(task).validate(task)
    elif event == "delete":
        services.drivers.power(task).validate(task)
    # A crash between these two leaves what came along on the node and nothing else: the caller asks again.
    _remember(services, node, event, arguments)
    services.flows.start(FLOWS[event], _params(event, node.uuid, arguments), request_id=request_id)


def _remember(services: Services, node: Any, event: str, arguments: dict[str, Any]) -> None:
    """Keeps what may hold secrets on the node, where it is masked, and out of the flow."""
    values = {k: arguments[k] for k in ("configdrive", "rescue_password") if arguments.get(k) not in (None, "")}
    if isinstance(values.get("configdrive"), dict):
        values["configdrive"] = configdrives.build(values["configdrive"], uuid=node.uuid, name=node.name)
    marks = {}
    wanted = arguments.get("deploy_steps")
    if event in ("deploy", "rebuild") and (wanted or steps.REQUESTED in node.driver_internal_info):
        marks[steps.REQUESTED] = wanted or None
    if event == "clean":
        marks[steps.REQUESTED_CLEAN] = arguments["clean_steps"]
    if values or marks:
        instances.remember(services.db, node.uuid, values, marks)


def _params(event: str, node: str, arguments: dict[str, Any]) -> msgspec.Struct:
    match event:
        case "clean":
            return clean_node.CleanParams(
                node=node,
                event=event,
                by_hand=True,
                disable_ramdisk=bool(arguments.get("disable_ramdisk")),
            )
        case "provide":
            return clean_node.CleanParams(node=node, event=event)
        case "deploy" | "rebuild":
            return deploy_node.DeployParams(node=node, event=event)
        case "abort":
            return abort_node.AbortParams(node=node)
        case _:
            return NodeParams(node=node)


def _check_arguments(event: str, arguments: dict[str, Any]) -> None:
    for name, takers in ARGUMENTS.items():
        if arguments.get(name) is not None and event not in takers:
            raise errors.BadRequest(f"{name} goes with the targets of {' and '.join(takers)} only.")
    if event == "clean":
        if not arguments.get("clean_steps"):
            raise errors.BadRequest("Cleaning by hand needs clean_steps.")
        steps.check_clean(arguments["clean_steps"])
    if event == "rescue" and not (arguments.get("rescue_password") or "").strip():
        raise errors.BadRequest("Rescue needs a rescue_password.")
    if arguments.get("deploy_steps") is not None:
        arguments["deploy_steps"] = steps.check_deploy(arguments["deploy_steps"])
    if isinstance(arguments.get("configdrive"), dict):
        configdrives.check(arguments["configdrive"])
    elif arguments.get("configdrive"):
        _check_configdrive(arguments["configdrive"])


def _check_configdrive(value: str) -> None:
    if "://" in value:
        return
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise errors.InvalidValue("configdrive must be a URL or base64 of a gzipped ISO image.") from None
