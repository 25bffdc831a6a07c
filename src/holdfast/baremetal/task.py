"""What a driver gets to see: one node with everything that belongs to it, decoded.

Drivers never touch the database. They read the task, act on the hardware, and may change
`node.driver_internal_info` and `node.properties` (and a port's `internal_info`, a target's
`properties`); the flow step that called them stores what changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

Json = dict[str, Any]


class Node(msgspec.Struct, kw_only=True):
    """A node's row, its JSON columns decoded."""

    id: int
    uuid: str
    name: str | None = None
    driver: str = ""
    driver_info: Json = {}
    driver_internal_info: Json = {}
    properties: Json = {}
    instance_info: Json = {}
    extra: Json = {}
    instance_uuid: str | None = None
    resource_class: str | None = None
    network_data: Json = {}
    automated_clean: bool | None = None
    retired: bool = False
    power_state: str | None = None
    target_power_state: str | None = None
    provision_state: str = ""
    target_provision_state: str | None = None
    maintenance: bool = False
    console_enabled: bool = False
    raid_config: Json = {}
    target_raid_config: Json = {}
    clean_step: Json = {}
    deploy_step: Json = {}
    interfaces: dict[str, str] = {}  # {"power": "redfish", …}

    @property
    def label(self) -> str:
        """How messages name the node."""
        return f"{self.name} ({self.uuid})" if self.name else self.uuid

    def capabilities(self) -> dict[str, str]:
        """`properties.capabilities` ("k:v,k:v"), parsed."""
        text = str(self.properties.get("capabilities") or "")
        return dict(part.split(":", 1) for part in text.split(",") if ":" in part)


class Port(msgspec.Struct, kw_only=True):
    id: int
    uuid: str
    address: str
    portgroup_id: int | None = None
    pxe_enabled: bool = True
    physical_network: str | None = None
    is_smartnic: bool = False
    local_link_connection: Json = {}
    extra: Json = {}
    internal_info: Json = {}


class Portgroup(msgspec.Struct, kw_only=True):
    id: int
    uuid: str
    name: str | None = None
    address: str | None = None
    mode: str = "active-backup"
    standalone_ports_supported: bool = True
    properties: Json = {}
    extra: Json = {}
    internal_info: Json = {}


class Connector(msgspec.Struct, kw_only=True):
    uuid: str
    type: str
    connector_id: str


class Target(msgspec.Struct, kw_only=True):
    uuid: str
    volume_type: str
    volume_id: str
    boot_index: int
    properties: Json = {}


@dataclass
class Task:
    """One piece of work on one node. `generation` fences: hardware that can refuse a lower one does."""

    node: Node
    ports: list[Port] = field(default_factory=list)
    portgroups: list[Portgroup] = field(default_factory=list)
    connectors: list[Connector] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    traits: list[str] = field(default_factory=list)
    # Of the deploy templates that the instance's traits activate
    template_steps: list[Json] = field(default_factory=list)
    generation: int = 0
    # Stores what was changed so far. For a driver that is about to switch a machine on: it may ask at once.
    save: Callable[[], None] = field(default=lambda: None, repr=False, compare=False)
