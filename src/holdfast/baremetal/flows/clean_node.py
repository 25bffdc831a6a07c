"""Cleans a node: by itself before it becomes available (verb `provide`, or after a tear down), or by
hand with the steps an operator asked for (verb `clean`).

Guard: the node lock; after a tear down it is handed over, so nobody gets in between. Clean steps erase
things: there is no way back, so a failure leaves the node in `clean failed` with the reason, its
cleaning network and boot files removed, and the failing step still shown in `clean_step`. Once a step has run,
the node also goes into maintenance with fault `clean failure`: its disks may be half erased.
"""

from __future__ import annotations

from typing import Any

from holdfast import errors
from holdfast.baremetal import node_steps, nodes, provision, states
from holdfast.baremetal.drivers.base import Outcome
from holdfast.baremetal.flows import node_work
from holdfast.baremetal.flows.node_work import NodeParams, abandon, ending, node_of, waits
from holdfast.baremetal.steps import REQUESTED_CLEAN
from holdfast.baremetal.task import Task
from holdfast.flows.flow import NOTHING, Flow, Next, Step, Work
from holdfast.services import Services


class CleanParams(NodeParams, frozen=True, kw_only=True):
    """By hand: with the steps the node's `driver_internal_info` says were asked for; their arguments may hold
    secrets. Otherwise automated, on the way to available, skipped where it is turned off."""

    event: str = "provide"
    by_hand: bool = False
    # Of the steps asked for none needs a ramdisk, and none is booted.
    disable_ramdisk: bool = False


def begin(work: Work, params: CleanParams) -> None:
    target = states.MANAGEABLE if params.by_hand else states.AVAILABLE
    provision.begin(work.services.db, params.node, work.lock, params.event, target=target)


def resume(work: Work, params: NodeParams) -> None:
    with work.services.db.read() as connection:
        target = nodes.find(connection, params.node).target_provision_state
    provision.begin(work.services.db, params.node, work.lock, "resume", target=target)


def choose_steps(work: Work, params: CleanParams) -> int:
    services = work.services
    with services.db.read() as connection:
        task = nodes.load_task(connection, params.node, work.generation)
    asked = task.node.driver_internal_info.get(REQUESTED_CLEAN) or [] if params.by_hand else None
    if asked is None and not _is_automatic(services, task):
        steps = []
    elif services.drivers.deploy(task).asks_ramdisk and not params.disable_ramdisk:
        node_steps.postpone(services, params.node, "clean", asked, work.generation)
        return 1
    elif asked is not None:
        steps = node_steps.requested(services, task, "clean", asked)
        if params.disable_ramdisk:
            _require_no_ramdisk(services, task, steps)
    else:
        steps = node_steps.automatic(services, task, "clean")
    node_steps.prepare(services, params.node, "clean", steps, work.generation)
    return len(steps)


def _require_no_ramdisk(services: Services, task: Task, steps: list[dict[str, Any]]) -> None:
    need = {(s.interface, s.step) for s in services.drivers.steps(task, "clean") if s.requires_ramdisk}
    for step in steps:
        if (step["interface"], step["step"]) in need:
            raise errors.DriverDataInvalid(
                f"Step {step['interface']}.{step['step']} needs the ramdisk, which was asked not to be booted."
            )


def _is_automatic(services: Services, task: Task) -> bool:
    """Whether the node is cleaned by itself: as it says, or else as the option does."""
    wanted = task.node.automated_clean
    return bool(services.conf.conductor.automated_clean if wanted is None else wanted)


def prepare(work: Work, params: CleanParams) -> dict[str, bool]:
    if not work.results["choose_steps"] or params.disable_ramdisk:
        return waits(Outcome.DONE)
    services = work.services
    with nodes.working(services, params.node, work.generation) as task:
        services.drivers.network(task).add_cleaning_network(task)
        return waits(services.drivers.deploy(task).prepare_cleaning(task))


def unprepare(work: Work, params: NodeParams) -> None:
    services = work.services
    with nodes.working(services, params.node, work.generation) as task:
        services.drivers.deploy(task).tear_down_cleaning(task)
        services.drivers.network(task).remove_cleaning_network(task)


def clean(work: Work, params: NodeParams) -> dict[str, Any]:
    if (work.results.get("prepare") or {}).get("wait"):
        return node_work.waits_at(work, params.node, "clean", Outcome.WAIT)
    outcome = node_steps.run(work.services, params.node, "clean", work.generation)
    return node_work.waits_at(work, params.node, "clean", outcome)


def tidy(work: Work, params: NodeParams) -> None:
    """Unless the ramdisk is still at work, nothing of the cleaning stays behind."""
    if ending(work, "clean") == "wait":
        return
    unprepare(work, params)
    node_steps.forget(work.services, params.node, "clean", work.generation)


def finish(work: Work, params: NodeParams) -> None:
    event = ending(work, "clean")
    if event == "done":
        with work.services.db.read() as connection:
            row = nodes.find(connection, params.node)
        # A retired node is not offered again.
        event = "manage" if row.target_provision_state == states.MANAGEABLE or row.retired else "done"
    node_work.finish(work, params.node, event, CONTINUE)


def fail(work: Work, params: NodeParams) -> None:
    with work.services.db.read() as connection:
        begun = nodes.find(connection, params.node).clean_step != "{}"
    fault: dict[str, Any] = {}
    if begun:
        fault = {
            "maintenance": True,
            "maintenance_reason": "A clean step failed; see last_error.",
            "fault": states.CLEAN_FAILURE,
        }
    provision.fail(work.services.db, params.node, work.lock, work.error, **fault)


def heard(work: Work, params: NodeParams) -> Next | None:
    return node_work.heard(work, params, CONTINUE)


CLEAN: Flow[CleanParams] = Flow(
    "clean_node",
    CleanParams,
    [
        Step("begin", begin, undo=fail),
        Step("choose_steps", choose_steps, undo=NOTHING),
        Step("prepare", prepare, undo=unprepare),
        Step("clean", clean, undo=NOTHING),
        Step("tidy", tidy, undo=NOTHING),
        Step("finish", finish, pivot=True),
    ],
    subject=node_of,
    summary="clean a node",
    then=heard,
    abandon=abandon,
)

CONTINUE: Flow[NodeParams] = Flow(
    "continue_cleaning",
    NodeParams,
    [
        Step("begin", resume, undo=fail),
        Step("prepare", lambda _work, _params: None, undo=unprepare),
        Step("clean", clean, undo=NOTHING),
        Step("tidy", tidy, undo=NOTHING),
        Step("finish", finish, pivot=True),
    ],
    subject=node_of,
    summary="go on with cleaning when the ramdisk answers",
    then=heard,
    abandon=abandon,
)
