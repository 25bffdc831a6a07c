"""/v1/nodes: the node resource table and its handlers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, or_, select

from holdfast import config, errors
from holdfast.baremetal import conductors, network_data, nodes, policies, scoping, states, trait_filters, traits
from holdfast.db import tables
from holdfast.web import kinds, lists, patch
from holdfast.web.kinds import BOOLEAN, NAME, OBJECT, OPTIONAL_BOOLEAN, SECRET_OBJECT, TIME, UUID, Kind, text
from holdfast.web.plans import Hidden
from holdfast.web.policy import node_target
from holdfast.web.resources import Field, Filter, Guard, LinkList, Resource, newer
from holdfast.web.routes import Param, Reply, Request, SubjectLoader
from holdfast.web.versions import Version as V

T = tables.nodes.c
CHASSIS = tables.chassis.c
ALLOCATION_UUID = (
    select(tables.allocations.c.uuid)
    .where(tables.allocations.c.node_id == T.id)
    .correlate(tables.nodes)
    .scalar_subquery()
    .label("allocation_uuid")
)


def _provision_state(value: str | None, version: V) -> str | None:
    """Old versions knew a free node as null, and saw no difference while inspection waits."""
    if value == states.AVAILABLE and version < V(1, 2):
        return None
    if value == states.INSPECTWAIT and version < V(1, 39):
        return states.INSPECTING
    return value


def _state(name: str, value: str) -> str:
    if value not in states.STATES:
        raise errors.InvalidValue(f"{value!r} is not a provision state.")
    return value


def _fault(name: str, value: str) -> str:
    if value not in states.FAULTS:
        raise errors.InvalidValue(f"{value!r} is not a fault. Faults: {', '.join(sorted(states.FAULTS))}.")
    return value


def _in_chassis(uuid: str) -> ColumnElement[bool]:
    return T.chassis_id == select(CHASSIS.id).where(CHASSIS.uuid == uuid).scalar_subquery()


def _hidden(request: Request) -> Hidden | None:
    """Decides per node what a project that only leases it must not see."""
    policy, caller = request.services.policy, request.caller
    if policy.allows("baremetal:node:get:filter_threshold", caller):
        return None
    return lambda owner, lessee: policies.hidden_fields(policy, caller, owner, lessee)


NETWORK_DATA = replace(OBJECT, check=network_data.check)
TRAITS = Kind(
    kinds.same,  # type: ignore[arg-type]  # read only: traits have paths of their own
    {"type": "array", "items": {"type": "string", "maxLength": traits.LONGEST}, "maxItems": traits.MOST},
    show=traits.array,
    null="[]",
)
TRAIT_NAMES = Kind(trait_filters.parse, {"type": "string", "description": "Traits, separated by commas."})

INTERFACE_SINCE = {"network": V(1, 20), "storage": V(1, 33), "rescue": V(1, 38), "bios": V(1, 40)}

NODE = Resource(
    noun="node",
    key="nodes",
    path="nodes",
    table=tables.nodes,
    source=tables.nodes.outerjoin(tables.chassis, T.chassis_id == CHASSIS.id),
    fields=[
        Field("uuid", UUID, T.uuid, create=True),
        Field("name", NAME, T.name, V(1, 5), create=True, patch=True),
        Field("chassis_uuid", UUID, CHASSIS.uuid, create=True, patch=True),
        Field("instance_uuid", UUID, T.instance_uuid, create=True, patch=True),
        Field("driver", text(255, 1), T.driver, create=True, patch=True, required=True),
        Field("driver_info", SECRET_OBJECT, T.driver_info, create=True, patch=True, sort=False),
        Field("driver_internal_info", SECRET_OBJECT, T.driver_internal_info, V(1, 3), sort=False),
        Field("properties", OBJECT, T.properties, create=True, patch=True, sort=False),
        Field("instance_info", SECRET_OBJECT, T.instance_info, create=True, patch=True, sort=False),
        Field("extra", OBJECT, T.extra, create=True, patch=True, sort=False),
        Field("resource_class", text(80), T.resource_class, V(1, 21), create=True, patch=True),
        Field("conductor_group", text(255), T.conductor_group, V(1, 46), create=True, patch=True, default=""),
        Field("automated_clean", OPTIONAL_BOOLEAN, T.automated_clean, V(1, 47), create=True, patch=True),
        Field("protected", BOOLEAN, T.protected, V(1, 48), patch=True),
        Field("protected_reason", text(4096), T.protected_reason, V(1, 48), patch=True),
        Field("conductor", text(255), since=V(1, 49), load=conductors.shown, sort=False),
        Field("owner", text(255), T.owner, V(1, 50), create=True, patch=True),
        Field("description", text(4096), T.description, V(1, 51), create=True, patch=True),
        Field("retired", BOOLEAN, T.retired, V(1, 61), create=True, patch=True),
        Field("retired_reason", text(4096), T.retired_reason, V(1, 61), create=True, patch=True),
        Field("lessee", text(255), T.lessee, V(1, 65), create=True, patch=True),
        Field("network_data", NETWORK_DATA, T.network_data, V(1, 66), create=True, patch=True, sort=False),
        Field("allocation_uuid", UUID, ALLOCATION_UUID, V(1, 52), sort=False),
        Field("power_state", text(15), T.power_state),
        Field("target_power_state", text(15), T.target_power_state),
        Field("provision_state", text(15), T.provision_state, shown=_provision_state),
        Field("target_provision_state", text(15), T.target_provision_state, shown=_provision_state),
        Field("provision_updated_at", TIME, T.provision_updated_at),
        Field("last_error", text(4096), T.last_error),
        Field("inspection_started_at", TIME, T.inspection_started_at, V(1, 6)),
        Field("inspection_finished_at", TIME, T.inspection_finished_at, V(1, 6)),
        Field("clean_step", SECRET_OBJECT, T.clean_step, V(1, 7), sort=False),
        Field("deploy_step", SECRET_OBJECT, T.deploy_step, V(1, 44), sort=False),
        Field("raid_config", OBJECT, T.raid_config, V(1, 12), sort=False),
        Field("target_raid_config", OBJECT, T.target_raid_config, V(1, 12), sort=False),
        Field("maintenance", BOOLEAN, T.maintenance, create=True, patch=True),
        Field("maintenance_reason", text(4096), T.maintenance_reason),
        Field("fault", text(255), T.fault, V(1, 42)),
        Field("console_enabled", BOOLEAN, T.console_enabled),
        Field("reservation", text(255), T.reservation),
        *(
            Field(
                f"{kind}_interface",
                text(255),
                T[f"{kind}_interface"],
                INTERFACE_SINCE.get(kind, V(1, 31)),
                create=True,
                patch=True,
            )
            for kind in config.INTERFACES
        ),
        Field("traits", TRAITS, traits.JOINED, since=V(1, 37), sort=False),
        Field("created_at", TIME, T.created_at),
        Field("updated_at", TIME, T.updated_at),
    ],
    summary=["uuid", "name", "instance_uuid", "maintenance", "power_state", "provision_state"],
    links=[
        LinkList("ports"),
        LinkList("states", V(1, 14)),
        LinkList("portgroups", V(1, 24)),
        LinkList("volume", V(1, 32)),
    ],
    filters=[
        Filter("chassis_uuid", UUID, _in_chassis, about="In this chassis."),
        Filter("instance_uuid", UUID, lambda v: T.instance_uuid == v, about="Carrying this instance."),
        Filter(
            "associated",
            BOOLEAN,
            lambda v: T.instance_uuid.is_not(None) if v else T.instance_uuid.is_(None),
            about="Carrying an instance, or not.",
        ),
        Filter("maintenance", BOOLEAN, lambda v: T.maintenance.is_(v), about="In maintenance, or not."),
        Filter(
            "provision_state",
            Kind(_state, {"enum": sorted(states.STATES)}),
            lambda v: T.provision_state == v,
            V(1, 9),
            "In this provision state.",
        ),
        Filter("driver", text(255), lambda v: T.driver == v, V(1, 16), "With this hardware type."),
        Filter("resource_class", text(80), lambda v: T.resource_class == v, V(1, 21), "Of this class."),
        Filter(
            "fault",
            Kind(_fault, {"enum": sorted(states.FAULTS)}),
            lambda v: T.fault == v,
            V(1, 42),
            "With this fault.",
        ),
        Filter(
            "conductor_group",
            text(255),
            lambda v: T.conductor_group == v.lower(),
            V(1, 46),
            "In this conductor group.",
        ),
        Filter("conductor", text(255), conductors.in_charge_of, V(1, 49), "Looked after by this conductor."),
        Filter("owner", text(255), lambda v: T.owner == v, V(1, 50), "Owned by this project."),
        Filter("lessee", text(255), lambda v: T.lessee == v, V(1, 65), "Leased by this project."),
        Filter("retired", BOOLEAN, lambda v: T.retired.is_(v), about="Retired, or not."),
        Filter("project", text(255), lambda v: or_(T.owner == v, T.lessee == v), about="Owned or leased by it."),
        Filter(
            "description_contains",
            text(4096),
            lambda v: T.description.icontains(v, autoescape=True),
            about="With this in its description.",
        ),
        *(
            Filter(argument, TRAIT_NAMES, partial(clause, T.id), V(1, 37), about)
            for argument, (clause, about) in trait_filters.FILTERS.items()
        ),
    ],
    fields_since=V(1, 8),
    guard=Guard((T.owner, T.lessee), _hidden),
    later=[
        ("boot_mode", V(1, 75)),
        ("secure_boot", V(1, 75)),
        ("shard", V(1, 82)),
        ("sharded", V(1, 82)),
        ("parent_node", V(1, 83)),
        ("include_children", V(1, 83)),
        ("firmware_interface", V(1, 86)),
        ("service_step", V(1, 87)),
        ("disable_power_off", V(1, 95)),
        ("instance_name", V(1, 104)),
        ("health", V(1, 109)),
    ],
)

# Beyond Ironic: "why does nothing match?"
EXPLAIN = Param("explain", BOOLEAN, V(1, 37), "Also tell how many nodes each trait alone would leave.")


def subject(rule: str) -> SubjectLoader:
    """Loads the node named in the path and checks the rule against it: what every node route starts with."""

    def load(request: Request) -> Any:
        given = ident(request)
        with request.services.db.read() as connection:
            row = nodes.find(connection, given)
        request.services.policy.authorize_on_node(rule, request.caller, row.owner, row.lessee, nodes.missing(given))
        return row

    return load


def glance(rule: str, load: SubjectLoader) -> SubjectLoader:
    """For a GET that needs nothing but the right to look: `load` finds out whose it is, which is no question
    for callers who may look at everything."""

    def check(request: Request) -> None:
        if not request.services.policy.allows(rule, request.caller):
            load(request)

    return check


def creating(rule: str) -> SubjectLoader:
    """For a POST whose body names the node: `Forbidden` to whoever may not do it even to a node of its own.
    The handler asks `authorize_in_body` about this node."""

    def check(request: Request) -> None:
        project = request.caller.project_id
        request.services.policy.authorize(rule, request.caller, node_target(project, project))

    return check


def authorize_in_body(request: Request, rule: str, node_uuid: str) -> None:
    """Checks the rule against a node that a body names. One that cannot be seen is the body's fault."""
    policy = request.services.policy
    if policy.allows(rule, request.caller):
        return
    try:
        with request.services.db.read() as connection:
            row = nodes.find(connection, node_uuid)
        policy.authorize_on_node(rule, request.caller, row.owner, row.lessee, nodes.missing(node_uuid))
    except errors.NotFound as error:
        raise errors.BadRequest(error.public) from None


