"""Sets the device a node boots from. Short and synchronous for the caller, but it talks to the BMC and
therefore holds the node lock, so that it cannot cut into a deploy.

Setting the same device twice does no harm; there is nothing to undo but the lock.
"""

from __future__ import annotations

from holdfast.baremetal import locks, nodes
from holdfast.baremetal.flows.node_work import NodeParams, abandon, node_of
from holdfast.flows.flow import NOTHING, Flow, Step, Work


class BootDeviceParams(NodeParams, frozen=True, kw_only=True):
    device: str
    persistent: bool = False


def begin(work: Work, params: BootDeviceParams) -> None:
    with work.services.db.write() as connection:
        row = nodes.find(connection, params.node, lock=True)
        if row.reservation != work.lock:
            locks.require_free(nodes.label(row), row.reservation)
        locks.take(connection, row.id, work.lock, nodes.label(row))


def let_go(work: Work, params: BootDeviceParams) -> None:
    with work.services.db.write() as connection:
        row = nodes.find(connection, params.node, lock=True)
        locks.release(connection, row.id, work.lock)


def set_device(work: Work, params: BootDeviceParams) -> None:
    with nodes.working(work.services, params.node, work.generation) as task:
        management = work.services.drivers.management(task)
        management.set_boot_device(task, params.device, params.persistent)


SET_BOOT_DEVICE: Flow[BootDeviceParams] = Flow(
    "set_boot_device",
    BootDeviceParams,
    [
        Step("begin", begin, undo=let_go),
        Step("set_device", set_device, undo=NOTHING),
        Step("finish", let_go, pivot=True),
    ],
    subject=node_of,
    summary="set the device a node boots from",
    abandon=abandon,
)
