"""Ports and port groups for tests, and nodes put into the situations their rules are about."""

from __future__ import annotations

import itertools
from typing import Any

from sqlalchemy import select, update

from holdfast.db import tables
from tests.application import Application

_numbers = itertools.count(1)


def mac() -> str:
    """An address nobody has yet."""
    number = next(_numbers)
    return f"52:54:{number >> 24 & 255:02x}:{number >> 16 & 255:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"


def add_port(api: Application, node: str, **fields: Any) -> dict[str, Any]:
    document: dict[str, Any] = api.send("POST", "/v1/ports", {"node_uuid": node, "address": mac(), **fields})
    return document


def add_group(api: Application, node: str, **fields: Any) -> dict[str, Any]:
    document: dict[str, Any] = api.send("POST", "/v1/portgroups", {"node_uuid": node, **fields})
    return document


def put(api: Application, node: str, **columns: Any) -> None:
    """Makes the node's row say so, whatever way would lead there."""
    with api.services.db.write() as connection:
        connection.execute(update(tables.nodes).where(tables.nodes.c.uuid == node).values(**columns))


def lock(api: Application, node: str) -> None:
    put(api, node, reservation="deploy_node/5d6f5d3c-6a0b-4a43-9d3d-9d2f7f1a0c11")


def claims(api: Application, *nodes: str) -> dict[str, str]:
    """What the database's key guards: the node each VIF is on (of these nodes, if any are named)."""
    table = tables.node_vifs
    with api.services.db.read() as connection:
        rows = connection.execute(select(table.c.vif_id, tables.nodes.c.uuid).join_from(table, tables.nodes))
        return {row.vif_id: row.uuid for row in rows if not nodes or row.uuid in nodes}


def replace(path: str, value: Any) -> list[dict[str, Any]]:
    return [{"op": "replace", "path": path, "value": value}]


def remove(path: str) -> list[dict[str, Any]]:
    return [{"op": "remove", "path": path}]
