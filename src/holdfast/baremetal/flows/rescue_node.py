"""Boots a rescue ramdisk on an active node: active -> rescuing -> rescue, or through `rescue wait`.

Guard: the node lock. The rescue password is on the node (`instance_info.rescue_password`, masked) and
never in the flow; it is forgotten as soon as the ramdisk has it. A failure puts the machine back on its
tenant's networks and ends in `rescue failed`: unrescue, rescue again, or undeploy.
"""

from __future__ import annotations

from typing import Any

from holdfast.baremetal import nodes, provision
from holdfast.baremetal.flows import node_work
from holdfast.baremetal.flows.node_work import NodeParams, abandon, ending, fail, node_of, waits
from holdfast.flows.flow import NOTHING, Flow, Next, Step, Work


def begin(work: Work, params: NodeParams) -> None:
    provision.begin(work.services.db, params.node, work.lock, "rescue")


def resume(work: Work, params: NodeParams) -> None:
    provision.begin(work.services.db, params.node, work.lock, "resume")


def plug(work: Work, params: NodeParams) -> None:
    with nodes.working(work.services, params.node, work.generation) as task:
        network = work.services.drivers.network(task)
        network.unconfigure_tenant_networks(task)
        network.add_rescuing_network(task)


def unplug(work: Work, params: NodeParams) -> None:
    with nodes.working(work.services, params.node, work.generation) as task:
        work.services.drivers.rescue(task).clean_up(task)
        network = work.services.drivers.network(task)
        network.remove_rescuing_network(task)
        network.configure_tenant_networks(task)


def rescue(work: Work, params: NodeParams) -> dict[str, bool]:
    with nodes.working(work.services, params.node, work.generation) as task:
        return waits(work.services.drivers.rescue(task).rescue(task))


def forget_password(work: Work, params: NodeParams) -> None:
    if ending(work, "rescue") == "wait":
        return
    with nodes.working(work.services, params.node, work.generation) as task:
        task.node.instance_info = {k: v for k, v in task.node.instance_info.items() if "rescue_password" not in k}


def finish(work: Work, params: NodeParams) -> None:
    node_work.finish(work, params.node, ending(work, "rescue"), CONTINUE)


def heard(work: Work, params: NodeParams) -> Next | None:
    return node_work.heard(work, params, CONTINUE)


_WORK: list[Step[Any]] = [
    Step("plug", plug, undo=unplug),
    Step("rescue", rescue, undo=NOTHING),
    Step("forget_password", forget_password, undo=NOTHING),
    Step("finish", finish, pivot=True),
]

RESCUE: Flow[NodeParams] = Flow(
    "rescue_node",
    NodeParams,
    [Step("begin", begin, undo=fail), *_WORK],
    subject=node_of,
    summary="boot a rescue ramdisk on a node",
    then=heard,
    abandon=abandon,
)

CONTINUE: Flow[NodeParams] = Flow(
    "continue_rescue",
    NodeParams,
    [Step("begin", resume, undo=fail), *_WORK],
    subject=node_of,
    summary="go on with a rescue when the ramdisk answers",
    then=heard,
    abandon=abandon,
)
