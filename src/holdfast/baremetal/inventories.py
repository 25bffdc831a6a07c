"""What inspection ramdisks report of their machines (in-band inspection), and finding whose report it is.

Like lookup, this is open to anybody on the provisioning network: a report is taken only for a node that
waits for one, and every reason to refuse it gives the same answer.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import msgspec
from sqlalchemy import delete, insert, select, update

from holdfast import errors
from holdfast.baremetal import nodes, states
from holdfast.db import tables
from holdfast.db.engine import Database, now

LOG = logging.getLogger(__name__)

# Parts of a report that only fill the disk: megabytes of logs.
DROPPED = ("logs",)

inventories = tables.node_inventories


def missing() -> errors.NotFound:
    return errors.NotFound("The node could not be found.")


def keep(db: Database, node_uuid: str | None, addresses: list[str], report: Mapping[str, Any]) -> str:
    """Stores a report with the node it belongs to and returns that node's UUID; it counts as a heartbeat.

    All addresses that are known belong to one node, and if the report names a node, it is that one.
    """
    table, ports = tables.nodes, tables.ports
    owners = select(table.c.uuid).distinct().join_from(table, ports).where(ports.c.address.in_(addresses))
    inventory = report["inventory"]
    more = {key: value for key, value in report.items() if key != "inventory" and key not in DROPPED}
    with db.write() as connection:
        found = set(connection.execute(owners).scalars())
        if node_uuid is not None:
            found.add(node_uuid)
        if len(found) != 1:
            raise missing()
        try:
            row = nodes.find(connection, found.pop(), lock=True)
        except errors.NotFound:
            raise missing() from None
        if row.provision_state != states.INSPECTWAIT:
            raise missing()
        connection.execute(delete(inventories).where(inventories.c.node_id == row.id))
        connection.execute(
            insert(inventories).values(
                node_id=row.id,
                created_at=now(),
                inventory=msgspec.json.encode(inventory).decode(),
                plugin_data=msgspec.json.encode(more).decode(),
            )
        )
        moment = now()
        connection.execute(
            update(table).where(table.c.id == row.id).values(heartbeat_pending=moment, provision_updated_at=moment)
        )
    LOG.info("Node %s was inspected by its ramdisk", row.uuid)
    return str(row.uuid)


def reported(db: Database, node: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The inventory and what else was reported since the node's present inspection began."""
    with db.read() as connection:
        row = nodes.find(connection, node)
        found = connection.execute(select(inventories).where(inventories.c.node_id == row.id)).first()
    if found is None or row.inspection_started_at is None or found.created_at < row.inspection_started_at:
        return None
    return msgspec.json.decode(found.inventory), msgspec.json.decode(found.plugin_data)
