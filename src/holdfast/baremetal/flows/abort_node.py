"""Ends a wait: an operator aborts it, or the ramdisk stayed silent too long.

Guard: the node lock, taken without changing the state; the last step moves the node to the failure
state of what it was doing. What the waiting work had prepared is taken away first; if that fails, the
node still gets there, and says so.
"""

from __future__ import annotations

from holdfast import errors
from holdfast.baremetal import locks, node_steps, nodes, provision, states
from holdfast.baremetal.flows.node_work import NodeParams, abandon, node_of
from holdfast.flows.flow import NOTHING, Flow, Step, Work


class AbortParams(NodeParams, frozen=True, kw_only=True):
    event: str = "abort"
    reason: str = "Aborted by request."


def begin(work: Work, params: AbortParams) -> str:
    with work.services.db.write() as connection:
        row = nodes.find(connection, params.node, lock=True)
        if row.reservation != work.lock:
            provision.require(row, params.event)
            locks.take(connection, row.id, work.lock, nodes.label(row))
        return str(row.provision_state)


def let_go(work: Work, params: AbortParams) -> None:
    with work.services.db.write() as connection:
        row = nodes.find(connection, params.node, lock=True)
        locks.release(connection, row.id, work.lock, last_error=work.error)


def take_away(work: Work, params: AbortParams) -> str | None:
    """What could not be taken away is told, not fatal: the wait must end."""
    services, drivers = work.services, work.services.drivers
    try:
        with nodes.working(services, params.node, work.generation) as task:
            match work.results["begin"]:
                case states.CLEANWAIT:
                    drivers.deploy(task).tear_down_cleaning(task)
                    drivers.network(task).remove_cleaning_network(task)
                case states.DEPLOYWAIT:
                    drivers.deploy(task).clean_up(task)
                    drivers.network(task).remove_provisioning_network(task)
                    drivers.storage(task).detach_volumes(task)
                case states.INSPECTWAIT:
                    drivers.inspect(task).abort(task)
                    drivers.network(task).remove_inspection_network(task)
                case states.RESCUEWAIT:
                    drivers.rescue(task).clean_up(task)
                    drivers.network(task).remove_rescuing_network(task)
    except errors.HoldfastError as error:
        return error.public
    return None


def finish(work: Work, params: AbortParams) -> None:
    if work.results["begin"] == states.CLEANWAIT:
        node_steps.forget(work.services, params.node, "clean", work.generation)
    left = work.results["take_away"]
    reason = params.reason if left is None else f"{params.reason} Not everything could be taken away: {left}"
    provision.fail(work.services.db, params.node, work.lock, reason, event=params.event)


ABORT: Flow[AbortParams] = Flow(
    "abort_node",
    AbortParams,
    [
        Step("begin", begin, undo=let_go),
        Step("take_away", take_away, undo=NOTHING),
        Step("finish", finish, pivot=True),
    ],
    subject=node_of,
    summary="end a node's wait for its ramdisk",
    abandon=abandon,
)
