"""Remote volumes of a simulated machine: accepted, and not written over when it boots from one."""

from __future__ import annotations

from holdfast.baremetal.drivers.base import StorageInterface
from holdfast.baremetal.drivers.fake.rehearsal import Simulated, can_fail
from holdfast.baremetal.drivers.storage import volumes
from holdfast.baremetal.task import Task


class FakeStorage(Simulated, StorageInterface):
    @can_fail
    def attach_volumes(self, task: Task) -> None: ...

    @can_fail
    def detach_volumes(self, task: Task) -> None: ...

    @can_fail
    def should_write_image(self, task: Task) -> bool:
        return volumes.writes_image(task)
