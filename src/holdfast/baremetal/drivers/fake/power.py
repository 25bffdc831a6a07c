"""Power of a simulated machine."""

from __future__ import annotations

from holdfast import errors
from holdfast.baremetal import states
from holdfast.baremetal.drivers.base import PowerInterface
from holdfast.baremetal.drivers.fake.rehearsal import Simulated, can_fail
from holdfast.baremetal.task import Task


class FakePower(Simulated, PowerInterface):
    @can_fail
    def get_power_state(self, task: Task) -> str | None:
        return self.machines.get(task.node.uuid).power_state

    @can_fail
    def set_power_state(self, task: Task, power_state: str, timeout: int | None = None) -> None:
        if power_state in (states.REBOOT, states.SOFT_REBOOT) or power_state not in states.POWER_TARGETS:
            raise errors.InvalidValue(f"{power_state!r} is not a power state a machine can be in.")
        self.machines.set_power(task.node.uuid, states.POWER_TARGETS[power_state], generation=task.generation)

    @can_fail
    def reboot(self, task: Task, timeout: int | None = None, *, soft: bool = False) -> None:
        self.machines.reboot(task.node.uuid, generation=task.generation)

    def get_supported_power_states(self, task: Task) -> list[str]:
        return list(states.POWER_TARGETS)
