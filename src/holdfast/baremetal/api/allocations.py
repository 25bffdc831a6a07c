"""/v1/allocations, and the allocation of a node: the resource table and its handlers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from sqlalchemy import ColumnElement

from holdfast import errors
from holdfast.baremetal import allocations, scoping, traits
from holdfast.baremetal.api.nodes import authorize_in_body, require_visible, scope
from holdfast.baremetal.api.nodes import subject as node_subject
from holdfast.baremetal.flows.allocate_node import ALLOCATE, AllocateParams
from holdfast.db import tables
from holdfast.web import kinds, lists
from holdfast.web.kinds import IDENT, NAME, OBJECT, TIME, UUID, Kind, choice, is_uuid, new_uuid, text
from holdfast.web.policy import allocation_target
from holdfast.web.resources import Field, Filter, Resource
from holdfast.web.routes import Reply, Request, Route, SubjectLoader
from holdfast.web.versions import Version as V

SINCE = V(1, 52)
T = tables.allocations.c
NODES = tables.nodes.c

MOST_CANDIDATES = 1000


def _of_node(ident: str) -> ColumnElement[bool]:
    return (NODES.uuid if is_uuid(ident) else NODES.name) == ident


NODE_IDENT = Kind(lambda field, value: None if value is None else IDENT.check(field, value), IDENT.schema)

ALLOCATION = Resource(
    noun="allocation",
    key="allocations",
    path="allocations",
    table=tables.allocations,
    source=tables.allocations.outerjoin(tables.nodes, NODES.id == T.node_id),
    fields=[
        Field("uuid", UUID, T.uuid, create=True),
        Field("name", NAME, T.name, create=True, patch=True),
        Field("node_uuid", UUID, NODES.uuid),
        Field("state", choice(*allocations.STATES), T.state),
        Field("last_error", text(4096), T.last_error),
        Field("resource_class", text(80), T.resource_class, create=True),
        Field(
            "traits", kinds.strings(lambda _f, name: traits.check(name), traits.MOST), T.traits, create=True, sort=False
        ),
        Field(
            "candidate_nodes",
            kinds.strings(IDENT.check, MOST_CANDIDATES),
            T.candidate_nodes,
            create=True,
            sort=False,
        ),
        Field("extra", OBJECT, T.extra, create=True, patch=True, sort=False),
        Field("owner", text(255), T.owner, V(1, 60), create=True),
        Field("node", NODE_IDENT, since=V(1, 58), create=True, write_only=True),
        Field("created_at", TIME, T.created_at),
        Field("updated_at", TIME, T.updated_at),
    ],
    summary=[
        "uuid",
        "name",
        "node_uuid",
        "state",
        "last_error",
        "resource_class",
        "traits",
        "candidate_nodes",
        "extra",
        "owner",
        "created_at",
        "updated_at",
    ],
    filters=[
        Filter("node", IDENT, _of_node, about="With this node, by UUID or name."),
        Filter("resource_class", text(80), lambda v: T.resource_class == v, about="For nodes of this class."),
        Filter("state", choice(*allocations.STATES), lambda v: T.state == v, about="In this state."),
        Filter("owner", text(255), lambda v: T.owner == v, V(1, 60), "Owned by this project."),
    ],
)


def subject(rule: str) -> SubjectLoader:
    """Loads the allocation named in the path and checks the rule against it."""

    def load(request: Request) -> Any:
        given = IDENT.check("The allocation identifier", request.path["allocation"])
        with request.services.db.read() as connection:
            row = allocations.find(connection, given)
        _authorize(request, rule, row, allocations.missing(given))
        return row

    return load


def of_node(rule: str) -> SubjectLoader:
    """Loads the allocation of the node named in the path and checks the rule against it."""
    see_node = node_subject("baremetal:node:get")

    def load(request: Request) -> Any:
        node = see_node(request)
        with request.services.db.read() as connection:
            row = allocations.of_node(connection, node)
        _authorize(request, rule, row, errors.NotFound(f"Node {request.path['node']} has no allocation."))
        return row

    return load


def _authorize(request: Request, rule: str, row: Any, missing: errors.NotFound) -> None:
    policy, target = request.services.policy, allocation_target(row.owner)
    if not policy.allows("baremetal:allocation:get", request.caller, target):
        raise missing
    policy.authorize(rule, request.caller, target)


def index(request: Request) -> Reply:
    if given := request.query.get("node"):
        require_visible(request, IDENT.check("node", given))
    return lists.page(request, ALLOCATION, where=scoping.visible_allocations(request.subject))


def show(request: Request) -> Reply:
    uuid = request.subject.uuid
    return Reply(document=lists.one(request, ALLOCATION, (T.uuid, uuid), allocations.missing(uuid).public))


def create(request: Request) -> Reply:
    services, values = request.services, dict(request.body)
    node = values.pop("node", None)
    _settle_owner(request, values)
    if idents := msgspec.json.decode(values["candidate_nodes"]):
        with services.db.read() as connection:
            found = allocations.candidates(connection, idents, services.policy.scope(request.caller))
        values["candidate_nodes"] = msgspec.json.encode(found).decode()
    if node is not None:
        authorize_in_body(request, "baremetal:node:get", node)
        uuid = allocations.backfill(services.db, values, node)
    elif not values.get("resource_class"):
        raise errors.InvalidValue("An allocation needs a resource_class, unless it is for a node that is in use.")
    else:
        uuid = values.pop("uuid", None) or new_uuid()
        services.flows.start(ALLOCATE, AllocateParams(uuid=uuid, values=values), request_id=request.id)
    return Reply(201, _full(request, uuid), headers={"Location": f"{request.base}/v1/allocations/{uuid}"})


def _settle_owner(request: Request, values: dict[str, Any]) -> None:
    """Who may not create allocations for others creates them for its own project."""
    policy, caller = request.services.policy, request.caller
    if policy.allows("baremetal:allocation:create_restricted", caller):
        return
    if caller.project_id is None or values.get("owner") not in (None, caller.project_id):
        policy.authorize("baremetal:allocation:create_restricted", caller)
    values["owner"] = caller.project_id


def update(request: Request) -> Reply:
    operations = ALLOCATION.check_patch(request.body, request.version)

    def changes(stored: Mapping[str, Any]) -> dict[str, Any]:
        return ALLOCATION.apply_patch(stored, operations)

    allocations.change(request.services.db, request.subject.uuid, changes)
    return Reply(document=_full(request, request.subject.uuid))


def destroy(request: Request) -> Reply:
    allocations.destroy(request.services.db, request.subject.uuid)
    return Reply(204)


def _full(request: Request, uuid: str) -> msgspec.Raw:
    return lists.show(request, ALLOCATION.full(request.version), (T.uuid, uuid), allocations.missing(uuid).public)


ALL = "/v1/allocations"
ONE = ALL + "/{allocation}"
OF_NODE = "/v1/nodes/{node}/allocation"
RULE = "baremetal:allocation:"

ROUTES: list[Route] = [
    Route(
        "GET",
        ALL,
        index,
        RULE + "list_all",
        "List allocations.",
        since=SINCE,
        lists=ALLOCATION,
        subject=scope("allocation"),
    ),
    Route(
        "POST",
        ALL,
        create,
        RULE + "create",
        "Ask for a node.",
        since=SINCE,
        older=405,
        success=201,
        body=ALLOCATION,
        shows=ALLOCATION,
    ),
    Route(
        "GET",
        ONE,
        show,
        RULE + "get",
        "Show an allocation.",
        since=SINCE,
        shows=ALLOCATION,
        subject=subject(RULE + "get"),
    ),
    Route(
        "PATCH",
        ONE,
        update,
        RULE + "update",
        "Change an allocation.",
        since=V(1, 57),
        older=405,
        body=list,
        shows=ALLOCATION,
        subject=subject(RULE + "update"),
    ),
    Route(
        "DELETE",
        ONE,
        destroy,
        RULE + "delete",
        "Delete an allocation.",
        since=SINCE,
        older=405,
        success=204,
        subject=subject(RULE + "delete"),
    ),
    Route(
        "GET",
        OF_NODE,
        show,
        RULE + "get",
        "Show the allocation of a node.",
        since=SINCE,
        shows=ALLOCATION,
        subject=of_node(RULE + "get"),
    ),
    Route(
        "DELETE",
        OF_NODE,
        destroy,
        RULE + "delete",
        "Delete the allocation of a node.",
        since=SINCE,
        success=204,
        subject=of_node(RULE + "delete"),
    ),
]
