"""The implementations that do nothing, for kinds a machine has no use for.

The `noop` ones succeed without touching hardware; the `no-…` ones refuse whatever is asked of them.
Nearly all of it is the base classes' own behaviour: see `base.py` for what that is.
"""

from __future__ import annotations

from holdfast import errors
from holdfast.baremetal.drivers.base import (
    BiosInterface,
    BootDevice,
    BootInterface,
    ConsoleInterface,
    DeployInterface,
    InspectInterface,
    Interface,
    ManagementInterface,
    NetworkInterface,
    Outcome,
    RaidInterface,
    RescueInterface,
    StorageInterface,
    VendorInterface,
    deploy_step,
)
from holdfast.baremetal.task import Task


class NoopBoot(BootInterface):
    """The machine boots whatever its firmware finds."""


class NoopDeploy(DeployInterface):
    """Somebody else puts the instance on the machine; Holdfast only keeps the record."""

    @deploy_step(100, requires_ramdisk=False)
    def deploy(self, task: Task) -> Outcome:
        return Outcome.DONE


class NoopManagement(ManagementInterface):
    """The machine's firmware has the right boot order already: asking for it is granted, nothing is sent."""

    def get_supported_boot_devices(self, task: Task) -> list[str]:
        return ["pxe", "disk"]

    def get_boot_device(self, task: Task) -> BootDevice:
        return BootDevice(None, None)

    def set_boot_device(self, task: Task, device: str, persistent: bool = False) -> None:
        if device not in self.get_supported_boot_devices(task):
            raise errors.InvalidValue(f"Boot device {device!r} is not supported. Use pxe or disk.")


class NoopNetwork(NetworkInterface):
    """Networks are wired by hand; which VIF sits on which port is remembered."""


class NoopStorage(StorageInterface):
    """No remote volumes."""


class _Refused(Interface):
    """Validation says it, too: what is asked for is refused before anything starts."""

    def validate(self, task: Task) -> None:
        raise errors.UnsupportedByDriver(f"Node {task.node.label} has no {self.kind} interface that could do this.")


class NoBios(_Refused, BiosInterface):
    """BIOS settings are out of reach."""


class NoConsole(_Refused, ConsoleInterface):
    """No console."""


class NoInspect(_Refused, InspectInterface):
    """Nobody can look inside; an operator fills in the properties."""


class NoRaid(_Refused, RaidInterface):
    """Disks are what they are."""


class NoRescue(_Refused, RescueInterface):
    """No rescue ramdisk."""


class NoVendor(_Refused, VendorInterface):
    """No vendor methods."""