def authorize_moves(request: Request, rule: str, operations: list[dict[str, Any]]) -> None:
    """The same for every node a patch would give a thing to."""
    for operation in operations:
        if operation["path"] == "/node_uuid" and operation["op"] != "remove":
            authorize_in_body(request, rule, UUID.required().check("node_uuid", operation["value"]))


def require_visible(request: Request, node: str) -> None:
    """`NotFound` for a node that a list is asked to be about, unless the list's scope (the subject) covers it."""
    with request.services.db.read() as connection:
        row = nodes.find(connection, node)
    if not scoping.covers(request.subject, row.owner, row.lessee):
        raise nodes.missing(node)


def scope(noun: str) -> SubjectLoader:
    """What a list may show to this caller; `Forbidden` if nothing at all."""
    return lambda request: request.services.policy.scope(request.caller, noun)


def ident(request: Request) -> str:
    """The node identifier in the path: a UUID, or a name from 1.5 on."""
    given = request.path["node"]
    if kinds.is_uuid(given):
        return given
    if request.version < V(1, 5):
        raise nodes.missing(given)
    try:
        kinds.NAME.required().check("The node identifier", given)
    except errors.InvalidValue:
        raise errors.InvalidValue(f"{given!r} is neither a UUID nor a node name.") from None
    return given


