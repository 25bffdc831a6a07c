"""/v1/nodes/<node>/states: power, provisioning, RAID, console; and the maintenance flag beside them."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast import errors
from holdfast.baremetal import nodes, power, states, verbs
from holdfast.baremetal.api.nodes import NODE
from holdfast.db import tables
from holdfast.web import lists
from holdfast.web.kinds import BOOLEAN
from holdfast.web.resources import newer
from holdfast.web.routes import Reply, Request
from holdfast.web.versions import Version as V

SHOWN = (
    "console_enabled",
    "last_error",
    "power_state",
    "provision_state",
    "provision_updated_at",
    "raid_config",
    "target_power_state",
    "target_provision_state",
    "target_raid_config",
)


ARGUMENT_SINCE = {"deploy_steps": V(1, 69), "disable_ramdisk": V(1, 70)}


class Strict(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Bodies of actions: unknown keys are refused."""


class PowerRequest(Strict):
    target: str
    timeout: int | None = None


class ProvisionRequest(Strict):
    target: str
    configdrive: str | dict[str, Any] | None = None
    clean_steps: list[dict[str, Any]] | None = None
    deploy_steps: list[dict[str, Any]] | None = None
    disable_ramdisk: bool | str | None = None
    rescue_password: str | None = None


class MaintenanceRequest(Strict):
    reason: str | None = None


class ConsoleRequest(Strict):
    enabled: bool | str


def show(request: Request) -> Reply:
    fields = [NODE.by_name[name] for name in SHOWN if NODE.by_name[name].since <= request.version]
    plan = NODE.plan(fields, request.version, links=())
    uuid = request.subject.uuid
    return Reply(document=lists.show(request, plan, (tables.nodes.c.uuid, uuid), nodes.missing(uuid).public))


def set_power(request: Request) -> Reply:
    wanted: PowerRequest = request.body
    if wanted.target not in states.POWER_TARGETS:
        raise errors.InvalidValue(
            f"{wanted.target!r} is not a power target. Targets: {', '.join(states.POWER_TARGETS)}."
        )
    if (wanted.target in power.SOFT or wanted.timeout is not None) and request.version < V(1, 27):
        raise newer("Soft power changes and timeouts", V(1, 27))
    power.change(request.services, request.subject, wanted.target, wanted.timeout, request.id)
    return _accepted(request)


def set_provision(request: Request) -> Reply:
    wanted: ProvisionRequest = request.body
    verb = states.VERBS.get(wanted.target)
    if wanted.target in states.LATER_VERBS:
        raise newer(f"The target {wanted.target}", states.LATER_VERBS[wanted.target])
    if verb is None:
        raise errors.InvalidValue(f"{wanted.target!r} is not a target. Targets: {', '.join(states.VERBS)}.")
    if verb.since > request.version:
        raise newer(f"The target {wanted.target}", verb.since)
    waiting = request.subject.provision_state == states.INSPECTWAIT
    if verb.event == "abort" and waiting and request.version < V(1, 41):
        raise newer("Aborting an inspection", V(1, 41))
    if verb.event == "rebuild" and wanted.configdrive is not None and request.version < V(1, 35):
        raise errors.BadRequest("A config drive with rebuild needs API version 1.35 or later.")
    arguments = {name: getattr(wanted, name) for name in verbs.ARGUMENTS}
    for name, since in ARGUMENT_SINCE.items():
        if arguments[name] is not None and request.version < since:
            raise newer(f"The argument {name}", since)
    if isinstance(wanted.configdrive, dict):
        since = V(1, 59) if "vendor_data" in wanted.configdrive else V(1, 56)
        if request.version < since:
            raise errors.BadRequest(f"This object as configdrive needs API version {since} or later.")
    arguments["disable_ramdisk"] = BOOLEAN.check("disable_ramdisk", wanted.disable_ramdisk)
    verbs.ask(request.services, request.subject, verb.event, arguments, request.id)
    return _accepted(request)


def set_raid(request: Request) -> Reply:
    services = request.services
    with nodes.working(services, request.subject.uuid) as task:
        services.drivers.raid(task).validate_raid_config(task, request.body)
        task.node.target_raid_config = request.body
    return Reply(204)


def show_console(request: Request) -> Reply:
    services, node = request.services, request.subject
    if not node.console_enabled:
        return Reply(document={"console_enabled": False, "console_info": None})
    with services.db.read() as connection:
        task = nodes.load_task(connection, node.uuid)
    return Reply(document={"console_enabled": True, "console_info": services.drivers.console(task).get_console(task)})


def set_console(request: Request) -> Reply:
    enabled = bool(BOOLEAN.check("enabled", request.body.enabled))
    nodes.set_console(request.services, request.subject.uuid, enabled)
    return _accepted(request, "states/console")


def set_maintenance(request: Request) -> Reply:
    reason = request.body.reason if request.body else None
    if reason is not None and len(reason) > 4096:
        raise errors.InvalidValue("reason must have at most 4096 characters.")
    nodes.set_maintenance(request.services.db, request.subject.uuid, True, reason)
    return Reply(202)


def clear_maintenance(request: Request) -> Reply:
    nodes.set_maintenance(request.services.db, request.subject.uuid, False)
    return Reply(202)


def _accepted(request: Request, where: str = "states") -> Reply:
    """202, and where to look for what comes of it."""
    return Reply(202, headers={"Location": f"{request.base}/v1/nodes/{request.subject.uuid}/{where}"})
