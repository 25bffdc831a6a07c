"""Steps as clients ask for them: their form, whether a node has them, and how they join a deploy.

A deploy runs the driver's own steps, those of the deploy templates that `instance_info.traits` activates, and
those of the request. Of the same step the request's word counts before a template's, and that before
the driver's; priority 0 leaves it out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holdfast import errors
from holdfast.baremetal.drivers.base import NodeStep
from holdfast.baremetal.drivers.registry import STEP_RANK, Drivers
from holdfast.baremetal.task import Task

INTERFACES = ("vendor", "power", "management", "deploy", "bios", "raid")
MOST = 255
# In driver_internal_info: the steps of the request.
REQUESTED = "user_deploy_steps"
REQUESTED_CLEAN = "user_clean_steps"

Json = dict[str, Any]


def check_clean(steps: Iterable[Any]) -> None:
    """Raises `BadRequest` unless these are clean steps in the form of the API."""
    for step in steps:
        _check(step, "clean", {"interface", "step"}, {"args"})


def check_deploy(steps: Any) -> list[Json]:
    """Deploy steps in the form of the API, with whole numbers as priorities."""
    if not isinstance(steps, list) or not 1 <= len(steps) <= MOST:
        raise errors.InvalidValue(f"Deploy steps are a list of 1 to {MOST} steps.")
    checked: dict[tuple[str, str], Json] = {}
    for step in steps:
        _check(step, "deploy", {"interface", "step", "args", "priority"}, set())
        key = step["interface"], step["step"]
        if key in checked:
            raise errors.InvalidValue(f"The deploy step {key[0]}.{key[1]} is there twice.")
        checked[key] = {**step, "priority": _priority(step["priority"])}
    return list(checked.values())


def _check(step: Any, phase: str, needed: set[str], allowed: set[str]) -> None:
    if not isinstance(step, dict) or not needed <= step.keys() <= needed | allowed:
        raise errors.InvalidValue(f"A {phase} step is an object with {', '.join(sorted(needed | allowed))}.")
    if step["interface"] not in INTERFACES:
        raise errors.InvalidValue(f"A {phase} step's interface is one of {', '.join(INTERFACES)}.")
    if not isinstance(step["step"], str) or not 1 <= len(step["step"]) <= 255:
        raise errors.InvalidValue(f"A {phase} step needs the name of the step.")
    if not isinstance(step.get("args", {}), dict):
        raise errors.InvalidValue(f"The args of a {phase} step are a JSON object.")


def _priority(value: Any) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise errors.InvalidValue("The priority of a deploy step is a whole number, 0 or more.")
    return value


def find(offered: Sequence[NodeStep], wanted: Mapping[str, Any], phase: str) -> NodeStep:
    """The step of the node that somebody asks for, with arguments it takes."""
    name = f"{wanted['interface']}.{wanted['step']}"
    step = next((s for s in offered if (s.interface, s.step) == (wanted["interface"], wanted["step"])), None)
    if step is None:
        known = ", ".join(sorted(f"{s.interface}.{s.step}" for s in offered)) or "none"
        raise errors.DriverDataInvalid(
            f"The node has no {phase} step {wanted['step']!r} on its {wanted['interface']} interface. It has: {known}."
        )
    args, takes = wanted.get("args") or {}, step.argsinfo or {}
    lacking = [argument for argument, info in takes.items() if info.get("required") and argument not in args]
    unknown = sorted(set(args) - set(takes))
    if lacking or unknown:
        problem = f"needs {', '.join(lacking)}" if lacking else f"does not take {', '.join(unknown)[:200]}"
        raise errors.DriverDataInvalid(f"Step {name} {problem}.")
    return step


def asked_for(task: Task) -> list[Json]:
    """What templates and request add to the node's deploy."""
    requested: list[Json] = task.node.driver_internal_info.get(REQUESTED) or []
    keys = {(step["interface"], step["step"]) for step in requested}
    return requested + [step for step in task.template_steps if (step["interface"], step["step"]) not in keys]


def deploy(offered: Sequence[NodeStep], task: Task, *, asks_ramdisk: bool = False) -> list[Json]:
    """The steps of the node's deploy, in order. `asks_ramdisk`: those that are not offered are left to it."""
    asked = asked_for(task)
    keys = {(step["interface"], step["step"]) for step in asked}
    own = [s.document() for s in offered if s.priority > 0 and (s.interface, s.step) not in keys]
    for wanted in asked:
        if wanted["priority"] > 0:
            known = (wanted["interface"], wanted["step"]) in {(s.interface, s.step) for s in offered}
            step = NodeStep(wanted["interface"], wanted["step"])
            if known or not asks_ramdisk:
                step = find(offered, wanted, "deploy")
            own.append({**step.document(wanted["args"]), "priority": wanted["priority"]})
    return sorted(own, key=lambda s: (-s["priority"], STEP_RANK.get(s["interface"], len(STEP_RANK))))


def require_deploy(drivers: Drivers, task: Task) -> None:
    """`DriverDataInvalid` if the node lacks a step that is asked for. What only its ramdisk knows is seen later."""
    deploy(drivers.steps(task, "deploy"), task, asks_ramdisk=drivers.deploy(task).asks_ramdisk)
