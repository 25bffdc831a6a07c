"""What belongs to a node: ports, port groups, volume connectors and targets.

Whoever changes one locks the node's row first and reads the rest afterwards. So two changes to the
things of one node never overlap, and neither does one with a flow taking the node.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, Select, Table, select

from holdfast import errors
from holdfast.baremetal import locks, nodes, states
from holdfast.db import tables

# What the API and the rules need to know of the node a thing belongs to: selected with every thing.
NODE_COLUMNS = (
    tables.nodes.c.uuid.label("node_uuid"),
    tables.nodes.c.owner.label("node_owner"),
    tables.nodes.c.lessee.label("node_lessee"),
)


def lock_node(connection: Connection, node_uuid: str) -> Row[Any]:
    """The node, its row locked, which no flow may hold."""
    node = nodes.find(connection, node_uuid, lock=True)
    locks.require_free(nodes.label(node), node.reservation)
    return node


def lock_node_in_body(connection: Connection, node_uuid: str) -> Row[Any]:
    """The same for a node that a request body names: an unknown one is the body's fault."""
    try:
        return lock_node(connection, node_uuid)
    except errors.NotFound as error:
        raise errors.BadRequest(error.public) from None


def node_in_body(connection: Connection, node_uuid: str) -> Row[Any]:
    """The node that a request body names, its row locked, whoever holds it."""
    try:
        return nodes.find(connection, node_uuid, lock=True)
    except errors.NotFound as error:
        raise errors.BadRequest(error.public) from None


def lock(
    connection: Connection, table: Table, uuid: str, whole: Select[Any], missing: errors.NotFound
) -> tuple[Row[Any], Row[Any]]:
    """The node that a thing belongs to, locked and free, and the thing as `whole` selects it."""
    owner = select(tables.nodes.c.uuid).join_from(table, tables.nodes).where(table.c.uuid == uuid)
    node_uuid = connection.execute(owner).scalar()
    if node_uuid is None:
        raise missing
    node = lock_node(connection, node_uuid)
    # Read after the lock: before it, somebody else may have been changing the thing.
    row = connection.execute(whole.where(table.c.uuid == uuid, table.c.node_id == node.id)).first()
    if row is None:
        raise missing
    return node, row


def require_not_inspecting(node: Row[Any], *, inspection_shown: bool) -> None:
    """Clients that know of `inspect wait` may not change what inspection is looking at."""
    if inspection_shown and node.provision_state == states.INSPECTING:
        raise errors.InvalidState(
            f"Node {nodes.label(node)} is being inspected; its ports and port groups cannot be changed now."
        )


def require_rewirable(node: Row[Any], what: str) -> None:
    """How a machine is wired may only change before it is offered, or in maintenance."""
    if node.provision_state not in states.PORT_CHANGEABLE and not node.maintenance:
        raise errors.InvalidState(
            f"The {what} cannot change while node {nodes.label(node)} is {node.provision_state!r}. "
            f"It can in {', '.join(sorted(states.PORT_CHANGEABLE))}, or in maintenance."
        )


def require_off(node: Row[Any], what: str, *, deleting: bool = False) -> None:
    """A machine that may be using its volumes keeps what it was told about them (spec 000). What is deleted
    before the node was ever offered cannot be in use, whatever its power state says."""
    if node.power_state == states.POWER_OFF:
        return
    if deleting and node.provision_state in states.DELETABLE:
        return
    raise errors.InvalidStateRequested(
        f"The {what} of node {nodes.label(node)} can only be {'deleted' if deleting else 'changed'} while it is "
        f"powered off, and its power state is {node.power_state or 'unknown'}. Power it off first."
    )


def require_same_owner(node: Row[Any], home: Row[Any]) -> None:
    """Things of nodes do not change hands: a node of another owner cannot get them."""
    if node.owner != home.owner:
        raise errors.BadRequest(
            f"Nodes {nodes.label(node)} and {nodes.label(home)} have different owners; nothing moves between them."
        )
