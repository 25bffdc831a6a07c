"""Volume connectors: the names by which storage knows a node, its initiators (spec 000). Rules and SQL.

Each type has a syntax, and one spelling in which it is kept, so that the same card cannot be registered
twice under two spellings.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Select, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from holdfast import errors
from holdfast.baremetal import belongings, nodes
from holdfast.baremetal.task import Connector
from holdfast.db import tables
from holdfast.db.constraints import is_taken
from holdfast.db.engine import Database, now
from holdfast.services import Services
from holdfast.web.kinds import MAC, UUID, new_uuid

connectors = tables.volume_connectors

Changes = Callable[[Mapping[str, Any]], dict[str, Any]]

# RFC 7143: a date, a domain backwards, and what its owner likes; or one of two forms with hexadecimal digits.
_ISCSI_NAME = re.compile(
    r"iqn\.[0-9]{4}-(?:0[1-9]|1[0-2])\.[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?(?::[!-~]+)?"
    r"|eui\.[0-9a-f]{16}|naa\.(?:[0-9a-f]{16}){1,2}",
    re.IGNORECASE,
)
_LONGEST_ISCSI_NAME = 223
_WWN = re.compile(r"(?:0x)?[0-9a-f]{16}|[0-9a-f]{2}(?:[:-][0-9a-f]{2}){7}", re.IGNORECASE)


def _iscsi_name(value: str) -> str | None:
    return value if len(value) <= _LONGEST_ISCSI_NAME and _ISCSI_NAME.fullmatch(value) else None


def _ip(value: str) -> str | None:
    try:
        # A zone (fe80::1%eth0) means something on one machine only.
        return str(ipaddress.ip_address(value)) if "%" not in value else None
    except ValueError:
        return None


def _wwn(value: str) -> str | None:
    """As Cinder's drivers expect it; sysfs writes 0x before it, people put colons in."""
    return re.sub("^0x|[:-]", "", value.lower()) if _WWN.fullmatch(value) else None


def _mac(value: str) -> str | None:
    try:
        return str(MAC.check("", value))
    except errors.InvalidValue:
        return None


def _uuid(value: str) -> str | None:
    try:
        return str(UUID.check("", value))
    except errors.InvalidValue:
        return None


@dataclass(frozen=True)
class Type:
    """What a connector_id of this type looks like. `normal` gives the spelling it is kept in, None if it is wrong."""

    about: str
    normal: Callable[[str], str | None]


TYPES: dict[str, Type] = {
    "iqn": Type("an iSCSI name such as iqn.2010-10.com.example:node-1", _iscsi_name),
    "ip": Type("an IPv4 or IPv6 address", _ip),
    "mac": Type("a MAC address such as 52:54:00:12:34:56", _mac),
    "wwnn": Type("a world wide name of 16 hexadecimal digits", _wwn),
    "wwpn": Type("a world wide name of 16 hexadecimal digits", _wwn),
    "net-id": Type("the UUID of a network", _uuid),
    # Not in the spec; the command line offers them.
    "port": Type("the UUID of a port", _uuid),
    "portgroup": Type("the UUID of a port group", _uuid),
}


def normal(kind: str, connector_id: str) -> str:
    """The id in the spelling it is kept in, if it has the syntax of its type."""
    if kind not in TYPES:
        raise errors.InvalidValue(f"type must be one of {', '.join(TYPES)}.")
    kept = TYPES[kind].normal(connector_id)
    if kept is None:
        raise errors.InvalidValue(f"The connector_id of type {kind} must be {TYPES[kind].about}.")
    return kept


def spellings(connector_id: str) -> set[str]:
    """Every form in which a connector that somebody spells so may be kept."""
    return {connector_id, *(kept for kind in TYPES.values() if (kept := kind.normal(connector_id)) is not None)}


def whole() -> Select[Any]:
    """Connectors with the UUID of their node, as the API names it."""
    return select(connectors, *belongings.NODE_COLUMNS).join_from(connectors, tables.nodes)


