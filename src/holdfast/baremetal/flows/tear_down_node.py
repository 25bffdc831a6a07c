"""Takes an instance off a node: active (or a failed deploy, rescue …) -> deleting -> cleaning.

Contends with every verb; the guard is the node lock, which the last step hands over to the cleaning
that follows, so nobody deploys in between. Each step only takes away and may be repeated. A failure
before the instance is forgotten leaves `error` with the reason, the instance still on record: undeploy
again.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row

from holdfast.baremetal import instances, nodes, provision, states, vifs
from holdfast.baremetal.flows import clean_node
from holdfast.baremetal.flows.node_work import NodeParams, abandon, fail, node_of, power
from holdfast.flows.flow import NOTHING, Flow, Next, Step, Work


def begin(work: Work, params: NodeParams) -> None:
    def check(_connection: Connection, node: Row[Any]) -> None:
        nodes.require_unprotected(node)

    provision.begin(work.services.db, params.node, work.lock, "delete", check=check)


def end_rescue(work: Work, params: NodeParams) -> None:
    """Of every node: which state it came from is forgotten if `begin` has to be repeated."""
    services = work.services
    with nodes.working(services, params.node, work.generation) as task:
        services.drivers.rescue(task).clean_up(task)
        services.drivers.network(task).remove_rescuing_network(task)


def close_console(work: Work, params: NodeParams) -> None:
    """The next tenant must not find the last one's console open."""
    with nodes.working(work.services, params.node, work.generation) as task:
        if task.node.console_enabled:
            work.services.drivers.console(task).stop_console(task)


def power_off(work: Work, params: NodeParams) -> None:
    with nodes.working(work.services, params.node, work.generation) as task:
        power(work, task, states.POWER_OFF)


def tear_down(work: Work, params: NodeParams) -> None:
    drivers = work.services.drivers
    with nodes.working(work.services, params.node, work.generation) as task:
        drivers.deploy(task).clean_up(task)
        drivers.boot(task).clean_up_instance(task)
        drivers.deploy(task).tear_down(task)
        drivers.storage(task).detach_volumes(task)
        drivers.network(task).unconfigure_tenant_networks(task)
        drivers.network(task).remove_provisioning_network(task)


def detach_vifs(work: Work, params: NodeParams) -> None:
    vifs.detach_all(work.services, params.node, work.generation)


def forget_instance(work: Work, params: NodeParams) -> None:
    with nodes.working(work.services, params.node, work.generation) as task, work.services.db.write() as c:
        instances.forget(c, task)


def start_cleaning(work: Work, params: NodeParams) -> None:
    provision.finish(work.services.db, params.node, work.lock, "clean", hand_over=work.next_lock(clean_node.CLEAN))


def cleaning(work: Work, params: NodeParams) -> Next:
    return Next(clean_node.CLEAN, clean_node.CleanParams(node=params.node), work.next_id)


TEAR_DOWN: Flow[NodeParams] = Flow(
    "tear_down_node",
    NodeParams,
    [
        Step("begin", begin, undo=fail),
        Step("end_rescue", end_rescue, undo=NOTHING),
        Step("close_console", close_console, undo=NOTHING),
        Step("power_off", power_off, undo=NOTHING),
        Step("tear_down", tear_down, undo=NOTHING),
        Step("detach_vifs", detach_vifs, undo=NOTHING),
        Step("forget_instance", forget_instance, pivot=True),
        Step("start_cleaning", start_cleaning),
    ],
    subject=node_of,
    summary="take the instance off a node",
    then=cleaning,
    abandon=abandon,
)
