"""Boot device, NMI and MAC addresses over Redfish."""

from __future__ import annotations

import re
from typing import Any

from sushy import BootSource, BootSourceOverrideEnabled, IndicatorLED, ResetType, State

from holdfast import errors
from holdfast.baremetal.drivers.base import BootDevice, Indicator, ManagementInterface
from holdfast.baremetal.drivers.redfish.access import PROPERTIES, read_access
from holdfast.baremetal.drivers.redfish.connection import call, if_there
from holdfast.baremetal.task import Task

# our word: Redfish's
BOOT_SOURCES = {
    "pxe": BootSource.PXE,
    "disk": BootSource.HDD,
    "cdrom": BootSource.CD,
    "bios": BootSource.BIOS_SETUP,
    "floppy": BootSource.FLOPPY,
    "iscsiboot": BootSource.REMOTE_DRIVE,
    "uefihttp": BootSource.UEFI_HTTP,
}
# Redfish's word: ours
LAMP_STATES = {IndicatorLED.LIT: "on", IndicatorLED.OFF: "off", IndicatorLED.BLINKING: "blinking"}
# Supermicro offers the virtual CD under a name of its own; sushy writes it, so it has to be read too.
BOOT_DEVICES = {source: device for device, source in BOOT_SOURCES.items()} | {BootSource.USB_CD: "cdrom"}

_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")


class RedfishManagement(ManagementInterface):
    properties = PROPERTIES

    def validate(self, task: Task) -> None:
        read_access(self.conf, task.node.driver_info)

    def get_supported_boot_devices(self, task: Task) -> list[str]:
        return call(self.conf, task.node, "tell which boot devices it has", _supported)

    def get_boot_device(self, task: Task) -> BootDevice:
        return call(self.conf, task.node, "tell its boot device", _current)

    def set_boot_device(self, task: Task, device: str, persistent: bool = False) -> None:
        wanted = BootDevice(device, persistent)

        def change(system: Any) -> None:
            supported = _supported(system)
            if device not in supported:
                raise errors.InvalidValue(
                    f"Node {task.node.label} cannot boot from {device!r}. Use one of: {', '.join(supported)}."
                )
            # Some BMCs refuse to be told what they know.
            if _current(system) == wanted:
                return
            system.set_system_boot_options(
                target=BOOT_SOURCES[device],
                enabled=BootSourceOverrideEnabled.CONTINUOUS if persistent else BootSourceOverrideEnabled.ONCE,
            )

        call(self.conf, task.node, f"boot from {device}", change)

    def inject_nmi(self, task: Task) -> None:
        def interrupt(system: Any) -> None:
            if ResetType.NMI not in system.get_allowed_reset_system_values():
                raise self._unsupported("injecting an NMI on this BMC")
            system.reset_system(ResetType.NMI)

        call(self.conf, task.node, "inject an NMI", interrupt, repeatable=False)

    def get_supported_indicators(self, task: Task) -> dict[str, dict[str, Indicator]]:
        """The lamp that tells the machine from its neighbours, where the BMC has one."""
        lamp = call(self.conf, task.node, "tell its indicators", lambda system: system.indicator_led)
        return {"system": {"led": Indicator()}} if lamp is not None else {}

    def get_indicator_state(self, task: Task, component: str, indicator: str) -> str | None:
        lamp = call(self.conf, task.node, "tell the state of its lamp", lambda system: system.indicator_led)
        return LAMP_STATES.get(lamp)

    def set_indicator_state(self, task: Task, component: str, indicator: str, state: str) -> None:
        wanted = next(lamp for lamp, word in LAMP_STATES.items() if word == state)
        call(self.conf, task.node, f"switch its lamp {state}", lambda system: system.set_indicator_led(wanted))

    def get_mac_addresses(self, task: Task) -> list[str]:
        found = call(
            self.conf,
            task.node,
            "list its network interfaces",
            lambda system: if_there(mac_addresses, system),
        )
        if found is None:
            raise self._unsupported("reading MAC addresses on this BMC")
        return found


def mac_addresses(system: Any, *, enabled_only: bool = False) -> list[str]:
    """MAC addresses of the system's NICs, in the BMC's order. Without a status a NIC counts as enabled."""
    found: dict[str, None] = {}
    for nic in system.ethernet_interfaces.get_members():
        address = str(nic.mac_address or nic.permanent_mac_address or "").lower().replace("-", ":")
        state = nic.status.state if nic.status else None
        if _MAC.fullmatch(address) and (not enabled_only or state in (None, State.ENABLED)):
            found[address] = None
    return list(found)


def _supported(system: Any) -> list[str]:
    offered = system.get_allowed_system_boot_source_values()
    return [device for device, source in BOOT_SOURCES.items() if source in offered]


def _current(system: Any) -> BootDevice:
    boot = system.boot
    if boot is None or boot.enabled in (None, BootSourceOverrideEnabled.DISABLED):
        return BootDevice(None, None)
    device = BOOT_DEVICES.get(boot.target)
    return BootDevice(device, boot.enabled == BootSourceOverrideEnabled.CONTINUOUS if device else None)
