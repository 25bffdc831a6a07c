"""A fleet as a data centre would have it: racks, a few models of servers, names that say where they stand.

Everything follows from the prefix and the number of servers, UUIDs and MAC addresses included: asked
again, the same fleet comes out, and a larger one contains the smaller.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

SERVERS_IN_RACK = 20

_NAMESPACE = uuid.UUID("3b0f4e0e-8f0f-4c57-9d0c-6f7f0c6c0a51")


class Model(NamedTuple):
    """A server one can buy."""

    name: str
    vendor: str
    resource_class: str
    cpus: int
    memory_mb: int
    local_gb: int
    traits: tuple[str, ...]
    bonded: bool = False  # both ports in one port group


COMPUTE = Model(
    "C620", "Acme", "baremetal.compute", 64, 262144, 960, ("HW_CPU_X86_AVX2", "HW_CPU_X86_VMX", "CUSTOM_NVME")
)
STORAGE = Model("S424", "Acme", "baremetal.storage", 32, 131072, 48000, ("HW_CPU_X86_AVX2", "CUSTOM_JBOD"), bonded=True)
GPU = Model(
    "G808",
    "Umbra",
    "baremetal.gpu",
    96,
    1048576,
    7680,
    ("HW_CPU_X86_AVX512F", "CUSTOM_GPU_A", "CUSTOM_NVME"),
    bonded=True,
)

# What stands in a rack, from the bottom up.
RACK = (STORAGE,) * 4 + (COMPUTE,) * 14 + (GPU,) * 2

# driver: what its nodes need to be reached, from the address of the BMC
DRIVER_INFO: dict[str, Callable[[str], dict[str, Any]]] = {
    "redfish": lambda address: {
        "redfish_address": f"https://{address}",
        "redfish_system_id": "/redfish/v1/Systems/1",
        "redfish_username": "admin",
        "redfish_password": "demo",
        "redfish_verify_ca": False,
    },
    "ipmi": lambda address: {"ipmi_address": address, "ipmi_username": "admin", "ipmi_password": "demo"},
}


@dataclass(frozen=True)
class Server:
    """One server, as the bodies of the requests that enrol it."""

    rack: int
    node: dict[str, Any]
    ports: list[dict[str, Any]]
    portgroup: dict[str, Any] | None
    traits: list[str]


def plan(count: int, prefix: str = "rack", driver: str = "fake-hardware") -> list[Server]:
    """The first `count` servers of the fleet."""
    return [_server(number, prefix, driver) for number in range(count)]


def chassis(server: Server, prefix: str = "rack") -> dict[str, Any]:
    """The rack a server stands in."""
    name = f"{prefix}{server.rack:02d}"
    return {"uuid": _uuid(name), "description": f"Rack {name}", "extra": {"rack": name}}


def _server(number: int, prefix: str, driver: str) -> Server:
    rack, place = divmod(number, SERVERS_IN_RACK)
    rack += 1
    unit = 2 * place + 1
    model = RACK[place]
    name = f"{prefix}{rack:02d}-u{unit:02d}"
    address = f"10.{100 + rack // 250}.{rack % 250}.{unit}"
    node = {
        "uuid": _uuid(name),
        "name": name,
        "driver": driver,
        "driver_info": DRIVER_INFO[driver](address) if driver in DRIVER_INFO else {},
        "resource_class": model.resource_class,
        "properties": {
            "vendor": model.vendor,
            "model": model.name,
            "cpu_arch": "x86_64",
            "cpus": model.cpus,
            "memory_mb": model.memory_mb,
            "local_gb": model.local_gb,
            "capabilities": "boot_mode:uefi,secure_boot:false,iscsi_boot:true",
        },
        "extra": {"rack": f"{prefix}{rack:02d}", "unit": unit, "serial": _digest(name)[:10].upper()},
        "chassis_uuid": _uuid(f"{prefix}{rack:02d}"),
    }
    portgroup = None
    if model.bonded:
        portgroup = {
            "uuid": _uuid(f"{name} bond0"),
            "name": f"{name}-bond0",
            "node_uuid": node["uuid"],
            "address": _mac(f"{name} bond0"),
            "mode": "802.3ad",
            "properties": {"miimon": 100},
        }
    ports = [
        {
            "uuid": _uuid(f"{name} nic{nic}"),
            "node_uuid": node["uuid"],
            "address": _mac(f"{name} nic{nic}"),
            "pxe_enabled": nic == 0,
            "physical_network": "physnet1",
            "local_link_connection": {
                "switch_id": _mac(f"{prefix}{rack:02d} switch{nic}"),
                "port_id": f"Ethernet1/{place + 1}",
                "switch_info": f"{prefix}{rack:02d}-leaf{nic + 1}",
            },
            **({"portgroup_uuid": portgroup["uuid"]} if portgroup else {}),
        }
        for nic in range(2)
    ]
    return Server(rack, node, ports, portgroup, sorted(model.traits))


def _uuid(what: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, what))


def _mac(what: str) -> str:
    """Locally administered, so that it is nobody's."""
    digest = _digest(what)
    return "02:" + ":".join(digest[i : i + 2] for i in range(0, 10, 2))


def _digest(what: str) -> str:
    return hashlib.sha256(what.encode()).hexdigest()
