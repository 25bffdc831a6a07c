"""`agent`: a ramdisk looks at the machine from inside and reports what it found (see `inventory.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.baremetal import boot_progress
from holdfast.baremetal.drivers.agent import inventory as reports
from holdfast.baremetal.drivers.agent import ramdisk
from holdfast.baremetal.drivers.base import InspectInterface, Inspection, Outcome
from holdfast.baremetal.task import Task


class AgentInspect(InspectInterface):
    def validate(self, task: Task) -> None:
        self.drivers.boot(task).validate_inspection(task)

    def inspect_hardware(self, task: Task) -> Inspection | Outcome:
        self.drivers.network(task).add_inspection_network(task)
        # Only the collector whose report is read: logs and the like are for whoever debugs a ramdisk.
        ramdisk.start(
            self,
            task,
            ipa_inspection_callback_url=f"{ramdisk.api_url(self.conf)}/v1/continue_inspection",
            ipa_inspection_collectors="default",
        )
        return Outcome.WAIT

    def continue_inspection(
        self, task: Task, inventory: Mapping[str, Any] | None, plugin_data: Mapping[str, Any]
    ) -> Inspection | Outcome:
        if inventory is None:
            if not boot_progress.is_under_way(task.node.driver_internal_info):
                return self.inspect_hardware(task)
            return Outcome.WAIT
        self.abort(task)
        return reports.inspection(inventory, plugin_data)

    def abort(self, task: Task) -> None:
        ramdisk.stop(self, task)
        self.drivers.network(task).remove_inspection_network(task)