def find(connection: Connection, uuid: str) -> Row[Any]:
    row = connection.execute(whole().where(connectors.c.uuid == uuid)).first()
    if row is None:
        raise missing(uuid)
    return row


def missing(uuid: str) -> errors.NotFound:
    return errors.NotFound(f"Volume connector {uuid} could not be found.")


def create(db: Database, values: Mapping[str, Any]) -> str:
    """Registers a connector of a node, in whatever state that is; returns its UUID."""
    columns = dict(values)
    columns["uuid"] = columns.get("uuid") or new_uuid()
    columns["connector_id"] = normal(columns["type"], columns["connector_id"])
    with db.write() as connection:
        columns["node_id"] = belongings.node_in_body(connection, columns.pop("node_uuid")).id
        _insert(connection, columns)
    return str(columns["uuid"])


def ensure(db: Database, node_uuid: str, kind: str, connector_id: str) -> str:
    """The UUID of the node's connector with this id, registered if there is none.

    For a flow that has the node: its lock is not asked. `Duplicate` if another node has it.
    """
    connector_id = normal(kind, connector_id)
    with db.write() as connection:
        node = nodes.find(connection, node_uuid, lock=True)
        found = connection.execute(
            select(connectors.c.uuid, connectors.c.node_id).where(
                connectors.c.type == kind, connectors.c.connector_id == connector_id
            )
        ).first()
        if found is None:
            uuid = new_uuid()
            _insert(connection, {"uuid": uuid, "node_id": node.id, "type": kind, "connector_id": connector_id})
            return uuid
        if found.node_id != node.id:
            raise _taken(kind, connector_id)
        return str(found.uuid)


def update_volume_connector(services: Services, uuid: str, changes: Changes) -> None:
    """Applies a patch in one transaction. `changes` turns the stored values into those that change."""
    with services.db.write() as connection:
        node, row = belongings.lock(connection, connectors, uuid, whole(), missing(uuid))
        belongings.require_off(node, "volume connectors")
        columns = changes(row._asdict())
        if "node_uuid" in columns:
            home = belongings.lock_node_in_body(connection, columns.pop("node_uuid"))
            belongings.require_same_owner(node, home)
            belongings.require_off(home, "volume connectors")
            columns["node_id"] = home.id
        kind = columns.get("type", row.type)
        kept = normal(kind, columns.get("connector_id", row.connector_id))
        if kept != row.connector_id:
            columns["connector_id"] = kept
        else:
            columns.pop("connector_id", None)
        if not columns:
            return
        task = nodes.load_task(connection, node.uuid)
        connector = Connector(uuid=uuid, type=kind, connector_id=kept)
        services.drivers.storage(task).connector_changed(task, connector)
        _update(connection, row.id, columns, kind, kept)


def destroy_volume_connector(services: Services, uuid: str) -> None:
    with services.db.write() as connection:
        node, row = belongings.lock(connection, connectors, uuid, whole(), missing(uuid))
        belongings.require_off(node, "volume connectors", deleting=True)
        task = nodes.load_task(connection, node.uuid)
        connector = Connector(uuid=row.uuid, type=row.type, connector_id=row.connector_id)
        services.drivers.storage(task).connector_removed(task, connector)
        connection.execute(delete(connectors).where(connectors.c.id == row.id))


def _insert(connection: Connection, columns: Mapping[str, Any]) -> None:
    try:
        connection.execute(insert(connectors).values(**columns, created_at=now()))
    except IntegrityError as error:
        if is_taken(error, connectors.c.uuid):
            raise errors.Duplicate(f"A volume connector with UUID {columns['uuid']} already exists.") from None
        raise _taken(columns["type"], columns["connector_id"]) from None


def _update(connection: Connection, row_id: int, columns: Mapping[str, Any], kind: str, connector_id: str) -> None:
    try:
        connection.execute(update(connectors).where(connectors.c.id == row_id).values(**columns, updated_at=now()))
    except IntegrityError:
        raise _taken(kind, connector_id) from None


def _taken(kind: str, connector_id: str) -> errors.Duplicate:
    return errors.Duplicate(f"A volume connector of type {kind} with connector_id {connector_id} already exists.")
