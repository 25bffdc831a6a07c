"""Clean and deploy steps that the agent offers, and their execution on the machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from oslo_config import cfg

from holdfast import errors
from holdfast.baremetal.drivers.agent import client, ramdisk
from holdfast.baremetal.drivers.base import Interface, NodeStep, Outcome
from holdfast.baremetal.task import Task

# Clean steps whose priority is an option.
CONFIGURABLE = ("erase_devices", "erase_devices_metadata")
# In driver_internal_info: the step that ended and asked for a restart of the machine before the next one.
ENDED = "agent_step_awaits_restart"


class _Offered(msgspec.Struct):
    """A step in the agent's words; what else it says is not for us."""

    interface: str
    step: str
    priority: int = 0
    abortable: bool | None = False
    argsinfo: dict[str, dict[str, Any]] | None = None
    reboot_requested: bool | None = False


def offered(task: Task, agent: client.Agent, conf: cfg.ConfigOpts, phase: str) -> list[NodeStep]:
    """The steps of a phase ("clean" or "deploy"), with priorities as configured."""
    found, _versions = _ask(task, agent, phase)
    return [
        NodeStep(
            step.interface,
            step.step,
            _priority(conf, step) if phase == "clean" else step.priority,
            bool(step.abortable),
            step.argsinfo,
            reboot_requested=bool(step.reboot_requested),
        )
        for step in found
    ]


def execute(interface: Interface, task: Task, agent: client.Agent, phase: str, step: Mapping[str, Any]) -> Outcome:
    """Starts a step on the machine, or looks how it is doing. `WAIT` until it has ended."""
    name = f"{step['interface']}.{step['step']}"
    info = task.node.driver_internal_info
    if info.get(ENDED) == name:  # the machine was restarted for it, and is back
        task.node.driver_internal_info = {k: v for k, v in info.items() if k != ENDED}
        return Outcome.DONE

    def params() -> dict[str, Any]:
        _found, versions = _ask(task, agent, phase)
        sent = {key: value for key, value in step.items() if key != "abortable"}
        return {**ramdisk.described(task), "step": sent, f"{phase}_version": versions}

    command = ramdisk.drive(task, agent, f"{phase}.execute_{phase}_step", params, f"{phase} step {name}")
    if command is None:
        return Outcome.WAIT
    if step.get("reboot_requested"):
        task.node.driver_internal_info = {**task.node.driver_internal_info, ENDED: name}
        ramdisk.start(interface, task)
        return Outcome.WAIT
    return Outcome.DONE


def _ask(task: Task, agent: client.Agent, phase: str) -> tuple[list[_Offered], Any]:
    result = agent.ask(f"{phase}.get_{phase}_steps", ramdisk.described(task))
    try:
        by_manager = result[f"{phase}_steps"]
        found = [msgspec.convert(step, _Offered) for steps in by_manager.values() for step in steps]
        return found, result.get("hardware_manager_version")
    except (msgspec.ValidationError, KeyError, TypeError, AttributeError):
        raise errors.DriverFailed(
            f"The ramdisk of node {task.node.label} offers {phase} steps that cannot be read."
        ) from None


def _priority(conf: cfg.ConfigOpts, step: _Offered) -> int:
    if step.interface != "deploy" or step.step not in CONFIGURABLE:
        return step.priority
    configured: int | None = conf.agent[f"{step.step}_priority"]
    return step.priority if configured is None else configured
