"""Runs a node's clean or deploy steps, one after the other, remembering how far it got.

The list and the position live in `driver_internal_info` (`clean_steps`/`clean_step_index`, the same for
deploy), so that a process that takes over goes on with the step that was running. Steps must
therefore bear being started again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import update

from holdfast.baremetal import boot_progress, nodes, steps
from holdfast.baremetal.drivers.base import NodeStep, Outcome
from holdfast.baremetal.task import Task
from holdfast.db import tables
from holdfast.services import Services

# In place of a list: whatever runs by itself.
AUTOMATIC = "automatic"


def automatic(services: Services, task: Task, phase: str, in_ramdisk: Sequence[NodeStep] = ()) -> list[dict[str, Any]]:
    """Every step of the phase that runs by itself, in order; of a deploy also what was asked for beforehand."""
    offered = services.drivers.steps(task, phase, in_ramdisk)
    if phase == "deploy":
        return steps.deploy(offered, task, asks_ramdisk=services.drivers.deploy(task).asks_ramdisk)
    return [step.document() for step in offered if step.priority > 0]


def requested(
    services: Services,
    task: Task,
    phase: str,
    wanted: Sequence[Mapping[str, Any]],
    in_ramdisk: Sequence[NodeStep] = (),
) -> list[dict[str, Any]]:
    """The steps somebody asked for, checked against what the node's interfaces, and its ramdisk, offer."""
    offered = services.drivers.steps(task, phase, in_ramdisk)
    return [steps.find(offered, step, phase).document(step.get("args") or {}) for step in wanted]


def prepare(services: Services, node: str, phase: str, steps: list[dict[str, Any]], generation: int) -> None:
    """Stores the list; the first of them comes next."""
    with nodes.working(services, node, generation) as task:
        task.node.driver_internal_info = {
            **task.node.driver_internal_info,
            f"{phase}_steps": steps,
            f"{phase}_step_index": 0,
        }


def postpone(
    services: Services, node: str, phase: str, wanted: Sequence[Mapping[str, Any]] | None, generation: int
) -> None:
    """Leaves the choice until the ramdisk is up: it has steps of its own. `wanted` None: those that run by
    themselves."""
    with nodes.working(services, node, generation) as task:
        task.node.driver_internal_info = {
            **task.node.driver_internal_info,
            f"{phase}_steps": [],
            f"{phase}_step_index": 0,
            f"{phase}_steps_wanted": AUTOMATIC if wanted is None else list(wanted),
        }


def _choose_now(services: Services, node: str, phase: str, generation: int) -> bool:
    """Makes up for a postponed choice; False while the ramdisk has not called."""
    with nodes.working(services, node, generation) as task:
        info = dict(task.node.driver_internal_info)
        in_ramdisk = services.drivers.deploy(task).ramdisk_steps(task, phase)
        if in_ramdisk is None:
            return False
        wanted = info.pop(f"{phase}_steps_wanted")
        if wanted == AUTOMATIC:
            info[f"{phase}_steps"] = automatic(services, task, phase, in_ramdisk)
        else:
            info[f"{phase}_steps"] = requested(services, task, phase, wanted, in_ramdisk)
        task.node.driver_internal_info = info
    return True


def _execute(services: Services, task: Task, phase: str, step: Mapping[str, Any]) -> Outcome:
    """By the interface that offers it, or else by the ramdisk."""
    interface = services.drivers.all(task).get(step["interface"])
    own = interface is not None and any(offered.step == step["step"] for offered in interface.steps(phase))
    if interface is not None and (own or not services.drivers.deploy(task).asks_ramdisk):
        return interface.execute_step(task, step)
    return services.drivers.deploy(task).execute_ramdisk_step(task, phase, step)


def run(services: Services, node: str, phase: str, generation: int) -> Outcome:
    """Runs the rest of the list. `WAIT` means the current step goes on in the ramdisk."""
    while True:
        with services.db.read() as connection:
            task = nodes.load_task(connection, node, generation)
        info = task.node.driver_internal_info
        if f"{phase}_steps_wanted" in info:
            if not _choose_now(services, node, phase, generation):
                return Outcome.WAIT
            continue
        steps, index = info.get(f"{phase}_steps") or [], info.get(f"{phase}_step_index") or 0
        if index >= len(steps):
            return Outcome.DONE
        step = steps[index]
        _show(services, task, phase, step)
        with nodes.working(services, node, generation) as task:
            if _execute(services, task, phase, step) is Outcome.WAIT:
                return Outcome.WAIT
            task.node.driver_internal_info = {
                **task.node.driver_internal_info,
                f"{phase}_step_index": index + 1,
            }


def forget(services: Services, node: str, phase: str, generation: int) -> None:
    """Clears the list, the step shown on the node, and what its ramdisk said: that boot is over."""
    with nodes.working(services, node, generation) as task:
        task.node.driver_internal_info = {
            key: value
            for key, value in boot_progress.forgotten(task.node.driver_internal_info).items()
            if key not in (f"{phase}_steps", f"{phase}_step_index", f"{phase}_steps_wanted", f"user_{phase}_steps")
        }
    _show(services, task, phase, {})


def _show(services: Services, task: Task, phase: str, step: Mapping[str, Any]) -> None:
    with services.db.write() as connection:
        connection.execute(
            update(tables.nodes)
            .where(tables.nodes.c.id == task.node.id)
            .values({f"{phase}_step": msgspec.json.encode(step).decode()})
        )
