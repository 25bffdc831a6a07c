"""Boot device, NMI and network cards of a simulated machine."""

from __future__ import annotations

import hashlib

from holdfast import errors
from holdfast.baremetal.drivers.base import BootDevice, Indicator, ManagementInterface
from holdfast.baremetal.drivers.fake.rehearsal import Simulated, can_fail
from holdfast.baremetal.task import Task
from holdfast.sim.machines import DEFAULT_BOOT_DEVICE

SUPPORTED = ("pxe", "disk", "cdrom", "bios", "safe", "uefihttp")
NICS = 2
INDICATORS = {
    "chassis": {"led": Indicator()},
    "system": {"led": Indicator(), "power": Indicator(readonly=True, states=("on", "off"))},
}


class FakeManagement(Simulated, ManagementInterface):
    def get_supported_boot_devices(self, task: Task) -> list[str]:
        return list(SUPPORTED)

    @can_fail
    def get_boot_device(self, task: Task) -> BootDevice:
        machine = self.machines.get(task.node.uuid)
        if machine.boot_once is None and machine.boot_device is not None:
            return BootDevice(machine.boot_device, True)
        return BootDevice(machine.boot_once or DEFAULT_BOOT_DEVICE, False)

    @can_fail
    def set_boot_device(self, task: Task, device: str, persistent: bool = False) -> None:
        if device not in SUPPORTED:
            raise errors.InvalidValue(
                f"Boot device {device[:80]!r} is not supported. Use one of: {', '.join(SUPPORTED)}."
            )
        self.machines.set_boot_device(task.node.uuid, device, persistent, generation=task.generation)

    @can_fail
    def inject_nmi(self, task: Task) -> None:
        self.machines.inject_nmi(task.node.uuid, generation=task.generation)

    def get_supported_indicators(self, task: Task) -> dict[str, dict[str, Indicator]]:
        return INDICATORS

    @can_fail
    def get_indicator_state(self, task: Task, component: str, indicator: str) -> str | None:
        return self.machines.get(task.node.uuid).indicators.get(f"{indicator}@{component}", "off")

    @can_fail
    def set_indicator_state(self, task: Task, component: str, indicator: str, state: str) -> None:
        self.machines.set_indicator(task.node.uuid, f"{indicator}@{component}", state, generation=task.generation)

    @can_fail
    def get_mac_addresses(self, task: Task) -> list[str]:
        """Those of the node's ports: the machine is taken to be wired as recorded. Otherwise its own."""
        return [port.address for port in task.ports] or factory_macs(task.node.uuid)


def factory_macs(node: str) -> list[str]:
    """The addresses a machine was born with: the same whenever asked, locally administered, unicast."""
    digest = hashlib.sha256(node.encode()).hexdigest()
    cards = (digest[10 * n : 10 * n + 10] for n in range(NICS))
    return ["02:" + ":".join(card[i : i + 2] for i in range(0, 10, 2)) for card in cards]
