"""`fake-hardware`: everything a machine can do, done by simulated machines (see `sim/machines.py`).

For trying the service out, for tests, and for rehearsing failures. Two switches in a node's
`driver_info` make its machine behave like a difficult one; see `rehearsal.py`.
"""

from __future__ import annotations

from holdfast.baremetal.drivers.base import HardwareType


class FakeHardware(HardwareType):
    interfaces = {
        "bios": ("fake", "no-bios"),
        "boot": ("fake", "noop", "ipxe"),
        "console": ("fake", "no-console"),
        "deploy": ("fake", "noop", "direct", "ramdisk"),
        "inspect": ("fake", "no-inspect", "agent"),
        "management": ("fake", "noop"),
        "network": ("noop", "flat", "neutron"),
        "power": ("fake",),
        "raid": ("fake", "no-raid"),
        "rescue": ("fake", "no-rescue", "agent"),
        "storage": ("noop", "fake", "external", "cinder"),
        "vendor": ("fake", "no-vendor"),
    }
