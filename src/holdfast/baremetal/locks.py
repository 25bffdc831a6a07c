"""The node lock: the column `reservation`, holding "<flow kind>/<flow id>", set by compare-and-set.

A lock always names a flow that the engine knows, so nobody has to guess whether its holder still
lives: `holdfast flow show <id>` tells. Changes that need no hardware take no lock at all; they are one
transaction that requires the lock to be free.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, or_, update

from holdfast import errors
from holdfast.db.tables import nodes


def locked(label: str, holder: str) -> errors.NodeLocked:
    kind, _, flow_id = holder.partition("/")
    return errors.NodeLocked(
        f"Node {label} is locked by {kind}, flow {flow_id}. Try again when it is done; "
        f"`holdfast flow show {flow_id}` tells how far it is."
    )


def require_free(label: str, reservation: str | None) -> None:
    if reservation is not None:
        raise locked(label, reservation)


def take(connection: Connection, node_id: int, lock: str, label: str, **values: Any) -> None:
    """Takes the lock, setting `values` in the same statement. Taking it twice in one name is no conflict."""
    taken = connection.execute(
        update(nodes)
        .where(nodes.c.id == node_id, or_(nodes.c.reservation.is_(None), nodes.c.reservation == lock))
        .values(reservation=lock, **values)
    )
    if taken.rowcount == 0:
        raise errors.NodeLocked(f"Node {label} was locked by somebody else at the same moment. Try again.")


def release(connection: Connection, node_id: int, lock: str, **values: Any) -> bool:
    """Gives the lock back, setting `values` in the same statement; False if it was not ours any more."""
    values.setdefault("reservation", None)
    released = connection.execute(
        update(nodes).where(nodes.c.id == node_id, nodes.c.reservation == lock).values(**values)
    )
    return released.rowcount == 1
