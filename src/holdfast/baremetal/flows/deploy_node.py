"""Deploys a node: available -> deploying -> active; `rebuild` does the same again from active.

Contends with every verb on the node; the guard is the node lock. `prepare` plugs networks and volumes
and is undone as a whole; the deploy steps write to the machine's disk and cannot be undone, so a
failure there still unplugs what was plugged and leaves `deploy failed` with the reason: deploy again or
undeploy. A node that boots from a volume is written nothing and goes straight to `active`.
The node waits in `wait call-back` when its ramdisk has the next word; the heartbeat starts
`continue_deploy`.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row

from holdfast import errors
from holdfast.baremetal import boot_progress, instances, node_steps, nodes, provision, states
from holdfast.baremetal.drivers.storage import volumes
from holdfast.baremetal.flows import node_work
from holdfast.baremetal.flows.node_work import NodeParams, abandon, ending, fail, node_of, power
from holdfast.baremetal.task import Task
from holdfast.flows.flow import NOTHING, Flow, Next, Step, Work


class DeployParams(NodeParams, frozen=True, kw_only=True):
    """The config drive is stored on the node before the flow starts; it holds secrets."""

    event: str = "deploy"


def begin(work: Work, params: DeployParams) -> None:
    def check(connection: Connection, node: Row[Any]) -> None:
        """Whoever changes the node at this moment comes before this check, or after the deploy began."""
        if params.event == "rebuild":
            nodes.require_unprotected(node)
        instances.require_traits(connection, node)

    provision.begin(work.services.db, params.node, work.lock, params.event, check=check)


def resume(work: Work, params: NodeParams) -> None:
    provision.begin(work.services.db, params.node, work.lock, "resume")


def validate(work: Work, params: NodeParams) -> None:
    """Again, under the lock: what the handler checked may have changed since."""
    with work.services.db.read() as connection:
        task = nodes.load_task(connection, params.node, work.generation)
    instances.require_deployable(work.services.drivers, task)


def prepare(work: Work, params: NodeParams) -> None:
    services = work.services
    with nodes.working(services, params.node, work.generation) as task:
        storage = services.drivers.storage(task)
        write_image = storage.should_write_image(task)
        volumes.mark_boot_volume(task, write_image)
        if not write_image:  # nothing may run on the volumes while they are plugged
            power(work, task, states.POWER_OFF)
        storage.attach_volumes(task)
        if write_image:
            services.drivers.network(task).unconfigure_tenant_networks(task)  # which a rebuild is still on
            services.drivers.network(task).add_provisioning_network(task)
        services.drivers.deploy(task).prepare(task)


def unprepare(work: Work, params: NodeParams) -> None:
    services = work.services
    with nodes.working(services, params.node, work.generation) as task:
        # Off first: no volume is taken from a machine that writes to it.
        power(work, task, states.POWER_OFF)
        services.drivers.deploy(task).clean_up(task)
        services.drivers.network(task).remove_provisioning_network(task)
        services.drivers.storage(task).detach_volumes(task)
        volumes.mark_boot_volume(task, write_image=True)


def choose_steps(work: Work, params: NodeParams) -> None:
    services = work.services
    with services.db.read() as connection:
        task = nodes.load_task(connection, params.node, work.generation)
    steps = node_steps.automatic(services, task, "deploy")
    node_steps.prepare(services, params.node, "deploy", steps, work.generation)


def deploy(work: Work, params: NodeParams) -> dict[str, Any]:
    outcome = node_steps.run(work.services, params.node, "deploy", work.generation)
    return node_work.waits_at(work, params.node, "deploy", outcome)


def boot_instance(work: Work, params: NodeParams) -> None:
    """Into its own networks and on, unless the ramdisk is still writing."""
    if ending(work, "deploy") == "wait":
        return
    services = work.services
    with nodes.working(services, params.node, work.generation) as task:
        services.drivers.network(task).remove_provisioning_network(task)
        services.drivers.network(task).configure_tenant_networks(task)
        services.drivers.boot(task).prepare_instance(task)
    # What it boots is on record before it is switched on: it may ask at once.
    with nodes.working(services, params.node, work.generation) as task:
        _start_instance(work, task)
    node_steps.forget(services, params.node, "deploy", work.generation)


def _start_instance(work: Work, task: Task) -> None:
    try:
        power(work, task, states.POWER_ON)
    except errors.DriverFailed as error:
        if not boot_progress.has_reached(task.node.driver_internal_info, boot_progress.IMAGE_WRITTEN):
            raise
        raise errors.DriverFailed(
            f"The image was written, but the machine could not be started from it. {error.public}"
        ) from error
    task.node.driver_internal_info = boot_progress.reached(task.node.driver_internal_info, boot_progress.REBOOTED)


def unboot_instance(work: Work, params: NodeParams) -> None:
    services = work.services
    with nodes.working(services, params.node, work.generation) as task:
        services.drivers.boot(task).clean_up_instance(task)
        services.drivers.network(task).unconfigure_tenant_networks(task)


def finish(work: Work, params: NodeParams) -> None:
    node_work.finish(work, params.node, ending(work, "deploy"), CONTINUE)


def heard(work: Work, params: NodeParams) -> Next | None:
    return node_work.heard(work, params, CONTINUE)


_WORK: list[Step[Any]] = [
    Step("deploy", deploy, undo=NOTHING),
    Step("boot_instance", boot_instance, undo=unboot_instance),
    Step("finish", finish, pivot=True),
]

DEPLOY: Flow[DeployParams] = Flow(
    "deploy_node",
    DeployParams,
    [
        Step("begin", begin, undo=fail),
        Step("validate", validate, undo=NOTHING),
        Step("prepare", prepare, undo=unprepare),
        Step("choose_steps", choose_steps, undo=NOTHING),
        *_WORK,
    ],
    subject=node_of,
    summary="deploy an instance to a node",
    then=heard,
    abandon=abandon,
)

CONTINUE: Flow[NodeParams] = Flow(
    "continue_deploy",
    NodeParams,
    [
        Step("begin", resume, undo=fail),
        Step("prepare", lambda _work, _params: None, undo=unprepare),
        *_WORK,
    ],
    subject=node_of,
    summary="go on with a deploy when the ramdisk answers",
    then=heard,
    abandon=abandon,
)
