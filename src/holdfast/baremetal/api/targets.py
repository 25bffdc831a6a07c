"""/v1/volume/targets, and those of a node: the resource table and its handlers (spec 000).

`properties` leaves masked, always: in lists, in single objects, in the answers to POST and PATCH. Callers
without the rule for it do not see it at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast import errors
from holdfast.baremetal import scoping, targets
from holdfast.baremetal.api.nodes import authorize_in_body, authorize_moves, creating, glance, scope
from holdfast.baremetal.api.nodes import subject as node_subject
from holdfast.baremetal.api.ports import of_node, require_named
from holdfast.db import tables
from holdfast.web import lists
from holdfast.web.kinds import IDENT, INTEGER, OBJECT, SECRET_OBJECT, TIME, UUID, Kind, text
from holdfast.web.plans import Hidden
from holdfast.web.resources import Field, Filter, Guard, Resource
from holdfast.web.routes import Reply, Request, Route, SubjectLoader
from holdfast.web.versions import Version as V

SINCE = V(1, 32)
T = tables.volume_targets.c
NODES = tables.nodes.c


def _check_index(field: str, value: Any) -> int:
    """A boot index as a query argument spells it."""
    if not isinstance(value, str) or not re.fullmatch(r"-?[0-9]{1,10}", value):
        raise errors.InvalidValue(f"{field} must be an integer.")
    index: int = INTEGER.check(field, int(value))
    return index


VIEW_PROPERTIES = "baremetal:volume:view_target_properties"


def _hidden(request: Request) -> Hidden | None:
    """How volumes are reached is not for everybody who may know that they are there."""
    return None if request.services.policy.allows(VIEW_PROPERTIES, request.caller) else lambda: ("properties",)


TARGET = Resource(
    noun="volume target",
    key="targets",
    path="volume/targets",
    table=tables.volume_targets,
    source=tables.volume_targets.join(tables.nodes, NODES.id == T.node_id),
    fields=[
        Field("uuid", UUID, T.uuid, create=True),
        Field("node_uuid", UUID, NODES.uuid, create=True, patch=True, required=True),
        Field("volume_type", text(64, 1), T.volume_type, create=True, patch=True, required=True),
        Field("volume_id", text(36, 1), T.volume_id, create=True, patch=True, required=True),
        Field("boot_index", INTEGER, T.boot_index, create=True, patch=True, required=True),
        Field("properties", SECRET_OBJECT, T.properties, create=True, patch=True, sort=False),
        Field("extra", OBJECT, T.extra, create=True, patch=True, sort=False),
        Field("created_at", TIME, T.created_at),
        Field("updated_at", TIME, T.updated_at),
    ],
    summary=["uuid", "node_uuid", "volume_type", "boot_index", "volume_id"],
    guard=Guard((), _hidden, f"Hidden: to see this needs {VIEW_PROPERTIES}.", under="redacted_contents"),
    filters=[
        Filter("node", IDENT, of_node, about="Of this node, by UUID or name."),
        Filter("boot_index", Kind(_check_index, INTEGER.schema), lambda v: T.boot_index == v, about="With this index."),
        Filter("volume_id", text(36, 1), lambda v: T.volume_id == v, about="This volume."),
        Filter("volume_type", text(64, 1), lambda v: T.volume_type == v, about="Of this type."),
    ],
    fields_since=SINCE,
    detail_since=SINCE,
)


def uuid_of(request: Request) -> str:
    """The target named in the path."""
    uuid: str = UUID.check("The volume target identifier", request.path["target"])
    return uuid


def subject(rule: str) -> SubjectLoader:
    """Loads the target named in the path and checks the rule against its node."""

    def load(request: Request) -> Any:
        uuid = uuid_of(request)
        with request.services.db.read() as connection:
            row = targets.find(connection, uuid)
        request.services.policy.authorize_on_node(
            rule, request.caller, row.node_owner, row.node_lessee, targets.missing(uuid)
        )
        return row

    return load


def index(request: Request) -> Reply:
    require_named(request)
    return lists.page(request, TARGET, where=scoping.visible(request.subject))


def detail(request: Request) -> Reply:
    require_named(request)
    return lists.page(request, TARGET, where=scoping.visible(request.subject), detail=True)


def of_the_node(request: Request) -> Reply:
    node = request.subject
    return lists.page(request, TARGET, where=[T.node_id == node.id], path=f"nodes/{node.uuid}/volume/targets")


def show(request: Request) -> Reply:
    uuid = uuid_of(request)
    return Reply(document=lists.one(request, TARGET, (T.uuid, uuid), targets.missing(uuid).public))


def create(request: Request) -> Reply:
    authorize_in_body(request, "baremetal:volume:create", request.body["node_uuid"])
    uuid = targets.create(request.services.db, request.body)
    return Reply(201, _full(request, uuid), headers={"Location": f"{request.base}/v1/volume/targets/{uuid}"})


def update(request: Request) -> Reply:
    operations = TARGET.check_patch(request.body, request.version)
    authorize_moves(request, "baremetal:volume:update", operations)

    def changes(stored: Mapping[str, Any]) -> dict[str, Any]:
        return TARGET.apply_patch(stored, operations)

    uuid = request.subject.uuid
    targets.update_volume_target(request.services, uuid, changes)
    return Reply(document=_full(request, uuid))


def destroy(request: Request) -> Reply:
    targets.destroy_volume_target(request.services, request.subject.uuid)
    return Reply(204)


def _full(request: Request, uuid: str) -> msgspec.Raw:
    return lists.show(request, TARGET.full(request.version), (T.uuid, uuid), targets.missing(uuid).public)


ALL = "/v1/volume/targets"
ONE = ALL + "/{target}"

ROUTES: list[Route] = [
    Route(
        "GET",
        ALL,
        index,
        "baremetal:volume:list_all",
        "List volume targets.",
        since=SINCE,
        older=406,
        lists=TARGET,
        subject=scope("volume"),
    ),
    Route(
        "GET",
        ALL + "/detail",
        detail,
        "baremetal:volume:list_all",
        "List volume targets with all fields.",
        since=SINCE,
        older=406,
        lists=TARGET,
        subject=scope("volume"),
    ),
    Route(
        "POST",
        ALL,
        create,
        "baremetal:volume:create",
        "Give a node a volume target.",
        since=SINCE,
        older=406,
        success=201,
        body=TARGET,
        shows=TARGET,
        subject=creating("baremetal:volume:create"),
    ),
    Route(
        "GET",
        ONE,
        show,
        "baremetal:volume:get",
        "Show a volume target.",
        since=SINCE,
        older=406,
        shows=TARGET,
        subject=glance("baremetal:volume:get", subject("baremetal:volume:get")),
    ),
    Route(
        "PATCH",
        ONE,
        update,
        "baremetal:volume:update",
        "Change a volume target.",
        since=SINCE,
        older=406,
        body=list,
        shows=TARGET,
        subject=subject("baremetal:volume:update"),
    ),
    Route(
        "DELETE",
        ONE,
        destroy,
        "baremetal:volume:delete",
        "Delete a volume target.",
        since=SINCE,
        older=406,
        success=204,
        subject=subject("baremetal:volume:delete"),
    ),
    Route(
        "GET",
        "/v1/nodes/{node}/volume/targets",
        of_the_node,
        "baremetal:volume:get",
        "List the volume targets of a node.",
        since=SINCE,
        older=406,
        lists=TARGET,
        subject=node_subject("baremetal:volume:get"),
    ),
]
