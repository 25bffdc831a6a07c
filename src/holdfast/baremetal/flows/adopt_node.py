"""Adopts a node that already runs an instance: manageable -> adopting -> active, disk and power untouched.

Guard: the node lock. Nothing on the machine changes; a failure goes to `adopt failed` with the reason.
"""

from __future__ import annotations

from holdfast.baremetal import instances, nodes, provision
from holdfast.baremetal.drivers.storage import volumes
from holdfast.baremetal.flows.node_work import NodeParams, abandon, fail, node_of
from holdfast.flows.flow import NOTHING, Flow, Step, Work


def begin(work: Work, params: NodeParams) -> None:
    provision.begin(work.services.db, params.node, work.lock, "adopt")


def validate(work: Work, params: NodeParams) -> None:
    with work.services.db.read() as connection:
        task = nodes.load_task(connection, params.node, work.generation)
    instances.require_deployable(work.services.drivers, task)


def take_over(work: Work, params: NodeParams) -> str | None:
    with nodes.working(work.services, params.node, work.generation) as task:
        volumes.mark_boot_volume(task, work.services.drivers.storage(task).should_write_image(task))
        work.services.drivers.deploy(task).take_over(task)
        if volumes.marked_target(task) is not None:  # it finds its volume at the next start, too
            work.services.drivers.boot(task).prepare_instance(task)
        return work.services.drivers.power(task).get_power_state(task)


def finish(work: Work, params: NodeParams) -> None:
    provision.finish(work.services.db, params.node, work.lock, "done", power_state=work.results["take_over"])


ADOPT: Flow[NodeParams] = Flow(
    "adopt_node",
    NodeParams,
    [
        Step("begin", begin, undo=fail),
        Step("validate", validate, undo=NOTHING),
        Step("take_over", take_over, undo=NOTHING),
        Step("finish", finish, pivot=True),
    ],
    subject=node_of,
    summary="adopt a node that already runs an instance",
    abandon=abandon,
)
