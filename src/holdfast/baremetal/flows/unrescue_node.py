"""Boots a rescued node's own instance again: rescue -> unrescuing -> active.

Guard: the node lock. Each step may be repeated; a failure ends in `unrescue failed`, from where
unrescue can be asked for again.
"""

from __future__ import annotations

from holdfast.baremetal import nodes, provision, states
from holdfast.baremetal.flows.node_work import NodeParams, abandon, fail, node_of, power
from holdfast.flows.flow import NOTHING, Flow, Step, Work


def begin(work: Work, params: NodeParams) -> None:
    provision.begin(work.services.db, params.node, work.lock, "unrescue")


def unrescue(work: Work, params: NodeParams) -> None:
    services = work.services
    with nodes.working(services, params.node, work.generation) as task:
        services.drivers.rescue(task).unrescue(task)
        services.drivers.rescue(task).clean_up(task)
        services.drivers.network(task).remove_rescuing_network(task)
        services.drivers.network(task).configure_tenant_networks(task)


def boot_instance(work: Work, params: NodeParams) -> None:
    with nodes.working(work.services, params.node, work.generation) as task:
        work.services.drivers.boot(task).prepare_instance(task)
    with nodes.working(work.services, params.node, work.generation) as task:
        power(work, task, states.POWER_ON)


def finish(work: Work, params: NodeParams) -> None:
    provision.finish(work.services.db, params.node, work.lock, "done")


UNRESCUE: Flow[NodeParams] = Flow(
    "unrescue_node",
    NodeParams,
    [
        Step("begin", begin, undo=fail),
        Step("unrescue", unrescue, undo=NOTHING),
        Step("boot_instance", boot_instance, undo=NOTHING),
        Step("finish", finish, pivot=True),
    ],
    subject=node_of,
    summary="boot a rescued node's own instance again",
    abandon=abandon,
)
