"""Machines with an IPMI BMC, driven through ipmitool. This module is only the table."""

from __future__ import annotations

from holdfast.baremetal.drivers.base import HardwareType


class IpmiHardware(HardwareType):
    interfaces = {
        "bios": ("no-bios",),
        "boot": ("noop", "ipxe"),
        "console": ("no-console",),
        "deploy": ("noop", "direct", "ramdisk"),
        "inspect": ("no-inspect", "agent"),
        "management": ("ipmitool", "noop"),
        "network": ("noop", "flat", "neutron"),
        "power": ("ipmitool",),
        "raid": ("no-raid",),
        "rescue": ("no-rescue", "agent"),
        "storage": ("noop", "external", "cinder"),
        "vendor": ("no-vendor",),
    }
