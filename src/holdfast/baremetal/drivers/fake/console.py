"""The serial console of a simulated machine: it can be started, but there is nobody to talk to."""

from __future__ import annotations

from holdfast import errors
from holdfast.baremetal.drivers.base import ConsoleInterface
from holdfast.baremetal.drivers.fake.rehearsal import Simulated, can_fail
from holdfast.baremetal.task import Task


class FakeConsole(Simulated, ConsoleInterface):
    @can_fail
    def start_console(self, task: Task) -> None:
        self.machines.set_console(task.node.uuid, True, generation=task.generation)

    @can_fail
    def stop_console(self, task: Task) -> None:
        self.machines.set_console(task.node.uuid, False, generation=task.generation)

    @can_fail
    def get_console(self, task: Task) -> dict[str, str]:
        if not self.machines.get(task.node.uuid).console:
            raise errors.DriverFailed(f"The console of node {task.node.label} is not running.")
        return {"type": "fake", "url": f"fake://{task.node.uuid}/console"}
