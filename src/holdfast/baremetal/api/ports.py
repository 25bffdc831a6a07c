"""/v1/ports, and the ports of nodes and port groups: the port resource table and its handlers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
from sqlalchemy import ColumnElement

from holdfast import errors
from holdfast.baremetal import nodes, portgroups, ports, scoping
from holdfast.baremetal.api.nodes import authorize_in_body, authorize_moves, creating, glance, require_visible, scope
from holdfast.baremetal.api.nodes import subject as node_subject
from holdfast.db import tables
from holdfast.web import lists
from holdfast.web.kinds import BOOLEAN, IDENT, MAC, OBJECT, TIME, UUID, is_uuid, text
from holdfast.web.resources import Field, Filter, Resource
from holdfast.web.routes import Reply, Request, Route, SubjectLoader
from holdfast.web.versions import Version as V

T = tables.ports.c
NODES = tables.nodes.c
GROUPS = tables.portgroups.c

# The keys of local_link_connection, and the sets of which one must be there whole.
LINK_KEYS = ("port_id", "switch_id", "switch_info", "hostname", "network_type")
NETWORK_TYPES = ("managed", "unmanaged")
LINK_NEEDS = (frozenset({"port_id", "switch_id"}), frozenset({"port_id", "hostname"}))
_DATAPATH_ID = re.compile(r"[0-9a-f]{16}", re.IGNORECASE)


def _check_link(field: str, value: Any) -> str:
    """Where a port is plugged in: nowhere known, or a port of a switch (or of a smart NIC's host)."""
    stored: str = OBJECT.check(field, value)
    if not value:
        return stored
    unknown = sorted(value.keys() - set(LINK_KEYS))
    if unknown:
        raise errors.InvalidValue(f"{field} may have {', '.join(LINK_KEYS)}, not {', '.join(unknown)[:80]}.")
    if value.get("network_type", NETWORK_TYPES[0]) not in NETWORK_TYPES:
        raise errors.InvalidValue(f"{field}['network_type'] must be one of {', '.join(NETWORK_TYPES)}.")
    if value.get("network_type") == "unmanaged" and len(value) == 1:
        return stored
    if not any(needed <= value.keys() for needed in LINK_NEEDS):
        raise errors.InvalidValue(f"{field} needs port_id and switch_id, or port_id and hostname.")
    for key, entry in value.items():
        if not isinstance(entry, str):
            raise errors.InvalidValue(f"{field}['{key}'] must be a string.")
    if "switch_id" not in value:
        return stored
    switch = value["switch_id"].lower()
    if not _DATAPATH_ID.fullmatch(switch):
        MAC.check(f"{field}['switch_id'], unless it is an OpenFlow datapath id of 16 hexadecimal digits,", switch)
    normal: str = OBJECT.check(field, {**value, "switch_id": switch})
    return normal


LINK = replace(
    OBJECT,
    check=_check_link,
    schema={
        "type": ["object", "null"],
        "properties": {key: {"type": "string"} for key in LINK_KEYS},
        "additionalProperties": False,
    },
)


def of_node(ident: str) -> ColumnElement[bool]:
    """What belongs to the node with that UUID or name, where `nodes` is joined."""
    return (NODES.uuid if is_uuid(ident) else NODES.name) == ident


PORT = Resource(
    noun="port",
    key="ports",
    path="ports",
    table=tables.ports,
    source=tables.ports.join(tables.nodes, NODES.id == T.node_id).outerjoin(
        tables.portgroups, GROUPS.id == T.portgroup_id
    ),
    fields=[
        Field("uuid", UUID, T.uuid, create=True),
        Field("address", MAC, T.address, create=True, patch=True, required=True),
        Field("node_uuid", UUID, NODES.uuid, create=True, patch=True, required=True),
        Field("extra", OBJECT, T.extra, create=True, patch=True, sort=False),
        Field("internal_info", OBJECT, T.internal_info, V(1, 18), sort=False),
        Field("pxe_enabled", BOOLEAN, T.pxe_enabled, V(1, 19), create=True, patch=True, default=True),
        Field(
            "local_link_connection",
            LINK,
            T.local_link_connection,
            V(1, 19),
            create=True,
            patch=True,
            sort=False,
            inner=[("network_type", V(1, 64))],
        ),
        Field("portgroup_uuid", UUID, GROUPS.uuid, V(1, 24), create=True, patch=True),
        Field("physical_network", text(64, 1), T.physical_network, V(1, 34), create=True, patch=True),
        Field("is_smartnic", BOOLEAN, T.is_smartnic, V(1, 53), create=True, patch=True),
        Field("created_at", TIME, T.created_at),
        Field("updated_at", TIME, T.updated_at),
    ],
    summary=["uuid", "address"],
    filters=[
        Filter("node", IDENT, of_node, about="Of this node, by UUID or name."),
        Filter("node_uuid", UUID.required(), of_node, about="Of this node."),
        Filter("address", MAC, lambda v: T.address == v, about="With this MAC address."),
        Filter(
            "portgroup",
            IDENT,
            lambda v: (GROUPS.uuid if is_uuid(v) else GROUPS.name) == v,
            V(1, 24),
            "In this port group, by UUID or name.",
        ),
    ],
    later=[
        ("shard", V(1, 82)),
        ("name", V(1, 88)),
        ("node_ident", V(1, 94)),
        ("description", V(1, 97)),
        ("description_contains", V(1, 97)),
        ("conductor_groups", V(1, 99)),
        ("vendor", V(1, 100)),
        ("category", V(1, 101)),
        ("available_for_dynamic_portgroup", V(1, 111)),
    ],
    fields_since=V(1, 8),
)


def uuid_of(request: Request) -> str:
    """The port named in the path."""
    uuid: str = UUID.check("The port identifier", request.path["port"])
    return uuid


def subject(rule: str) -> SubjectLoader:
    """Loads the port named in the path and checks the rule against its node."""

    def load(request: Request) -> Any:
        uuid = uuid_of(request)
        with request.services.db.read() as connection:
            row = ports.find(connection, uuid)
        request.services.policy.authorize_on_node(
            rule, request.caller, row.node_owner, row.node_lessee, ports.missing(uuid)
        )
        return row

    return load


def index(request: Request) -> Reply:
    require_named(request)
    return lists.page(request, PORT, where=scoping.visible(request.subject))


def detail(request: Request) -> Reply:
    require_named(request)
    return lists.page(request, PORT, where=scoping.visible(request.subject), detail=True)


def of_the_node(request: Request) -> Reply:
    return _below_node(request, "ports")


def detail_of_the_node(request: Request) -> Reply:
    return _below_node(request, "ports/detail")


def show(request: Request) -> Reply:
    uuid = uuid_of(request)
    return Reply(document=lists.one(request, PORT, (T.uuid, uuid), ports.missing(uuid).public))


def create(request: Request) -> Reply:
    authorize_in_body(request, "baremetal:port:create", request.body["node_uuid"])
    uuid = ports.create(request.services, request.body)
    return Reply(201, _full(request, uuid), headers={"Location": f"{request.base}/v1/ports/{uuid}"})


def update(request: Request) -> Reply:
    operations = PORT.check_patch(request.body, request.version)
    authorize_moves(request, "baremetal:port:update", operations)

    def changes(stored: Mapping[str, Any]) -> dict[str, Any]:
        return PORT.apply_patch(stored, operations)

    uuid = request.subject.uuid
    shown = request.version >= V(1, 39)
    ports.change(request.services, uuid, changes, inspection_shown=shown, request_id=request.id)
    return Reply(document=_full(request, uuid))


def destroy(request: Request) -> Reply:
    ports.destroy(request.services, request.subject.uuid, request.id)
    return Reply(204)


def require_named(request: Request) -> None:
    """A list of what belongs to a node or port group that does not exist is not empty: it is a mistake."""
    for name in ("node", "node_uuid"):
        if given := request.query.get(name):
            given = IDENT.check(name, given)
            if not is_uuid(given) and request.version < V(1, 5):
                raise nodes.missing(given)
            require_visible(request, given)
    if (given := request.query.get("portgroup")) and request.version >= V(1, 24):
        with request.services.db.read() as connection:
            group = portgroups.find(connection, IDENT.check("portgroup", given))
        if not scoping.covers(request.subject, group.node_owner, group.node_lessee):
            raise portgroups.missing(given)


def _below_node(request: Request, path: str) -> Reply:
    node = request.subject
    where = [T.node_id == node.id]
    return lists.page(request, PORT, where=where, detail=path.endswith("detail"), path=f"nodes/{node.uuid}/{path}")


def _full(request: Request, uuid: str) -> msgspec.Raw:
    return lists.show(request, PORT.full(request.version), (T.uuid, uuid), ports.missing(uuid).public)


P = "/v1/ports/{port}"
OF_NODE = "/v1/nodes/{node}/ports"

ROUTES: list[Route] = [
    Route("GET", "/v1/ports", index, "baremetal:port:list_all", "List ports.", lists=PORT, subject=scope("port")),
    Route(
        "GET",
        "/v1/ports/detail",
        detail,
        "baremetal:port:list_all",
        "List ports with all fields.",
        lists=PORT,
        subject=scope("port"),
    ),
    Route(
        "POST",
        "/v1/ports",
        create,
        "baremetal:port:create",
        "Create a port.",
        success=201,
        body=PORT,
        shows=PORT,
        subject=creating("baremetal:port:create"),
    ),
    Route(
        "GET",
        P,
        show,
        "baremetal:port:get",
        "Show a port.",
        shows=PORT,
        subject=glance("baremetal:port:get", subject("baremetal:port:get")),
    ),
    Route(
        "PATCH",
        P,
        update,
        "baremetal:port:update",
        "Change a port.",
        body=list,
        shows=PORT,
        subject=subject("baremetal:port:update"),
    ),
    Route(
        "DELETE",
        P,
        destroy,
        "baremetal:port:delete",
        "Delete a port.",
        success=204,
        subject=subject("baremetal:port:delete"),
    ),
    Route(
        "GET",
        OF_NODE,
        of_the_node,
        "baremetal:port:get",
        "List the ports of a node.",
        lists=PORT,
        subject=node_subject("baremetal:port:get"),
    ),
    Route(
        "GET",
        OF_NODE + "/detail",
        detail_of_the_node,
        "baremetal:port:get",
        "List the ports of a node with all fields.",
        lists=PORT,
        subject=node_subject("baremetal:port:get"),
    ),
]
