"""Detaches a VIF from a node whose network interface talks to a network service. Synchronous for the caller.

Guard: the node lock. The node keeps its claim on the VIF until the end, so that nobody else takes a VIF
that a failure gives back: then it is on its port and bound again, as before. Whether the network service
is there at all is asked first, so that its absence alone never leaves anything to undo.
"""

from __future__ import annotations

from holdfast import errors
from holdfast.baremetal import locks, nodes
from holdfast.baremetal.flows.attach_vif import let_go
from holdfast.baremetal.flows.node_work import NodeParams, node_of
from holdfast.baremetal.task import Port, Portgroup
from holdfast.flows.flow import NOTHING, Flow, Step, Work


class DetachParams(NodeParams, frozen=True, kw_only=True):
    vif_id: str


def begin(work: Work, params: DetachParams) -> str:
    """The UUID of the port or port group the VIF is on."""
    with work.services.db.write() as connection:
        row = nodes.find(connection, params.node, lock=True)
        if row.reservation != work.lock:
            locks.require_free(nodes.label(row), row.reservation)
        task = nodes.load_task(connection, params.node)
        place = work.services.drivers.network(task).place_of(task, params.vif_id)
        if place is None:
            raise errors.BadRequest(f"VIF {params.vif_id} is not attached to node {task.node.label}.")
        locks.take(connection, row.id, work.lock, nodes.label(row))
        return place.uuid


def reach(work: Work, params: DetachParams) -> None:
    with work.services.db.read() as connection:
        task = nodes.load_task(connection, params.node, work.generation)
    work.services.drivers.network(task).reach(task)


def detach(work: Work, params: DetachParams) -> None:
    with nodes.working(work.services, params.node, work.generation) as task:
        network = work.services.drivers.network(task)
        if network.place_of(task, params.vif_id) is not None:
            network.vif_detach(task, params.vif_id)


def give_back(work: Work, params: DetachParams) -> None:
    with nodes.working(work.services, params.node, work.generation) as task:
        network = work.services.drivers.network(task)
        if network.place_of(task, params.vif_id) is None:
            places: list[Port | Portgroup] = [*task.ports, *task.portgroups]
            place = next(place for place in places if place.uuid == work.results["begin"])
            place.internal_info = {**place.internal_info, network.VIF_KEY: params.vif_id}
    # Written down before the network service is told.
    with nodes.working(work.services, params.node, work.generation) as task:
        work.services.drivers.network(task).vif_attach(task, {"id": params.vif_id})


DETACH: Flow[DetachParams] = Flow(
    "detach_vif",
    DetachParams,
    [
        Step("begin", begin, undo=let_go),
        Step("reach", reach, undo=NOTHING),
        Step("detach", detach, undo=give_back),
        Step("finish", let_go, pivot=True),
    ],
    subject=node_of,
    summary="detach a VIF from a node",
    abandon=let_go,
)
