"""Inspection out of band: what the BMC knows about its machine, without booting anything."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from sushy import BootSourceOverrideMode, ProcessorArchitecture
from sushy.exceptions import MalformedAttributeError, ServerSideError

from holdfast.baremetal.drivers.base import InspectInterface, Inspection
from holdfast.baremetal.drivers.redfish.access import PROPERTIES, read_access
from holdfast.baremetal.drivers.redfish.connection import call, if_there
from holdfast.baremetal.drivers.redfish.initiators import volume_connectors
from holdfast.baremetal.drivers.redfish.management import mac_addresses
from holdfast.baremetal.task import Node, Task

LOG = logging.getLogger(__name__)

GIB = 1024**3

ARCHITECTURES = {
    ProcessorArchitecture.X86: "x86_64",
    ProcessorArchitecture.ARM: "aarch64",
    ProcessorArchitecture.POWER: "ppc64le",
    ProcessorArchitecture.IA_64: "ia64",
    ProcessorArchitecture.MIPS: "mips",
}
BOOT_MODES = {BootSourceOverrideMode.UEFI: "uefi", BootSourceOverrideMode.LEGACY: "bios"}


# A card with such a name can boot from that kind of volume.
BOOT_FLAGS = {"iqn": "iscsi_boot", "wwpn": "fibre_channel_boot"}


class RedfishInspect(InspectInterface):
    properties = PROPERTIES

    def validate(self, task: Task) -> None:
        read_access(self.conf, task.node.driver_info)

    def inspect_hardware(self, task: Task) -> Inspection:
        return call(self.conf, task.node, "describe its machine", lambda system: _inspect(system, task.node))


def _inspect(system: Any, node: Node) -> Inspection:
    properties = {}
    for name, read in READERS.items():
        value = _told(read, system)
        if value:
            properties[name] = value
        else:
            LOG.info("Node %s: its BMC does not tell %s", node.uuid, name)
    mode = BOOT_MODES.get(system.boot.mode if system.boot else None)
    # An operator's own choice of boot mode stays.
    if mode and "boot_mode" not in node.capabilities():
        merged = {**node.capabilities(), "boot_mode": mode}
        properties["capabilities"] = ",".join(f"{key}:{value}" for key, value in merged.items())
    macs = _told(lambda system: mac_addresses(system, enabled_only=True), system)
    connectors = tuple(_told(volume_connectors, system) or ())
    found = {kind for kind, _name in connectors}
    capabilities = {flag: "true" for kind, flag in BOOT_FLAGS.items() if kind in found}
    return Inspection(properties, tuple(macs or ()), connectors, capabilities)


def _cpus(system: Any) -> int | None:
    """Logical processors: what an operating system will count."""
    summary = (system.json.get("ProcessorSummary") or {}).get("LogicalProcessorCount")
    return int(summary) if summary else _told(lambda system: system.processors.summary.count, system)


def _cpu_arch(system: Any) -> str | None:
    return ARCHITECTURES.get(system.processors.summary.architecture)


def _memory_mb(system: Any) -> int | None:
    # Read from the document: sushy cuts fractions of a GiB off.
    gib = (system.json.get("MemorySummary") or {}).get("TotalSystemMemoryGiB")
    return int(float(gib) * 1024) if gib else None


def _local_gb(system: Any) -> int | None:
    """Size of the largest disk an operating system would see: a RAID volume, or else a drive."""
    for sizes in (_volume_sizes, _drive_sizes, _simple_sizes):
        found = [size for size in _told(sizes, system) or () if size]
        if found:
            return int(max(found)) // GIB
    return None


def _volume_sizes(system: Any) -> list[int | None]:
    return [
        volume.capacity_bytes
        for storage in system.storage.get_members()
        for volume in _told(lambda storage: storage.volumes.get_members(), storage) or ()
    ]


def _drive_sizes(system: Any) -> list[int | None]:
    return [drive.capacity_bytes for storage in system.storage.get_members() for drive in storage.drives]


def _simple_sizes(system: Any) -> list[int | None]:
    return [disk.capacity_bytes for storage in system.simple_storage.get_members() for disk in storage.devices or ()]


def _told(read: Callable[[Any], Any], resource: Any) -> Any:
    """What `read` finds, None where the BMC lacks it or breaks down over it: one bad page of its many
    must not spoil the others. A refused login or silence ends the inspection."""
    try:
        return if_there(read, resource)
    except (ServerSideError, MalformedAttributeError) as error:
        LOG.warning("A BMC failed to describe a part of its machine: %s", type(error).__name__)
        return None


# property: how to read it
READERS: dict[str, Callable[[Any], Any]] = {
    "cpus": _cpus,
    "cpu_arch": _cpu_arch,
    "memory_mb": _memory_mb,
    "local_gb": _local_gb,
    "vendor": lambda system: system.manufacturer,
    "model": lambda system: system.model,
}
