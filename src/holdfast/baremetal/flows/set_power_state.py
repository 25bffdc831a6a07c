"""Changes a node's power state: on, off, reboot, and the soft forms.

Guard: the node lock; `target_power_state` shows where it is going. The change is asked for as "ensure",
so a repeat does no harm; a reboot that may have happened is repeated, which a machine bears.
A failure leaves the record as the hardware last told it, with the reason in `last_error`.
"""

from __future__ import annotations

from holdfast import errors
from holdfast.baremetal import boot_progress, locks, nodes, states
from holdfast.baremetal.flows.node_work import NodeParams, abandon, node_of, record_power
from holdfast.db.engine import now
from holdfast.flows.flow import NOTHING, Flow, Step, Work


class PowerParams(NodeParams, frozen=True, kw_only=True):
    target: str
    timeout: int | None = None


def begin(work: Work, params: PowerParams) -> None:
    with work.services.db.write() as connection:
        row = nodes.find(connection, params.node, lock=True)
        if row.reservation != work.lock:
            locks.require_free(nodes.label(row), row.reservation)
        locks.take(
            connection,
            row.id,
            work.lock,
            nodes.label(row),
            target_power_state=states.POWER_TARGETS[params.target],
            last_error=None,
            updated_at=now(),
        )


def give_up(work: Work, params: PowerParams) -> None:
    with work.services.db.write() as connection:
        row = nodes.find(connection, params.node, lock=True)
        locks.release(connection, row.id, work.lock, target_power_state=None, last_error=work.error)


def attach(work: Work, params: PowerParams) -> None:
    """An active node's volumes are attached while it is on, and only then."""
    if states.POWER_TARGETS[params.target] == states.POWER_ON:
        with nodes.working(work.services, params.node, work.generation) as task:
            if task.node.provision_state == states.ACTIVE:
                work.services.drivers.storage(task).attach_volumes(task)


def detach_again(work: Work, params: PowerParams) -> None:
    """A machine that runs keeps its volumes, whatever became of the attempt."""
    if states.POWER_TARGETS[params.target] == states.POWER_ON:
        with nodes.working(work.services, params.node, work.generation) as task:
            power = work.services.drivers.power(task)
            if task.node.provision_state == states.ACTIVE and power.get_power_state(task) == states.POWER_OFF:
                work.services.drivers.storage(task).detach_volumes(task)


def change(work: Work, params: PowerParams) -> None:
    services = work.services
    conf = services.conf.conductor
    soft = params.target in (states.SOFT_POWER_OFF, states.SOFT_REBOOT)
    timeout = params.timeout or (conf.soft_power_off_timeout if soft else conf.power_state_change_timeout)
    if params.target in (states.REBOOT, states.SOFT_REBOOT):
        # Before, not after: the ramdisk that boots next may be faster than we are.
        with nodes.working(services, params.node, work.generation) as task:
            task.node.driver_internal_info = boot_progress.forgotten(task.node.driver_internal_info)
    with nodes.working(services, params.node, work.generation) as task:
        power = services.drivers.power(task)
        if states.POWER_TARGETS[params.target] == states.POWER_OFF:
            task.node.driver_internal_info = boot_progress.forgotten(task.node.driver_internal_info)
        if params.target in (states.REBOOT, states.SOFT_REBOOT):
            power.reboot(task, timeout, soft=soft)
        else:
            power.set_power_state(task, params.target, timeout)


def look_again(work: Work, params: PowerParams) -> None:
    """How far it got is unknown: recorded is what the hardware says now, or that it does not say."""
    with nodes.working(work.services, params.node, work.generation) as task:
        try:
            state = work.services.drivers.power(task).get_power_state(task)
        except errors.HoldfastError:
            state = None
        record_power(work, task, state)


def detach(work: Work, params: PowerParams) -> str | None:
    """Told, not fatal: the machine is off, and that is what was asked for. The next change tries again."""
    if states.POWER_TARGETS[params.target] != states.POWER_OFF:
        return None
    try:
        with nodes.working(work.services, params.node, work.generation) as task:
            if task.node.provision_state == states.ACTIVE:
                work.services.drivers.storage(task).detach_volumes(task)
    except errors.HoldfastError as error:
        return f"The machine is off, but its volumes are still attached. {error.public}"
    return None


def finish(work: Work, params: PowerParams) -> None:
    left = work.results["detach"]
    with work.services.db.write() as connection:
        row = nodes.find(connection, params.node, lock=True)
        locks.release(
            connection,
            row.id,
            work.lock,
            power_state=states.POWER_TARGETS[params.target],
            target_power_state=None,
            updated_at=now(),
            **({"last_error": left} if left else {}),
        )


SET_POWER: Flow[PowerParams] = Flow(
    "set_power_state",
    PowerParams,
    [
        Step("begin", begin, undo=give_up),
        Step("attach", attach, undo=detach_again),
        Step("change", change, undo=look_again),
        Step("detach", detach, undo=NOTHING),
        Step("finish", finish, pivot=True),
    ],
    subject=node_of,
    summary="change a node's power state",
    abandon=abandon,
)
