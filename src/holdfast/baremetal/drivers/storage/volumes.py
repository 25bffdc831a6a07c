"""Which volume a node boots from, and whether it can: the rules that storage and boot interfaces share.

A node boots from a volume when it has a target with boot index 0 and no image to write. It says which
kinds of volumes it can boot from with capabilities in `properties.capabilities` (spec 000).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from holdfast import errors
from holdfast.baremetal.task import Connector, Node, Target, Task

# In driver_internal_info: the UUID of the target that the deployed instance boots from.
BOOT_FROM_VOLUME = "boot_from_volume"

_TRUE = frozenset({"true", "1", "yes", "on"})


class VolumeType(NamedTuple):
    """What a kind of volume asks of a node: the capability to boot from it, and a connector of each type."""

    boot_capability: str
    connectors: tuple[str, ...]


TYPES = {
    "iscsi": VolumeType("iscsi_boot", ("iqn",)),
    "fibre_channel": VolumeType("fibre_channel_boot", ("wwpn", "wwnn")),
}


def boot_target(task: Task) -> Target | None:
    """The target with boot index 0: the root volume."""
    return next((target for target in task.targets if target.boot_index == 0), None)


def writes_image(task: Task) -> bool:
    """Whether an image goes onto the machine: it was asked for, or there is no volume to boot from."""
    return bool(task.node.instance_info.get("image_source")) or boot_target(task) is None


def can_boot(node: Node, capability: str) -> bool:
    """Whether the node's capabilities say so."""
    stated = {name.strip(): value.strip().lower() for name, value in node.capabilities().items()}
    return stated.get(capability) in _TRUE


def connector_ids(task: Task, kind: str) -> list[str]:
    """The node's connectors of one type, in the order in which they were registered."""
    return [connector.connector_id for connector in task.connectors if connector.type == kind]


def check_targets(task: Task) -> None:
    """Every target is of a kind we know, names its volume, and has a connector that can reach it; the
    node says that it can boot from the one it is to boot from."""
    for target in task.targets:
        kind = TYPES.get(target.volume_type)
        if kind is None:
            raise errors.DriverDataInvalid(
                f"Volume target {target.uuid} is of type {target.volume_type[:64]!r}; "
                f"this storage interface knows {' and '.join(TYPES)}."
            )
        if not target.volume_id:
            raise errors.DriverDataInvalid(f"Volume target {target.uuid} has no volume_id.")
        if target.boot_index == 0 and not can_boot(task.node, kind.boot_capability):
            raise errors.DriverDataInvalid(
                f"The node cannot boot from {target.volume_type} volume {target.volume_id}: set "
                f"{kind.boot_capability}:true in properties/capabilities if its hardware can."
            )
        require_connectors(task, kind.connectors, f"volume target {target.uuid}")


def check_connectors(task: Task) -> None:
    """Fibre channel names come in pairs, and who claims to boot from a kind of volume has its connectors."""
    ports, nodes = connector_ids(task, "wwpn"), connector_ids(task, "wwnn")
    if len(ports) != len(nodes):
        raise errors.DriverDataInvalid(
            f"The node has {len(ports)} wwpn and {len(nodes)} wwnn connectors; there must be as many of each."
        )
    for kind in TYPES.values():
        if can_boot(task.node, kind.boot_capability):
            require_connectors(task, kind.connectors, f"capability {kind.boot_capability}")


def require_connectors(task: Task, kinds: Collection[str], needed_by: str) -> None:
    missing = [kind for kind in kinds if not connector_ids(task, kind)]
    if missing:
        raise errors.DriverDataInvalid(
            f"The node has no volume connector of type {' and '.join(missing)}, which {needed_by} needs."
        )


def check_boot(task: Task, boot_capabilities: Collection[str], boot_name: str) -> None:
    """The boot interface can start a machine from the volume it is to boot from.

    Fibre channel is left to the HBA's own firmware: no boot interface takes part in it.
    """
    target = boot_target(task)
    if target is None or writes_image(task) or target.volume_type != "iscsi":
        return
    if "iscsi_volume_boot" not in boot_capabilities:
        raise errors.DriverDataInvalid(
            f"Boot interface {boot_name!r} cannot boot from iSCSI volume {target.volume_id}. Use ipxe."
        )


def mark_boot_volume(task: Task, write_image: bool) -> None:
    """Notes on the node which volume it boots from, or that it boots from its own disk."""
    info = {k: v for k, v in task.node.driver_internal_info.items() if k != BOOT_FROM_VOLUME}
    target = boot_target(task)
    if not write_image and target is not None:
        info[BOOT_FROM_VOLUME] = target.uuid
    task.node.driver_internal_info = info


def marked_target(task: Task) -> Target | None:
    """The target the deployed instance boots from, as noted."""
    marked = task.node.driver_internal_info.get(BOOT_FROM_VOLUME)
    return next((target for target in task.targets if target.uuid == marked), None)


def connector_document(node: str, connectors: Collection[Connector], cpu_arch: str | None) -> dict[str, object]:
    """Who is going to connect, in the words of Cinder (os-brick): what a node's connectors say.

    Types that name no initiator (mac, net-id) are left out: they are for whoever wires the network.
    """
    found: dict[str, object] = {}
    by_type: dict[str, list[str]] = {}
    for connector in connectors:
        by_type.setdefault(connector.type, []).append(connector.connector_id)
    for kind, key in (("iqn", "initiator"), ("ip", "ip")):
        if kind in by_type:
            found[key] = by_type[kind][0]
    for kind, key in (("wwpn", "wwpns"), ("wwnn", "wwnns")):
        if kind in by_type:
            found[key] = by_type[kind]
    if not found.keys() & {"initiator", "wwpns"}:
        raise errors.DriverDataInvalid(
            f"Node {node} has no volume connector of type iqn or wwpn: nothing could connect to a volume."
        )
    known = sum(len(by_type[kind]) for kind in ("iqn", "ip", "wwpn", "wwnn") if kind in by_type)
    return {
        **found,
        "host": node,
        "multipath": known > 1 and len(found) > 1,
        "platform": cpu_arch or "x86_64",
        "os_type": "baremetal",
    }
