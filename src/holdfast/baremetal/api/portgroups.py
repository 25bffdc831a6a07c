"""/v1/portgroups, and the port groups of nodes: the port group resource table and its handlers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.baremetal import portgroups, scoping
from holdfast.baremetal.api.nodes import authorize_in_body, authorize_moves, creating, glance, scope
from holdfast.baremetal.api.nodes import subject as node_subject
from holdfast.baremetal.api.ports import PORT, of_node, require_named
from holdfast.db import tables
from holdfast.web import lists
from holdfast.web.kinds import BOOLEAN, IDENT, MAC, NAME, OBJECT, TIME, UUID, is_uuid, text
from holdfast.web.resources import Field, Filter, LinkList, Resource
from holdfast.web.routes import Reply, Request, Route, SubjectLoader
from holdfast.web.versions import Version as V

T = tables.portgroups.c
NODES = tables.nodes.c

PORTGROUP = Resource(
    noun="port group",
    key="portgroups",
    path="portgroups",
    table=tables.portgroups,
    source=tables.portgroups.join(tables.nodes, NODES.id == T.node_id),
    fields=[
        Field("uuid", UUID, T.uuid, create=True),
        Field("name", NAME, T.name, create=True, patch=True),
        Field("address", MAC, T.address, create=True, patch=True),
        Field("node_uuid", UUID, NODES.uuid, create=True, patch=True, required=True),
        Field(
            "standalone_ports_supported",
            BOOLEAN,
            T.standalone_ports_supported,
            create=True,
            patch=True,
            default=True,
        ),
        Field("extra", OBJECT, T.extra, create=True, patch=True, sort=False),
        Field("internal_info", OBJECT, T.internal_info, sort=False),
        Field("mode", text(255, 1), T.mode, V(1, 26), create=True, patch=True),
        Field("properties", OBJECT, T.properties, V(1, 26), create=True, patch=True, sort=False),
        Field("created_at", TIME, T.created_at),
        Field("updated_at", TIME, T.updated_at),
    ],
    summary=["uuid", "address", "name"],
    links=[LinkList("ports")],
    filters=[
        Filter("node", IDENT, of_node, about="Of this node, by UUID or name."),
        Filter("address", MAC, lambda v: T.address == v, about="With this MAC address."),
    ],
    later=[
        ("conductor_groups", V(1, 99)),
        ("physical_network", V(1, 102)),
        ("category", V(1, 103)),
        ("shard", V(1, 106)),
        ("dynamic_portgroup", V(1, 111)),
    ],
)


def ident(request: Request) -> str:
    """The port group named in the path: a UUID or a name."""
    given: str = IDENT.check("The port group identifier", request.path["portgroup"])
    return given


def subject(rule: str) -> SubjectLoader:
    """Loads the port group named in the path and checks the rule against its node."""

    def load(request: Request) -> Any:
        given = ident(request)
        with request.services.db.read() as connection:
            row = portgroups.find(connection, given)
        request.services.policy.authorize_on_node(
            rule, request.caller, row.node_owner, row.node_lessee, portgroups.missing(given)
        )
        return row

    return load


def index(request: Request) -> Reply:
    require_named(request)
    return lists.page(request, PORTGROUP, where=scoping.visible(request.subject))


def detail(request: Request) -> Reply:
    require_named(request)
    return lists.page(request, PORTGROUP, where=scoping.visible(request.subject), detail=True)


def of_the_node(request: Request) -> Reply:
    return _below_node(request, "portgroups")


def detail_of_the_node(request: Request) -> Reply:
    return _below_node(request, "portgroups/detail")


def members(request: Request) -> Reply:
    return _members(request, "ports")


def detail_of_members(request: Request) -> Reply:
    return _members(request, "ports/detail")


def show(request: Request) -> Reply:
    given = ident(request)
    key = (T.uuid if is_uuid(given) else T.name, given)
    return Reply(document=lists.one(request, PORTGROUP, key, portgroups.missing(given).public))


def create(request: Request) -> Reply:
    authorize_in_body(request, "baremetal:portgroup:create", request.body["node_uuid"])
    uuid = portgroups.create(request.services, request.body)
    return Reply(201, _full(request, uuid), headers={"Location": f"{request.base}/v1/portgroups/{uuid}"})


def update(request: Request) -> Reply:
    operations = PORTGROUP.check_patch(request.body, request.version)
    authorize_moves(request, "baremetal:portgroup:update", operations)

    def changes(stored: Mapping[str, Any]) -> dict[str, Any]:
        return PORTGROUP.apply_patch(stored, operations)

    uuid = request.subject.uuid
    shown = request.version >= V(1, 39)
    portgroups.change(request.services, uuid, changes, inspection_shown=shown, request_id=request.id)
    return Reply(document=_full(request, uuid))


def destroy(request: Request) -> Reply:
    portgroups.destroy(request.services, request.subject.uuid, request.id)
    return Reply(204)


def _below_node(request: Request, path: str) -> Reply:
    node = request.subject
    where = [T.node_id == node.id]
    detailed = path.endswith("detail")
    return lists.page(request, PORTGROUP, where=where, detail=detailed, path=f"nodes/{node.uuid}/{path}")


def _members(request: Request, path: str) -> Reply:
    group = request.subject
    where = [tables.ports.c.portgroup_id == group.id]
    detailed = path.endswith("detail")
    return lists.page(request, PORT, where=where, detail=detailed, path=f"portgroups/{group.uuid}/{path}")


def _full(request: Request, uuid: str) -> msgspec.Raw:
    return lists.show(request, PORTGROUP.full(request.version), (T.uuid, uuid), portgroups.missing(uuid).public)


G = "/v1/portgroups/{portgroup}"
OF_NODE = "/v1/nodes/{node}/portgroups"

ROUTES: list[Route] = [
    Route(
        "GET",
        "/v1/portgroups",
        index,
        "baremetal:portgroup:list_all",
        "List port groups.",
        since=V(1, 23),
        lists=PORTGROUP,
        subject=scope("portgroup"),
    ),
    Route(
        "GET",
        "/v1/portgroups/detail",
        detail,
        "baremetal:portgroup:list_all",
        "List port groups with all fields.",
        since=V(1, 23),
        lists=PORTGROUP,
        subject=scope("portgroup"),
    ),
    Route(
        "POST",
        "/v1/portgroups",
        create,
        "baremetal:portgroup:create",
        "Create a port group.",
        since=V(1, 23),
        success=201,
        body=PORTGROUP,
        shows=PORTGROUP,
        subject=creating("baremetal:portgroup:create"),
    ),
    Route(
        "GET",
        G,
        show,
        "baremetal:portgroup:get",
        "Show a port group.",
        since=V(1, 23),
        shows=PORTGROUP,
        subject=glance("baremetal:portgroup:get", subject("baremetal:portgroup:get")),
    ),
    Route(
        "PATCH",
        G,
        update,
        "baremetal:portgroup:update",
        "Change a port group.",
        since=V(1, 23),
        body=list,
        shows=PORTGROUP,
        subject=subject("baremetal:portgroup:update"),
    ),
    Route(
        "DELETE",
        G,
        destroy,
        "baremetal:portgroup:delete",
        "Delete a port group.",
        since=V(1, 23),
        success=204,
        subject=subject("baremetal:portgroup:delete"),
    ),
    Route(
        "GET",
        G + "/ports",
        members,
        "baremetal:port:get",
        "List the ports of a port group.",
        since=V(1, 24),
        lists=PORT,
        subject=subject("baremetal:port:get"),
    ),
    Route(
        "GET",
        G + "/ports/detail",
        detail_of_members,
        "baremetal:port:get",
        "List the ports of a port group with all fields.",
        since=V(1, 24),
        lists=PORT,
        subject=subject("baremetal:port:get"),
    ),
    Route(
        "GET",
        OF_NODE,
        of_the_node,
        "baremetal:portgroup:get",
        "List the port groups of a node.",
        since=V(1, 24),
        lists=PORTGROUP,
        subject=node_subject("baremetal:portgroup:get"),
    ),
    Route(
        "GET",
        OF_NODE + "/detail",
        detail_of_the_node,
        "baremetal:portgroup:get",
        "List the port groups of a node with all fields.",
        since=V(1, 24),
        lists=PORTGROUP,
        subject=node_subject("baremetal:portgroup:get"),
    ),
]
