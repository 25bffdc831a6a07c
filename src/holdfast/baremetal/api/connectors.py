"""/v1/volume/connectors, and those of a node: the resource table and its handlers (spec 000)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, and_

from holdfast.baremetal import connectors, scoping
from holdfast.baremetal.api.nodes import authorize_in_body, authorize_moves, creating, glance, scope
from holdfast.baremetal.api.nodes import subject as node_subject
from holdfast.baremetal.api.ports import of_node, require_named
from holdfast.db import tables
from holdfast.web import lists
from holdfast.web.kinds import IDENT, OBJECT, TIME, UUID, choice, text
from holdfast.web.resources import Field, Filter, Resource
from holdfast.web.routes import Reply, Request, Route, SubjectLoader
from holdfast.web.versions import Version as V

SINCE = V(1, 32)
T = tables.volume_connectors.c
NODES = tables.nodes.c


def _with_id(connector_id: str) -> ColumnElement[bool]:
    # With every type named, the index on (type, connector_id) finds it.
    return and_(T.type.in_(connectors.TYPES), T.connector_id.in_(connectors.spellings(connector_id)))


CONNECTOR = Resource(
    noun="volume connector",
    key="connectors",
    path="volume/connectors",
    table=tables.volume_connectors,
    source=tables.volume_connectors.join(tables.nodes, NODES.id == T.node_id),
    fields=[
        Field("uuid", UUID, T.uuid, create=True),
        Field("node_uuid", UUID, NODES.uuid, create=True, patch=True, required=True),
        Field("type", choice(*connectors.TYPES), T.type, create=True, patch=True, required=True),
        Field("connector_id", text(255, 1), T.connector_id, create=True, patch=True, required=True),
        Field("extra", OBJECT, T.extra, create=True, patch=True, sort=False),
        Field("created_at", TIME, T.created_at),
        Field("updated_at", TIME, T.updated_at),
    ],
    summary=["uuid", "node_uuid", "type", "connector_id"],
    filters=[
        Filter("node", IDENT, of_node, about="Of this node, by UUID or name."),
        Filter("type", choice(*connectors.TYPES), lambda v: T.type == v, about="Of this type."),
        Filter("connector_id", text(255, 1), _with_id, about="With this id, however it is spelled."),
    ],
    fields_since=SINCE,
    detail_since=SINCE,
)


def uuid_of(request: Request) -> str:
    """The connector named in the path."""
    uuid: str = UUID.check("The volume connector identifier", request.path["connector"])
    return uuid


def subject(rule: str) -> SubjectLoader:
    """Loads the connector named in the path and checks the rule against its node."""

    def load(request: Request) -> Any:
        uuid = uuid_of(request)
        with request.services.db.read() as connection:
            row = connectors.find(connection, uuid)
        request.services.policy.authorize_on_node(
            rule, request.caller, row.node_owner, row.node_lessee, connectors.missing(uuid)
        )
        return row

    return load


def index(request: Request) -> Reply:
    require_named(request)
    return lists.page(request, CONNECTOR, where=scoping.visible(request.subject))


def detail(request: Request) -> Reply:
    require_named(request)
    return lists.page(request, CONNECTOR, where=scoping.visible(request.subject), detail=True)


def of_the_node(request: Request) -> Reply:
    node = request.subject
    return lists.page(request, CONNECTOR, where=[T.node_id == node.id], path=f"nodes/{node.uuid}/volume/connectors")


def show(request: Request) -> Reply:
    uuid = uuid_of(request)
    return Reply(document=lists.one(request, CONNECTOR, (T.uuid, uuid), connectors.missing(uuid).public))


def create(request: Request) -> Reply:
    authorize_in_body(request, "baremetal:volume:create", request.body["node_uuid"])
    uuid = connectors.create(request.services.db, request.body)
    return Reply(201, _full(request, uuid), headers={"Location": f"{request.base}/v1/volume/connectors/{uuid}"})


def update(request: Request) -> Reply:
    operations = CONNECTOR.check_patch(request.body, request.version)
    authorize_moves(request, "baremetal:volume:update", operations)

    def changes(stored: Mapping[str, Any]) -> dict[str, Any]:
        return CONNECTOR.apply_patch(stored, operations)

    uuid = request.subject.uuid
    connectors.update_volume_connector(request.services, uuid, changes)
    return Reply(document=_full(request, uuid))


def destroy(request: Request) -> Reply:
    connectors.destroy_volume_connector(request.services, request.subject.uuid)
    return Reply(204)


def _full(request: Request, uuid: str) -> msgspec.Raw:
    return lists.show(request, CONNECTOR.full(request.version), (T.uuid, uuid), connectors.missing(uuid).public)


ALL = "/v1/volume/connectors"
ONE = ALL + "/{connector}"

ROUTES: list[Route] = [
    Route(
        "GET",
        ALL,
        index,
        "baremetal:volume:list_all",
        "List volume connectors.",
        since=SINCE,
        older=406,
        lists=CONNECTOR,
        subject=scope("volume"),
    ),
    Route(
        "GET",
        ALL + "/detail",
        detail,
        "baremetal:volume:list_all",
        "List volume connectors with all fields.",
        since=SINCE,
        older=406,
        lists=CONNECTOR,
        subject=scope("volume"),
    ),
    Route(
        "POST",
        ALL,
        create,
        "baremetal:volume:create",
        "Register a volume connector.",
        since=SINCE,
        older=406,
        success=201,
        body=CONNECTOR,
        shows=CONNECTOR,
        subject=creating("baremetal:volume:create"),
    ),
    Route(
        "GET",
        ONE,
        show,
        "baremetal:volume:get",
        "Show a volume connector.",
        since=SINCE,
        older=406,
        shows=CONNECTOR,
        subject=glance("baremetal:volume:get", subject("baremetal:volume:get")),
    ),
    Route(
        "PATCH",
        ONE,
        update,
        "baremetal:volume:update",
        "Change a volume connector.",
        since=SINCE,
        older=406,
        body=list,
        shows=CONNECTOR,
        subject=subject("baremetal:volume:update"),
    ),
    Route(
        "DELETE",
        ONE,
        destroy,
        "baremetal:volume:delete",
        "Delete a volume connector.",
        since=SINCE,
        older=406,
        success=204,
        subject=subject("baremetal:volume:delete"),
    ),
    Route(
        "GET",
        "/v1/nodes/{node}/volume/connectors",
        of_the_node,
        "baremetal:volume:get",
        "List the volume connectors of a node.",
        since=SINCE,
        older=406,
        lists=CONNECTOR,
        subject=node_subject("baremetal:volume:get"),
    ),
]
