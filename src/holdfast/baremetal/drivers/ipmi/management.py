"""Boot device and NMI over IPMI."""

from __future__ import annotations

import re

from oslo_config import cfg

from holdfast import errors
from holdfast.baremetal.drivers import driver_info
from holdfast.baremetal.drivers.base import BootDevice, ManagementInterface
from holdfast.baremetal.drivers.ipmi.access import BOOT_PROPERTIES, PROPERTIES, read_access
from holdfast.baremetal.drivers.ipmi.tool import run
from holdfast.baremetal.task import Node, Task

# our word, which is ipmitool's too: the selector in boot parameter 5 (IPMI 2.0, table 28-14)
SELECTORS = {"pxe": 0b0001, "disk": 0b0010, "safe": 0b0011, "cdrom": 0b0101, "bios": 0b0110, "floppy": 0b1111}
DEVICES = {selector: device for device, selector in SELECTORS.items()}

# "Do not clear the boot flags after 60 seconds": boot parameter 3, bit 3. A BMC that forgets the boot
# device while its machine is still in memory training boots the wrong thing.
KEEP_BOOT_FLAGS = ("raw", "0x00", "0x08", "0x03", "0x08")

# driver_internal_info: the device to set again at every power on, and whether the next start is another's
REMEMBERED = "persistent_boot_device"
NEXT_IS_PERSISTENT = "is_next_boot_persistent"

_FLAGS = re.compile(r"Boot parameter data: ([0-9a-fA-F]{4})")


class IpmitoolManagement(ManagementInterface):
    properties = {**PROPERTIES, **BOOT_PROPERTIES}

    def validate(self, task: Task) -> None:
        read_access(task.node.driver_info)
        _boot_options(task.node)

    def get_supported_boot_devices(self, task: Task) -> list[str]:
        return list(SELECTORS)

    def get_boot_device(self, task: Task) -> BootDevice:
        remembered = task.node.driver_internal_info.get(REMEMBERED)
        forced, _keep = _boot_options(task.node)
        if forced and remembered and task.node.driver_internal_info.get(NEXT_IS_PERSISTENT, True):
            return BootDevice(str(remembered), True)
        told = run(self.conf, read_access(task.node.driver_info), "chassis", "bootparam", "get", "5")
        flags = _FLAGS.search(told)
        if flags is None:
            return BootDevice(None, None)
        apply, selected = bytes.fromhex(flags[1])
        # The "valid" bit is not asked for: some BMCs never set it.
        device = DEVICES.get(selected >> 2 & 0b1111)
        return BootDevice(device, bool(apply & 0x40) if device else None)

    def set_boot_device(self, task: Task, device: str, persistent: bool = False) -> None:
        if device not in SELECTORS:
            raise errors.InvalidValue(
                f"Node {task.node.label} cannot boot from {device!r}. Use one of: {', '.join(SELECTORS)}."
            )
        _set(self.conf, task.node, device, persistent)
        forced, _keep = _boot_options(task.node)
        if forced:
            internal = {**task.node.driver_internal_info, NEXT_IS_PERSISTENT: persistent}
            if persistent:
                internal[REMEMBERED] = device
            task.node.driver_internal_info = internal

    def inject_nmi(self, task: Task) -> None:
        run(self.conf, read_access(task.node.driver_info), "chassis", "power", "diag", repeatable=False)


def restore_boot_device(conf: cfg.ConfigOpts, task: Task) -> None:
    """Before a power on: sets the persistent boot device again, for BMCs that forget it.

    A start for which another device was set, once, is left to that one.
    """
    forced, _keep = _boot_options(task.node)
    internal = task.node.driver_internal_info
    if forced and REMEMBERED in internal and internal.get(NEXT_IS_PERSISTENT, True):
        _set(conf, task.node, str(internal[REMEMBERED]), persistent=True)


def forget_next_boot(task: Task) -> None:
    """After a power on: a device that was set for one start has had it."""
    internal = task.node.driver_internal_info
    if internal.get(NEXT_IS_PERSISTENT) is False:
        task.node.driver_internal_info = {**internal, NEXT_IS_PERSISTENT: True}


def _set(conf: cfg.ConfigOpts, node: Node, device: str, persistent: bool) -> None:
    access = read_access(node.driver_info)
    _forced, keep = _boot_options(node)
    if keep:
        try:
            run(conf, access, *KEEP_BOOT_FLAGS)
        except errors.UnsupportedByDriver:
            pass  # A BMC without the timer needs none stopped.
    options = ["persistent"] if persistent else []
    # ipmitool means legacy boot unless told otherwise; a UEFI machine would ignore the device.
    if node.capabilities().get("boot_mode") == "uefi":
        options.append("efiboot")
    run(conf, access, "chassis", "bootdev", device, *([f"options={','.join(options)}"] if options else []))


def _boot_options(node: Node) -> tuple[bool, bool]:
    """Whether to set the boot device at every power on, and whether to stop the BMC's timer."""
    return (
        driver_info.boolean(node.driver_info, "ipmi_force_boot_device", False),
        driver_info.boolean(node.driver_info, "ipmi_disable_boot_timeout", True),
    )
