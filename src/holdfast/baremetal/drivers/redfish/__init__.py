"""Machines with a Redfish service, driven through sushy.

This module is only the table: the interfaces, and sushy with them, are loaded when a node uses them.
"""

from __future__ import annotations

from holdfast.baremetal.drivers.base import HardwareType


class RedfishHardware(HardwareType):
    interfaces = {
        "bios": ("redfish", "no-bios"),
        "boot": ("noop", "ipxe"),
        "console": ("no-console",),
        "deploy": ("noop", "direct", "ramdisk"),
        "inspect": ("redfish", "no-inspect", "agent"),
        "management": ("redfish", "noop"),
        "network": ("noop", "flat", "neutron"),
        "power": ("redfish",),
        "raid": ("no-raid",),
        "rescue": ("no-rescue", "agent"),
        "storage": ("noop", "external", "cinder"),
        "vendor": ("no-vendor",),
    }
