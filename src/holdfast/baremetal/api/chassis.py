"""/v1/chassis: the chassis resource table and its handlers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.baremetal import chassis, scoping
from holdfast.baremetal.api.nodes import NODE
from holdfast.db import tables
from holdfast.web import lists
from holdfast.web.kinds import OBJECT, TIME, UUID, text
from holdfast.web.resources import Field, LinkList, Resource
from holdfast.web.routes import Reply, Request, Route
from holdfast.web.versions import Version as V

T = tables.chassis.c

CHASSIS = Resource(
    noun="chassis",
    key="chassis",
    path="chassis",
    table=tables.chassis,
    fields=[
        Field("uuid", UUID, T.uuid, create=True, patch=True),
        Field("description", text(255), T.description, create=True, patch=True),
        Field("extra", OBJECT, T.extra, create=True, patch=True, sort=False),
        Field("created_at", TIME, T.created_at),
        Field("updated_at", TIME, T.updated_at),
    ],
    summary=["uuid", "description"],
    links=[LinkList("nodes")],
    fields_since=V(1, 8),
)


def uuid_of(request: Request) -> str:
    """The chassis named in the path."""
    uuid: str = UUID.check("The chassis identifier", request.path["chassis"])
    return uuid


def index(request: Request) -> Reply:
    return lists.page(request, CHASSIS)


def detail(request: Request) -> Reply:
    return lists.page(request, CHASSIS, detail=True)


def nodes_in_it(request: Request) -> Reply:
    return _nodes(request, "nodes")


def detail_of_nodes_in_it(request: Request) -> Reply:
    return _nodes(request, "nodes/detail")


def show(request: Request) -> Reply:
    uuid = uuid_of(request)
    return Reply(document=lists.one(request, CHASSIS, (T.uuid, uuid), chassis.missing(uuid).public))


def create(request: Request) -> Reply:
    uuid = chassis.create(request.services.db, request.body)
    return Reply(201, _full(request, uuid), headers={"Location": f"{request.base}/v1/chassis/{uuid}"})


def update(request: Request) -> Reply:
    operations = CHASSIS.check_patch(request.body, request.version)

    def changes(stored: Mapping[str, Any]) -> dict[str, Any]:
        return CHASSIS.apply_patch(stored, operations)

    uuid = chassis.change(request.services.db, uuid_of(request), changes)
    return Reply(document=_full(request, uuid))


def destroy(request: Request) -> Reply:
    chassis.destroy(request.services.db, uuid_of(request))
    return Reply(204)


def _nodes(request: Request, path: str) -> Reply:
    visible = scoping.visible(request.services.policy.scope(request.caller))
    with request.services.db.read() as connection:
        row = chassis.find(connection, uuid_of(request))
    where = [*visible, tables.nodes.c.chassis_id == row.id]
    detailed = path.endswith("detail")
    return lists.page(request, NODE, where=where, detail=detailed, path=f"chassis/{row.uuid}/{path}")


def _full(request: Request, uuid: str) -> msgspec.Raw:
    return lists.show(request, CHASSIS.full(request.version), (T.uuid, uuid), chassis.missing(uuid).public)


C = "/v1/chassis/{chassis}"
GET = "baremetal:chassis:get"

ROUTES: list[Route] = [
    Route("GET", "/v1/chassis", index, GET, "List chassis.", lists=CHASSIS),
    Route("GET", "/v1/chassis/detail", detail, GET, "List chassis with all fields.", lists=CHASSIS),
    Route(
        "POST",
        "/v1/chassis",
        create,
        "baremetal:chassis:create",
        "Create a chassis.",
        success=201,
        body=CHASSIS,
        shows=CHASSIS,
    ),
    Route("GET", C, show, GET, "Show a chassis.", shows=CHASSIS),
    Route("PATCH", C, update, "baremetal:chassis:update", "Change a chassis.", body=list, shows=CHASSIS),
    Route("DELETE", C, destroy, "baremetal:chassis:delete", "Delete a chassis.", success=204),
    Route("GET", C + "/nodes", nodes_in_it, GET, "List the nodes in a chassis.", lists=NODE),
    Route(
        "GET",
        C + "/nodes/detail",
        detail_of_nodes_in_it,
        GET,
        "List the nodes in a chassis with all fields.",
        lists=NODE,
    ),
]
