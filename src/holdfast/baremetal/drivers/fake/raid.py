"""RAID of a simulated machine: it builds any layout that makes sense."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast import errors
from holdfast.baremetal.drivers.base import RaidInterface, clean_step
from holdfast.baremetal.drivers.fake.rehearsal import Simulated, can_fail
from holdfast.baremetal.task import Task

LEVELS = ("JBOD", "0", "1", "2", "5", "6", "1+0", "5+0", "6+0")

# What a logical disk may ask for, as `driver raid property list` shows it.
LOGICAL_DISK = {
    "size_gb": "Size in GiB, a whole number, or MAX for all the space that is left. Required.",
    "raid_level": f"One of {', '.join(LEVELS)}. Required.",
    "volume_name": "A name, unique on the node. The controller makes one up if there is none.",
    "is_root_volume": "True for the one logical disk that carries the operating system.",
    "share_physical_disks": "True if other logical disks may use the same physical disks. Default false.",
    "disk_type": "hdd or ssd. Any if not given.",
    "interface_type": "sata, scsi or sas. Any if not given.",
    "number_of_physical_disks": "How many physical disks to use. As few as the level needs if not given.",
    "controller": "The RAID controller to use. Any if not given.",
    "physical_disks": "The physical disks to use, by the controller's names for them.",
}

ARGSINFO = {
    "create_root_volume": {
        "description": "Whether to build the root volume. Default true.",
        "required": False,
    },
    "create_nonroot_volumes": {
        "description": "Whether to build the other logical disks. Default true.",
        "required": False,
    },
    "delete_existing": {
        "description": "Whether to delete what is there before. Default true.",
        "required": False,
    },
}


class FakeRaid(Simulated, RaidInterface):
    @can_fail
    def validate_raid_config(self, task: Task, raid_config: Mapping[str, Any]) -> None:
        check_raid_config(raid_config)

    def get_logical_disk_properties(self) -> Mapping[str, str]:
        return LOGICAL_DISK

    @clean_step(0, argsinfo=ARGSINFO)
    @can_fail
    def create_configuration(
        self,
        task: Task,
        create_root_volume: bool = True,
        create_nonroot_volumes: bool = True,
        delete_existing: bool = True,
    ) -> None:
        if not task.node.target_raid_config:
            raise errors.DriverDataInvalid(
                f"Node {task.node.label} has no target_raid_config. Set one before creating it."
            )
        check_raid_config(task.node.target_raid_config)
        wanted = [
            dict(disk)
            for disk in task.node.target_raid_config["logical_disks"]
            if (create_root_volume if disk.get("is_root_volume") else create_nonroot_volumes)
        ]
        present = [] if delete_existing else self.machines.get(task.node.uuid).raid
        # A repeated call finds its own disks among those present and must not build them twice.
        disks = present + [disk for disk in wanted if disk not in present]
        self.machines.set_raid(task.node.uuid, disks, generation=task.generation)
        task.node.raid_config = {"logical_disks": disks}

    @clean_step(0)
    @can_fail
    def delete_configuration(self, task: Task) -> None:
        self.machines.set_raid(task.node.uuid, [], generation=task.generation)
        task.node.raid_config = {}


def check_raid_config(raid_config: Mapping[str, Any]) -> None:
    """Raises `InvalidValue` unless the document describes logical disks that can be built."""
    disks = raid_config.get("logical_disks")
    if raid_config.keys() != {"logical_disks"} or not isinstance(disks, list) or not disks:
        raise errors.InvalidValue("A RAID configuration is an object with a non-empty list `logical_disks`.")
    for number, disk in enumerate(disks):
        problem = _problem(disk)
        if problem:
            raise errors.InvalidValue(f"Logical disk {number} of the RAID configuration: {problem}.")
    if sum(bool(disk.get("is_root_volume")) for disk in disks) > 1:
        raise errors.InvalidValue("Only one logical disk of a RAID configuration can be the root volume.")


def _problem(disk: Any) -> str | None:
    if not isinstance(disk, dict):
        return "it is not an object"
    unknown = disk.keys() - LOGICAL_DISK.keys()
    if unknown:
        return f"it has the unknown keys {', '.join(sorted(unknown))}"
    size = disk.get("size_gb")
    if size != "MAX" and not (isinstance(size, int) and not isinstance(size, bool) and size > 0):
        return "size_gb must be a whole number above 0, or MAX"
    if disk.get("raid_level") not in LEVELS:
        return f"raid_level must be one of {', '.join(LEVELS)}"
    if not isinstance(disk.get("is_root_volume", False), bool):
        return "is_root_volume must be true or false"
    return None
