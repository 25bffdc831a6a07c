"""What all fake interfaces share: their simulated machines, and the switches in `driver_info`.

- `fake_fail`: names such as `power.set_power_state`; the machine fails whenever that is asked of it.
- `fake_wait`: phases (clean, deploy, inspect, rescue) in which the machine pretends to boot a ramdisk:
  the work stops and goes on with the node's next heartbeat.

Both take a JSON list, or text with commas. What waits is kept in `driver_internal_info` under
`fake_wait`: {phase: the last heartbeat when the wait began}. A later heartbeat ends it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from oslo_config import cfg

from holdfast import errors
from holdfast.baremetal.drivers.base import Interface
from holdfast.baremetal.task import Node, Task
from holdfast.sim import machines
from holdfast.sim.machines import Machines

PHASES = ("clean", "deploy", "inspect", "rescue")
# Where the service, or the deploy interface, records when the ramdisk called.
LAST_HEARTBEAT = "agent_last_heartbeat"

PROPERTIES = {
    "fake_fail": "Calls that fail on this node, to rehearse failures: a list such as "
    '["power.set_power_state", "deploy.deploy"]. Optional.',
    "fake_wait": "Phases that wait for a heartbeat as if a ramdisk were booting: "
    f"a list of {', '.join(PHASES)}. Optional.",
}

F = TypeVar("F", bound=Callable[..., Any])


class Simulated(Interface):
    """Mixed into each fake interface, before its kind."""

    properties = PROPERTIES

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self._opened: Machines | None = None

    @property
    def machines(self) -> Machines:
        """Opened on first use: a process that only lists drivers leaves no file behind."""
        if self._opened is None:
            section = self.conf.fake
            file = section.state_file or Path(self.conf.state_dir) / "fake-hardware.sqlite"
            delays = {what: section[f"{what}_delay"] for what in ("power", "deploy", "clean", "inspect", "rescue")}
            self._opened = machines.shared(Path(file), delays)
        return self._opened

    def validate(self, task: Task) -> None:
        _names(task.node, "fake_fail")
        unknown = set(_names(task.node, "fake_wait")) - set(PHASES)
        if unknown:
            raise errors.DriverDataInvalid(
                f"driver_info fake_wait names {', '.join(sorted(unknown))}. Use any of: {', '.join(PHASES)}."
            )
        if f"{self.kind}.validate" in _names(task.node, "fake_fail"):
            raise errors.DriverDataInvalid(f"{self.kind}.validate is told to fail by driver_info fake_fail.")


def can_fail(method: F) -> F:
    """Makes a method of a fake interface fail on nodes whose `fake_fail` names it."""

    @functools.wraps(method)
    def rehearsed(self: Simulated, task: Task, /, *args: Any, **kwargs: Any) -> Any:
        name = f"{self.kind}.{method.__name__}"
        if name in _names(task.node, "fake_fail"):
            raise errors.DriverFailed(
                f"{name} failed on node {task.node.label}, as its driver_info fake_fail asks for."
            )
        return method(self, task, *args, **kwargs)

    return cast(F, rehearsed)


def must_wait(task: Task, phase: str) -> bool:
    """Whether this phase still has to wait for a heartbeat; the answer after one is no, once."""
    if phase not in _names(task.node, "fake_wait"):
        return False
    last, marks = task.node.driver_internal_info.get(LAST_HEARTBEAT), _marks(task.node)
    if phase in marks and marks[phase] != last:
        forget_wait(task, phase)
        return False
    _mark(task.node, {**marks, phase: last})
    return True


def forget_wait(task: Task, phase: str) -> None:
    """The phase is over, or given up: the next one waits anew."""
    _mark(task.node, {name: mark for name, mark in _marks(task.node).items() if name != phase})


def _marks(node: Node) -> Mapping[str, str | None]:
    marks = node.driver_internal_info.get("fake_wait")
    return marks if isinstance(marks, dict) else {}


def _mark(node: Node, marks: Mapping[str, str | None]) -> None:
    rest: dict[str, Any] = {k: v for k, v in node.driver_internal_info.items() if k != "fake_wait"}
    node.driver_internal_info = {**rest, "fake_wait": dict(marks)} if marks else rest


def _names(node: Node, switch: str) -> list[str]:
    value = node.driver_info.get(switch) or []
    if isinstance(value, str):
        value = [name.strip() for name in value.split(",") if name.strip()]
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise errors.DriverDataInvalid(f"driver_info {switch} must be a list of names.")
    return value
