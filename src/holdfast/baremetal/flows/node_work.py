"""What the node flows share: their smallest parameters, and the ends every one of them has."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import update

from holdfast.baremetal import boot_progress, locks, nodes, provision, states
from holdfast.baremetal.drivers.base import Outcome
from holdfast.baremetal.task import Task
from holdfast.db import tables
from holdfast.db.engine import now
from holdfast.flows.flow import Flow, Next, Work


class NodeParams(msgspec.Struct, frozen=True, kw_only=True):
    """Names the node by UUID: names may change while a flow runs."""

    node: str


def node_of(params: NodeParams) -> str:
    return params.node


def fail(work: Work, params: NodeParams) -> None:
    """The undo of every `begin`: the node goes to its failure state with the reason, and is let go."""
    provision.fail(work.services.db, params.node, work.lock, work.error)


def abandon(work: Work, params: NodeParams) -> None:
    """What an operator who gives a flow up leaves behind: a node that says so, free for the next verb."""
    with work.services.db.read() as connection:
        row = nodes.find(connection, params.node)
    if row.reservation != work.lock:
        return
    if states.next_state(row.provision_state, "fail") is not None:
        provision.fail(work.services.db, params.node, work.lock, work.error)
        return
    # How far a power change got is unknown; the power watch finds out.
    power_state = row.power_state if row.target_power_state is None else None
    with work.services.db.write() as connection:
        locks.release(
            connection,
            row.id,
            work.lock,
            power_state=power_state,
            target_power_state=None,
            power_sync_due_at=now(),
            last_error=work.error,
        )


def power(work: Work, task: Task, state: str) -> None:
    """Brings the machine into a power state and the record with it."""
    interface = work.services.drivers.power(task)
    if task.node.power_state != state or interface.get_power_state(task) != state:
        interface.set_power_state(task, state)
    if state == states.POWER_OFF:
        task.node.driver_internal_info = boot_progress.forgotten(task.node.driver_internal_info)
    record_power(work, task, state)


def record_power(work: Work, task: Task, state: str | None) -> None:
    table = tables.nodes
    with work.services.db.write() as connection:
        connection.execute(update(table).where(table.c.id == task.node.id).values(power_state=state))
    task.node.power_state = state


def finish(work: Work, node: str, event: str, resumed_by: Flow[Any], **values: Any) -> None:
    """The end of a flow whose node may have to wait: `resumed_by` goes on at once if its ramdisk called."""
    lock = work.next_lock(resumed_by)
    provision.finish(work.services.db, node, work.lock, event, resume=lock, **values)


def heard(work: Work, params: NodeParams, resumed_by: Flow[Any]) -> Next | None:
    """What follows such a flow: the other, if `finish` has handed the node over to it."""
    with work.services.db.read() as connection:
        row = nodes.find(connection, params.node)
    if row.reservation != work.next_lock(resumed_by):
        return None
    return Next(resumed_by, NodeParams(node=params.node), work.next_id)


def waits_at(work: Work, node: str, phase: str, outcome: Outcome) -> dict[str, Any]:
    """The same with a note for who looks at the flow: at which step, and how far the ramdisk's boot has come."""
    if outcome is not Outcome.WAIT:
        return waits(outcome)
    with work.services.db.read() as connection:
        row = nodes.find(connection, node)
    step = msgspec.json.decode(getattr(row, f"{phase}_step"))
    marks = msgspec.json.decode(row.driver_internal_info).get(boot_progress.KEY) or {}
    note = f"Waits for the ramdisk in {step['interface']}.{step['step']}." if step else "Waits for the ramdisk."
    if marks:
        note += f" Its boot has reached: {', '.join(marks)}."
    return {**waits(outcome), "note": note}


def waits(outcome: Outcome) -> dict[str, bool]:
    """A step's result that tells the last step whether the node is done or waits for its ramdisk."""
    return {"wait": outcome is Outcome.WAIT}


def ending(work: Work, step: str) -> str:
    """The event that ends a flow, from the result of the step that did the work."""
    return "wait" if (work.results.get(step) or {}).get("wait") else "done"
