"""`external`: somebody else exports the volumes to the machine and writes the targets.

That is an operator (`holdfast volume attach-node`), a script, or Nova. Holdfast checks that the machine
can boot from what was written, and has nothing to attach or detach.
"""

from __future__ import annotations

from holdfast.baremetal.drivers.base import StorageInterface
from holdfast.baremetal.drivers.storage import volumes
from holdfast.baremetal.task import Task


class ExternalStorage(StorageInterface):
    def validate(self, task: Task) -> None:
        boot = self.drivers.boot(task)
        volumes.check_boot(task, boot.capabilities, task.node.interfaces.get("boot", ""))
        target = volumes.boot_target(task)
        if target is not None and not volumes.writes_image(task):
            volumes.check_targets(task)

    def should_write_image(self, task: Task) -> bool:
        return volumes.writes_image(task)
