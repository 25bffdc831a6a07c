"""The data that both services are given: a fleet of nodes as an operator would enrol them.

Everything follows from a node's number, so two services enrolled in turn hold the same rows in
the same order, and two runs hold the same fleet. Whatever differs between two nodes is a string that
`texts` lists: nodes that are not enrolled one by one are copies of others with these replaced
(see `multiply.py`).
"""

from __future__ import annotations

import json
import uuid

from bench.load import Request

NAMESPACE = uuid.UUID("6f1c1f3e-4a3f-5d57-9f0a-0c4b2f1d7e55")

# Nodes of one rack: they differ in what follows from the number of a rack and from their place in it.
RACK = 40
COMMON_TRAITS = ("HW_CPU_X86_AVX2", "HW_CPU_X86_VMX")
# One node in a hundred has graphics.
GRAPHICS, NO_GRAPHICS, GRAPHICS_STEP = "CUSTOM_GPU_A100", "CUSTOM_GPU_NONE", 100


def node_uuid(number: int) -> str:
    return str(uuid.uuid5(NAMESPACE, f"node-{number}"))


def name(number: int) -> str:
    return f"server-{number:06}"


def mac(block: int, number: int) -> str:
    """A locally administered address; `block` keeps two kinds of interface apart."""
    return ":".join(f"{byte:02x}" for byte in (0x02, block, *number.to_bytes(4, "big")))


def wwpn(number: int) -> str:
    return f"500143{number:010x}"


def token(number: int) -> str:
    """An agent token as long as those that the services give."""
    return f"{uuid.uuid5(NAMESPACE, f'token-{number}').hex}00000000000"


def traits(number: int) -> tuple[str, ...]:
    """Two that all nodes have, one of every second, one of a hundredth, and one of a rack."""
    return (
        *COMMON_TRAITS,
        "CUSTOM_SILVER" if number % 2 else "CUSTOM_GOLD",
        NO_GRAPHICS if number % GRAPHICS_STEP else GRAPHICS,
        f"CUSTOM_RACK_{number // RACK:04}",
    )


def texts(number: int) -> tuple[str, ...]:
    """Every string in the rows of a node that depends on its number, in a fixed order."""
    return (
        node_uuid(number),
        *(_uuid(kind, number) for kind in ("port-0", "port-1", "connector-0", "connector-1", "target", "volume")),
        name(number),
        mac(0, number),
        mac(1, number),
        wwpn(number),
        *traits(number)[len(COMMON_TRAITS) :],
        f"0x5002538e{number:08x}",
        f"bmc-{number:06}",
        f"not-a-secret-{number:06}",
        f"AT-{number:08}",
        f"rack-{number // RACK:04}",
        f"volume-{number:06}",
    )


def node_body(node: str, label: str, number: int) -> dict[str, object]:
    """POST /v1/nodes: a two-socket server behind Redfish, with a password to mask."""
    rack, unit = divmod(number, RACK)
    return {
        "uuid": node,
        "name": label,
        "driver": "fake-hardware",
        "deploy_interface": "direct",
        "resource_class": "baremetal.large",
        "properties": {
            "cpu_arch": "x86_64",
            "cpus": 64,
            "memory_mb": 262144,
            "local_gb": 1788,
            "vendor": "Contoso",
            "capabilities": "boot_mode:uefi,secure_boot:true,cpu_vt:true,cpu_aes:true,disk_label:gpt",
            "root_device": {"wwn": f"0x5002538e{number:08x}"},
        },
        "driver_info": {
            "redfish_address": f"https://bmc-{number:06}.example.com",
            "redfish_system_id": "/redfish/v1/Systems/1",
            "redfish_username": "provisioner",
            "redfish_password": f"not-a-secret-{number:06}",
            "redfish_verify_ca": "/etc/ssl/certs/bmc-ca.pem",
            "deploy_kernel": "https://images.example.com/agent/kernel",
            "deploy_ramdisk": "https://images.example.com/agent/ramdisk",
        },
        "extra": {
            "site": "fra1",
            "rack": f"rack-{rack:04}",
            "unit": unit + 1,
            "asset_tag": f"AT-{number:08}",
            "purchased": "2025-03-14",
            "contact": "dc-operations@example.com",
        },
    }


def port_body(port: str, node: str, address: str) -> dict[str, object]:
    """POST /v1/ports: an interface cabled to a switch."""
    return {
        "uuid": port,
        "node_uuid": node,
        "address": address,
        "pxe_enabled": True,
        "local_link_connection": {
            "switch_id": "0a:1b:2c:3d:4e:5f",
            "port_id": "Ethernet1/7",
            "switch_info": "leaf-12",
        },
        "extra": {"slot": "LOM"},
    }


def enrolment(number: int) -> list[Request]:
    """Every request that enrols one node, in order: 5 traits, 2 ports, 2 connectors, a target."""
    node = node_uuid(number)
    connectors = (("iqn", f"iqn.2025-03.com.example:{name(number)}"), ("wwpn", wwpn(number)))
    return [
        _request("POST", "/v1/nodes", node_body(node, name(number), number)),
        *(
            _request("POST", "/v1/ports", port_body(_uuid(f"port-{nic}", number), node, mac(nic, number)))
            for nic in range(2)
        ),
        _request("PUT", f"/v1/nodes/{node}/traits", {"traits": traits(number)}),
        *(
            _request(
                "POST",
                "/v1/volume/connectors",
                {"uuid": _uuid(f"connector-{index}", number), "node_uuid": node, "type": kind, "connector_id": ident},
            )
            for index, (kind, ident) in enumerate(connectors)
        ),
        _request("POST", "/v1/volume/targets", _target_body(node, number)),
    ]


def callback_url(number: int) -> str:
    """Where the ramdisk of a node says it can be reached."""
    return f"https://10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}:9999"


def _uuid(kind: str, number: int) -> str:
    return str(uuid.uuid5(NAMESPACE, f"{kind}-{number}"))


def _request(method: str, path: str, body: object) -> Request:
    return Request(method, path, json.dumps(body))


def _target_body(node: str, number: int) -> dict[str, object]:
    return {
        "uuid": _uuid("target", number),
        "node_uuid": node,
        "volume_type": "iscsi",
        "boot_index": 0,
        "volume_id": _uuid("volume", number),
        "properties": {
            "target_iqn": f"iqn.2025-03.com.example:volume-{number:06}",
            "target_portal": "192.0.2.10:3260",
            "target_lun": 1,
            "auth_method": "CHAP",
            "auth_username": name(number),
            "auth_password": f"not-a-secret-{number:06}",
        },
    }
