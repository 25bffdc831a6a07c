"""What an inspection ramdisk reports of a machine, read with suspicion: anybody could have sent it."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Any

from holdfast import errors
from holdfast.baremetal.drivers.base import Inspection
from holdfast.web import kinds

GIB = 1024**3
# Operating systems call the same processor by several names.
ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64", "i686": "i386"}
_IQN = re.compile(r"iqn\.\d{4}-\d{2}\.[a-z0-9.:_-]{1,200}|eui\.[0-9A-Fa-f]{16}")
_WWN = re.compile(r"(0x)?[0-9A-Fa-f]{16}|([0-9A-Fa-f]{2}:){7}[0-9A-Fa-f]{2}")
_WORD = re.compile(r"[\w.-]{1,64}")


def mac_addresses(inventory: Mapping[str, Any]) -> list[str]:
    """Of every network card, in lower case."""
    found = []
    for interface in _items(inventory, "interfaces"):
        try:
            found.append(str(kinds.MAC.required().check("mac_address", interface.get("mac_address"))))
        except errors.InvalidValue:
            continue
    return list(dict.fromkeys(found))


def inspection(inventory: Mapping[str, Any], plugin_data: Mapping[str, Any]) -> Inspection:
    """What of it goes onto the node."""
    return Inspection(
        properties=dict(_properties(inventory, plugin_data)),
        mac_addresses=tuple(mac_addresses(inventory)),
        connectors=tuple(_connectors(inventory, plugin_data)),
        capabilities=dict(_capabilities(inventory, plugin_data)),
    )


def _properties(inventory: Mapping[str, Any], plugin_data: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    cpu, memory = _object(inventory, "cpu"), _object(inventory, "memory")
    if (count := _number(cpu.get("count"))) is not None:
        yield "cpus", count
    architecture = cpu.get("architecture")
    if isinstance(architecture, str) and _WORD.fullmatch(architecture):
        yield "cpu_arch", ARCHITECTURES.get(architecture, architecture)
    if (mebibytes := _number(memory.get("physical_mb"))) is not None:
        yield "memory_mb", mebibytes
    size = _number(_object(plugin_data, "root_disk").get("size"))
    if size is not None and size // GIB > 1:
        yield "local_gb", size // GIB - 1  # as everybody does: room for a config drive
    vendor = _object(inventory, "system_vendor").get("manufacturer")
    if isinstance(vendor, str) and vendor.strip():
        yield "vendor", vendor.strip()[:255]


def _connectors(inventory: Mapping[str, Any], plugin_data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The initiator with the addresses it is reached at, and every port of a fibre channel adapter as sysfs
    (`fc_host/host*/node_name` and `port_name`) tells it."""
    if (initiator := _initiator(inventory, plugin_data)) is not None:
        yield "iqn", initiator
        for address in mac_addresses(inventory):
            yield "mac", address
        for interface in _items(inventory, "interfaces"):
            try:
                yield "ip", str(ipaddress.ip_address(str(interface.get("ipv4_address"))))
            except ValueError:
                continue
    for adapter in _adapters(inventory, plugin_data):
        for kind, key in (("wwnn", "node_name"), ("wwpn", "port_name")):
            yield kind, str(adapter[key])


def _initiator(inventory: Mapping[str, Any], plugin_data: Mapping[str, Any]) -> str | None:
    for holder in (inventory, plugin_data):
        name = holder.get("iscsi_initiator") or holder.get("initiator_name")
        if isinstance(name, str) and _IQN.fullmatch(name):
            return name
    return None


def _adapters(inventory: Mapping[str, Any], plugin_data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [
        adapter
        for holder in (inventory, plugin_data)
        for adapter in _items(holder, "fibre_channel")
        if all(isinstance(adapter.get(key), str) and _WWN.fullmatch(adapter[key]) for key in ("node_name", "port_name"))
    ]


def _capabilities(inventory: Mapping[str, Any], plugin_data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if _initiator(inventory, plugin_data) is not None:
        yield "iscsi_boot", "true"
    if _adapters(inventory, plugin_data):
        yield "fibre_channel_boot", "true"
    boot, cpu = _object(inventory, "boot"), _object(inventory, "cpu")
    if boot.get("current_boot_mode") in ("uefi", "bios"):
        yield "boot_mode", boot["current_boot_mode"]
    flags = cpu.get("flags")
    if isinstance(flags, list):
        for flag, capability in (("vmx", "cpu_vt"), ("svm", "cpu_vt"), ("aes", "cpu_aes"), ("hypervisor", "virtual")):
            if flag in flags:
                yield capability, "true"


def _object(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = document.get(key)
    return value if isinstance(value, dict) else {}


def _items(document: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    value = document.get(key)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**53 else None
