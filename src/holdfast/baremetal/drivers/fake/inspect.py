"""Inspection of a simulated machine."""

from __future__ import annotations

import hashlib

from holdfast.baremetal.drivers.base import InspectInterface, Inspection, Outcome
from holdfast.baremetal.drivers.fake.management import factory_macs
from holdfast.baremetal.drivers.fake.rehearsal import Simulated, can_fail, forget_wait, must_wait
from holdfast.baremetal.task import Task

FOUND = {"cpus": 32, "memory_mb": 131072, "local_gb": 960, "cpu_arch": "x86_64"}


class FakeInspect(Simulated, InspectInterface):
    @can_fail
    def inspect_hardware(self, task: Task) -> Inspection | Outcome:
        """Fills in what nobody recorded; what an operator wrote down stays."""
        if must_wait(task, "inspect"):
            return Outcome.WAIT
        self.machines.inspect(task.node.uuid)
        missing = {name: value for name, value in FOUND.items() if task.node.properties.get(name) is None}
        known = {connector.type for connector in task.connectors}
        return Inspection(
            missing,
            () if task.ports else tuple(factory_macs(task.node.uuid)),
            tuple((kind, name) for kind, name in factory_names(task.node.uuid).items() if kind not in known),
            {"iscsi_boot": "true", "fibre_channel_boot": "true"},
        )

    @can_fail
    def abort(self, task: Task) -> None:
        forget_wait(task, "inspect")


def factory_names(node: str) -> dict[str, str]:
    """The names by which storage knows a machine, the same whenever asked."""
    digits = hashlib.sha256(node.encode()).hexdigest()
    return {"iqn": f"iqn.2026-01.org.holdfast.fake:{node}", "wwnn": f"2{digits[:15]}", "wwpn": f"1{digits[:15]}"}
