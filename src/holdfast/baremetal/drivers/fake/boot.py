"""Booting a simulated machine: it only has to know from where."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.baremetal.drivers.base import BootInterface
from holdfast.baremetal.drivers.fake.rehearsal import Simulated, can_fail
from holdfast.baremetal.task import Task


class FakeBoot(Simulated, BootInterface):
    capabilities = frozenset({"ipxe_boot", "iscsi_volume_boot", "ramdisk_boot"})

    @can_fail
    def prepare_ramdisk(self, task: Task, ramdisk_params: Mapping[str, str]) -> None:
        self.machines.set_boot_device(task.node.uuid, "pxe", False, generation=task.generation)

    @can_fail
    def clean_up_ramdisk(self, task: Task) -> None: ...

    @can_fail
    def prepare_instance(self, task: Task) -> None:
        from_volume = "boot_from_volume" in task.node.driver_internal_info
        device = "pxe" if from_volume else "disk"
        self.machines.set_boot_device(task.node.uuid, device, True, generation=task.generation)

    @can_fail
    def clean_up_instance(self, task: Task) -> None: ...

    @can_fail
    def validate_rescue(self, task: Task) -> None: ...

    @can_fail
    def validate_inspection(self, task: Task) -> None: ...
