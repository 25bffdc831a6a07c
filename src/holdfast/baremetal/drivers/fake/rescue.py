"""Rescue of a simulated machine. The password is looked for, never kept."""

from __future__ import annotations

from holdfast import errors
from holdfast.baremetal.drivers.base import Outcome, RescueInterface
from holdfast.baremetal.drivers.fake.rehearsal import Simulated, can_fail, forget_wait, must_wait
from holdfast.baremetal.task import Task


class FakeRescue(Simulated, RescueInterface):
    @can_fail
    def rescue(self, task: Task) -> Outcome:
        if not task.node.instance_info.get("rescue_password"):
            raise errors.DriverDataInvalid(
                f"Node {task.node.label} has no rescue_password in instance_info. Rescue it with a password."
            )
        if must_wait(task, "rescue"):
            return Outcome.WAIT
        self.machines.set_rescued(task.node.uuid, True, generation=task.generation)
        return Outcome.DONE

    @can_fail
    def unrescue(self, task: Task) -> Outcome:
        self.machines.set_rescued(task.node.uuid, False, generation=task.generation)
        return Outcome.DONE

    @can_fail
    def clean_up(self, task: Task) -> None:
        """Also after a rescue that failed half way: no rescue ramdisk stays behind."""
        forget_wait(task, "rescue")
        self.machines.set_rescued(task.node.uuid, False, generation=task.generation)
