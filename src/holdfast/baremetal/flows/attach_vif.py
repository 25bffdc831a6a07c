"""Attaches a VIF to a node whose network interface talks to a network service. Synchronous for the caller.

Contends with everything on the node (guard: its lock) and with attaches of the same VIF to other nodes
(guard: the key of `node_vifs`, claimed with the lock). Where the VIF goes is written down before the
network service is told, so that whoever takes over, or undoes, knows what to look at. A failure leaves
the VIF as it came: on no port, and unbound.
"""

from __future__ import annotations

from typing import Any

from holdfast.baremetal import locks, nodes, vifs
from holdfast.baremetal.flows.node_work import NodeParams, node_of
from holdfast.flows.flow import Flow, Step, Work


class AttachParams(NodeParams, frozen=True, kw_only=True):
    """`vif` is the request's body, its secrets masked."""

    vif: dict[str, Any]


def begin(work: Work, params: AttachParams) -> None:
    with work.services.db.write() as connection:
        row = nodes.find(connection, params.node, lock=True)
        if row.reservation == work.lock:
            return
        locks.require_free(nodes.label(row), row.reservation)
        task = nodes.load_task(connection, params.node)
        vifs.require_unattached(connection, task, params.vif["id"])
        locks.take(connection, row.id, work.lock, nodes.label(row))
        vifs.claim(connection, task, params.vif["id"])


def let_go(work: Work, params: NodeParams) -> None:
    """Makes the claims on VIFs follow from what is on the ports, and frees the node."""
    with work.services.db.write() as connection:
        row = nodes.find(connection, params.node, lock=True)
        if row.reservation == work.lock:
            vifs.follow(connection, work.services.drivers, params.node)
            locks.release(connection, row.id, work.lock)


def place(work: Work, params: AttachParams) -> None:
    with nodes.working(work.services, params.node, work.generation) as task:
        network = work.services.drivers.network(task)
        network.validate(task)
        network.place_vif(task, params.vif)


def unplace(work: Work, params: AttachParams) -> None:
    with nodes.working(work.services, params.node, work.generation) as task:
        work.services.drivers.network(task).forget_vif(task, params.vif["id"])


def attach(work: Work, params: AttachParams) -> None:
    with nodes.working(work.services, params.node, work.generation) as task:
        work.services.drivers.network(task).vif_attach(task, params.vif)


def detach(work: Work, params: AttachParams) -> None:
    with nodes.working(work.services, params.node, work.generation) as task:
        network = work.services.drivers.network(task)
        if any(vif["id"] == params.vif["id"] for vif in network.vif_list(task)):
            network.vif_detach(task, params.vif["id"])


ATTACH: Flow[AttachParams] = Flow(
    "attach_vif",
    AttachParams,
    [
        Step("begin", begin, undo=let_go),
        Step("place", place, undo=unplace),
        Step("attach", attach, undo=detach),
        Step("finish", let_go, pivot=True),
    ],
    subject=node_of,
    summary="attach a VIF to a node",
    abandon=let_go,
)
