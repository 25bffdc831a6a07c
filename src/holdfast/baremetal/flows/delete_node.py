"""Deletes a node of which a network or storage service knows. Synchronous for the caller.

Guard: the node lock, taken with the check that the node may be deleted. What those services hold of the
node goes first; if that fails half-way, its VIFs are bound again and the node stays. Volumes are not
taken from a machine that is on; once taken, they come back when it is switched on.
"""

from __future__ import annotations

from holdfast import errors
from holdfast.baremetal import locks, nodes, states
from holdfast.baremetal.flows.node_work import NodeParams, node_of
from holdfast.flows.flow import NOTHING, Flow, Step, Work


def begin(work: Work, params: NodeParams) -> None:
    with work.services.db.write() as connection:
        row = nodes.find(connection, params.node, lock=True)
        if row.reservation == work.lock:
            return
        locks.require_free(nodes.label(row), row.reservation)
        nodes.require_deletable(work.services.conf, row)
        locks.take(connection, row.id, work.lock, nodes.label(row))


def let_go(work: Work, params: NodeParams) -> None:
    with work.services.db.write() as connection:
        row = nodes.find(connection, params.node, lock=True)
        locks.release(connection, row.id, work.lock)


def reach(work: Work, params: NodeParams) -> None:
    with work.services.db.read() as connection:
        task = nodes.load_task(connection, params.node, work.generation)
    work.services.drivers.network(task).reach(task)


def detach_volumes(work: Work, params: NodeParams) -> None:
    with nodes.working(work.services, params.node, work.generation) as task:
        storage = work.services.drivers.storage(task)
        if storage.calls_out and task.targets and task.node.power_state == states.POWER_ON:
            raise errors.InvalidState(
                f"Node {task.node.label} is on and uses volumes. Undeploy it, or switch it off, before it is deleted."
            )
        storage.detach_volumes(task)


def unplug(work: Work, params: NodeParams) -> None:
    with nodes.working(work.services, params.node, work.generation) as task:
        work.services.drivers.network(task).let_go(task)


def plug(work: Work, params: NodeParams) -> None:
    with nodes.working(work.services, params.node, work.generation) as task:
        network = work.services.drivers.network(task)
        for vif in network.vif_list(task):
            network.vif_attach(task, vif)


def destroy(work: Work, params: NodeParams) -> None:
    with work.services.db.write() as connection:
        try:
            row = nodes.find(connection, params.node, lock=True)
        except errors.NotFound:  # repeated: it is gone
            return
        nodes.erase(connection, row.id)


DELETE: Flow[NodeParams] = Flow(
    "delete_node",
    NodeParams,
    [
        Step("begin", begin, undo=let_go),
        Step("reach", reach, undo=NOTHING),
        Step("detach_volumes", detach_volumes, undo=NOTHING),
        Step("unplug", unplug, undo=plug),
        Step("destroy", destroy, pivot=True),
    ],
    subject=node_of,
    summary="delete a node",
    abandon=let_go,
)
