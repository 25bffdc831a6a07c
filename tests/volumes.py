"""Volumes for tests: a simulated Cinder, and nodes that boot from volumes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.sim import cinder
from tests.application import Application, running
from tests.enrolment import Send, enrol

INITIATOR = "iqn.2026-01.org.example:{}"
SECRET = "c4nary-chap-secret"
PROPERTIES = {
    "target_iqn": "iqn.2010-10.org.example:vol-1",
    "target_portal": "192.0.2.7:3260",
    "target_lun": 1,
    "auth_method": "CHAP",
    "auth_username": "c4nary-chap-user",
    "auth_password": SECRET,
}


@pytest.fixture
def cinder_sim(tmp_path: Path) -> Iterator[cinder.Simulator]:
    with cinder.serving(tmp_path / "cinder.sqlite") as simulator:
        yield simulator


@pytest.fixture
def cinder_api(tmp_path: Path, cinder_sim: cinder.Simulator) -> Iterator[Application]:
    """An application whose nodes may use the simulated Cinder."""
    settings: dict[str, Any] = {"cinder__endpoint_override": cinder_sim.url, "cinder__timeout": 1}
    with running(tmp_path / "state", flows__step_attempts=2, **settings) as application:
        yield application


def bootable(send: Send, storage: str, *, number: int = 1, **fields: Any) -> str:
    """A node in `available` that can boot from iSCSI volumes."""
    (node,) = enrol(
        send,
        1,
        state="available",
        storage_interface=storage,
        **{"boot_interface": "ipxe", "properties": {"capabilities": "iscsi_boot:true"}, **fields},
    )
    send("POST", "/v1/ports", {"node_uuid": node, "address": mac(number)})
    connector = {"node_uuid": node, "type": "iqn", "connector_id": INITIATOR.format(f"node-{number}")}
    send("POST", "/v1/volume/connectors", connector)
    return node


def mac(number: int) -> str:
    return f"52:54:00:00:00:{number:02x}"


def give(send: Send, node: str, volume: str, boot_index: int = 0, **properties: Any) -> str:
    """A volume target; its UUID."""
    body = {"node_uuid": node, "volume_type": "iscsi", "volume_id": volume, "boot_index": boot_index}
    return str(send("POST", "/v1/volume/targets", {**body, "properties": properties})["uuid"])


def ask(send: Send, node: str, target: str) -> None:
    send("PUT", f"/v1/nodes/{node}/states/provision", {"target": target})


def power(send: Send, node: str, target: str) -> None:
    send("PUT", f"/v1/nodes/{node}/states/power", {"target": target})
