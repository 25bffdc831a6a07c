"""Moves nodes through the state machine. The only place that writes `provision_state`.

A flow calls `begin` in its first step (lock and state change are one statement), works, and calls
`finish` or `fail`, which change the state and give the lock back, again in one statement. Each may be
called again after an unknown outcome.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, Row, update

from holdfast import errors, secrets
from holdfast.baremetal import locks, nodes, states
from holdfast.db import tables
from holdfast.db.engine import Database, now


def begin(
    db: Database,
    ident: str,
    lock: str,
    event: str,
    *,
    target: str | None = None,
    check: Callable[[Connection, Row[Any]], None] | None = None,
    **values: Any,
) -> str:
    """Takes the node for a flow and moves it by `event`; returns the state it was in.

    Raises `NodeLocked` or `InvalidStateRequested`, or what `check` raises in the same transaction,
    changing nothing.
    """
    with db.write() as connection:
        row = nodes.find(connection, ident, lock=True)
        if row.reservation == lock:  # a repeated first step: this flow has the node already
            return str(row.provision_state)
        state = require(row, event)
        if check is not None:
            check(connection, row)
        locks.take(
            connection,
            row.id,
            lock,
            nodes.label(row),
            **_move(state, target),
            **{"last_error": None, "heartbeat_pending": None, **values},
        )
        return str(row.provision_state)


def require(row: Row[Any], event: str) -> str:
    """The state `event` leads to, or the error that says why it cannot happen now."""
    locks.require_free(nodes.label(row), row.reservation)
    state = states.next_state(row.provision_state, event)
    if state is None:
        possible = sorted(
            verb for verb, entry in states.VERBS.items() if entry.event in states.TRANSITIONS[row.provision_state]
        )
        raise errors.InvalidStateRequested(
            f"The requested action {event!r} can not be performed on node {nodes.label(row)} while it is "
            f"in state {row.provision_state!r}. Possible now: {', '.join(possible) or 'nothing, wait for it to end'}."
        )
    return state


def move(db: Database, ident: str, event: str) -> None:
    """A change of state that needs no work (`manage` from available, say): one transaction, no flow."""
    with db.write() as connection:
        row = nodes.find(connection, ident, lock=True)
        state = require(row, event)
        connection.execute(
            update(tables.nodes).where(tables.nodes.c.id == row.id).values(**_move(state, None), last_error=None)
        )


def finish(
    db: Database,
    ident: str,
    lock: str,
    event: str,
    *,
    target: str | None = None,
    hand_over: str | None = None,
    resume: str | None = None,
    **values: Any,
) -> str:
    """Moves the node by `event` and gives the lock back, or hands it over to another flow's lock.

    `resume` is the lock of the flow that goes on when the ramdisk calls: it gets the node at once, instead
    of it waiting, if the ramdisk has called meanwhile.
    """
    with db.write() as connection:
        if event == "wait" and resume is not None:
            row = nodes.find(connection, ident, lock=True)
            if row.reservation == lock and row.heartbeat_pending is not None:
                locks.release(connection, row.id, lock, reservation=resume, heartbeat_pending=None)
                return str(row.provision_state)
        return _leave(connection, ident, lock, event, target, {"reservation": hand_over, **values})


def fail(db: Database, ident: str, lock: str, reason: str | None, *, event: str = "fail", **values: Any) -> str:
    """Moves the node to the failure state of what it was doing, with the reason, and unlocks it."""
    text = secrets.mask_text(reason or "The operation was abandoned.")[:4096]
    with db.write() as connection:
        return _leave(connection, ident, lock, event, None, {"last_error": text, **values})


def _leave(
    connection: Connection, ident: str, lock: str, event: str, target: str | None, values: dict[str, Any]
) -> str:
    row = nodes.find(connection, ident, lock=True)
    if row.reservation != lock:  # a repeated last step: the node was let go before
        return str(row.provision_state)
    state = states.next_state(row.provision_state, event)
    if state is None:
        raise errors.InvalidState(
            f"Node {nodes.label(row)} is in state {row.provision_state!r}, which has no {event!r}."
        )
    if target is None and state in (states.CLEANWAIT, states.CLEANFAIL, states.CLEANING):
        target = row.target_provision_state  # tells manual cleaning from automated
    locks.release(connection, row.id, lock, **{"heartbeat_pending": None, **_move(state, target), **values})
    return state


def _move(state: str, target: str | None) -> dict[str, Any]:
    moment = now()
    return {
        "provision_state": state,
        "target_provision_state": target or states.TARGETS.get(state),
        "provision_updated_at": moment,
        "updated_at": moment,
    }