def index(request: Request) -> Reply:
    return _page(request, detail=False)


def detail(request: Request) -> Reply:
    return _page(request, detail=True)


def show(request: Request) -> Reply:
    given = ident(request)
    key = (T.uuid, given.lower()) if kinds.is_uuid(given) else (T.name, given)
    return Reply(document=lists.one(request, NODE, key, nodes.missing(given).public))


def create(request: Request) -> Reply:
    nodes.check_name(request.body["name"], host_name=request.version < V(1, 10))
    services = request.services
    state = states.ENROLL if request.version >= V(1, 11) else states.AVAILABLE
    uuid = nodes.create(services.db, services.drivers, services.conf, request.body, state)
    return Reply(201, _full(request, uuid), headers={"Location": f"{request.base}/v1/nodes/{uuid}"})


def update(request: Request) -> Reply:
    reset = False
    if "reset_interfaces" in request.query:
        if request.version < V(1, 45):
            raise errors.NewerVersionNeeded("The argument reset_interfaces needs API version 1.45 or later.")
        reset = bool(BOOLEAN.check("reset_interfaces", request.query["reset_interfaces"]))
    operations = NODE.check_patch(request.body, request.version)
    policy, target = request.services.policy, node_target(request.subject.owner, request.subject.lessee)
    for rule in policies.patch_rules(patch.root(operation) for operation in operations):
        policy.authorize(rule, request.caller, target)
    for operation in operations:
        if operation["path"] == "/chassis_uuid" and operation["op"] == "remove" and request.version < V(1, 25):
            raise errors.NewerVersionNeeded("Removing chassis_uuid needs API version 1.25 or later.")

    def changes(stored: Mapping[str, Any]) -> dict[str, Any]:
        values = NODE.apply_patch(stored, operations)
        if "name" in values:
            nodes.check_name(values["name"], host_name=request.version < V(1, 10))
        return values

    nodes.change(
        request.services,
        request.subject.uuid,
        changes,
        operations,
        inspection_shown=request.version >= V(1, 39),
        reset_interfaces=reset,
        may_reassign=policy.allows("baremetal:node:update_owner_provisioned", request.caller, target),
    )
    return Reply(document=_full(request, request.subject.uuid))


def destroy(request: Request) -> Reply:
    nodes.destroy(request.services, request.subject.uuid, request.id)
    return Reply(204)


def _page(request: Request, *, detail: bool) -> Reply:
    return lists.page(
        request,
        NODE,
        where=scoping.visible(request.subject),
        detail=detail,
        narrow=trait_filters.narrow,
        also=trait_filters.explain if _explains(request) else None,
    )


def _explains(request: Request) -> bool:
    if "explain" in request.query and request.version < EXPLAIN.since:
        raise newer("The argument explain", EXPLAIN.since)
    return bool(BOOLEAN.check("explain", request.query.get("explain")))


def _full(request: Request, uuid: str) -> msgspec.Raw:
    return lists.show(request, NODE.full(request.version), (T.uuid, uuid), nodes.missing(uuid).public)
