"""The data that both services are given: a fleet of nodes as an operator would enrol them.

Everything follows from a node's number, so two services enrolled in turn hold the same rows in
the same order, and two runs hold the same fleet.
"""

from __future__ import annotations

import json
import uuid

from bench.load import Request

NAMESPACE = uuid.UUID("6f1c1f3e-4a3f-5d57-9f0a-0c4b2f1d7e55")

TRAITS = ("HW_CPU_X86_AVX2", "HW_CPU_X86_VMX", "HW_CPU_X86_AESNI", "CUSTOM_RAID_CONTROLLER", "CUSTOM_GOLD")


def node_uuid(number: int) -> str:
    return str(uuid.uuid5(NAMESPACE, f"node-{number}"))


def mac(block: int, number: int) -> str:
    """A locally administered address; `block` keeps two kinds of interface apart."""
    return ":".join(f"{byte:02x}" for byte in (0x02, block, *number.to_bytes(4, "big")))


def node_body(node: str, name: str, number: int) -> dict[str, object]:
    """POST /v1/nodes: a two-socket server behind Redfish, with a password to mask."""
    rack, unit = divmod(number, 40)
    return {
        "uuid": node,
        "name": name,
        "driver": "fake-hardware",
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
            "redfish_address": f"https://bmc-{number}.example.com",
            "redfish_system_id": "/redfish/v1/Systems/1",
            "redfish_username": "provisioner",
            "redfish_password": f"not-a-secret-{number}",
            "redfish_verify_ca": "/etc/ssl/certs/bmc-ca.pem",
            "deploy_kernel": "https://images.example.com/agent/kernel",
            "deploy_ramdisk": "https://images.example.com/agent/ramdisk",
        },
        "extra": {
            "site": "fra1",
            "rack": f"r{rack:03}",
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


def enrolment(number: int, minor: int) -> list[Request]:
    """Every request that enrols one node at API version 1.`minor`, in order."""
    node = node_uuid(number)
    requests = [_request("POST", "/v1/nodes", node_body(node, f"server-{number:05}", number))]
    for nic in range(2):
        port = str(uuid.uuid5(NAMESPACE, f"port-{number}-{nic}"))
        requests.append(_request("POST", "/v1/ports", port_body(port, node, mac(nic, number))))
    if minor >= 37:
        requests.append(_request("PUT", f"/v1/nodes/{node}/traits", {"traits": TRAITS}))
    if minor >= 32:
        requests.append(_request("POST", "/v1/volume/connectors", _connector_body(node, number)))
        requests.append(_request("POST", "/v1/volume/targets", _target_body(node, number)))
    return requests


def _request(method: str, path: str, body: object) -> Request:
    return Request(method, path, json.dumps(body))


def _connector_body(node: str, number: int) -> dict[str, object]:
    return {
        "node_uuid": node,
        "type": "iqn",
        "connector_id": f"iqn.2025-03.com.example:server-{number:05}",
    }


def _target_body(node: str, number: int) -> dict[str, object]:
    return {
        "node_uuid": node,
        "volume_type": "iscsi",
        "boot_index": 0,
        "volume_id": str(uuid.uuid5(NAMESPACE, f"volume-{number}")),
        "properties": {
            "target_iqn": f"iqn.2025-03.com.example:volume-{number:05}",
            "target_portal": "192.0.2.10:3260",
            "target_lun": 1,
            "auth_method": "CHAP",
            "auth_username": f"server-{number:05}",
            "auth_password": f"not-a-secret-{number}",
        },
    }
