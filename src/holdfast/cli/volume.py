"""`holdfast volume attach-node`: boot a machine from a volume without Nova.

The steps of spec 000's standalone workflow as one command: read the node's initiators, have the
storage export the volume to them, write the target into the node. Each of them may be repeated.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from holdfast import errors
from holdfast.baremetal.drivers.storage import cinder, volumes
from holdfast.baremetal.drivers.storage.cinder_api import Cinder
from holdfast.baremetal.task import Connector
from holdfast.cli import options as shared
from holdfast.cli import service, tgt


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "volume",
        help="export volumes to nodes, without Nova",
        description="Exports volumes to nodes and takes them back. For nodes with storage interface external; for "
        "those with cinder the service does it by itself, and only the target is written.",
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    attach = _verb(verbs, "attach-node", "export a volume to a node and write its target", attach_node)
    attach.add_argument("--boot-index", type=int, default=0, metavar="N", help="0 is the root volume (default)")
    _verb(verbs, "detach-node", "delete a volume's target from a node and take the export back", detach_node)


def _verb(verbs: Any, name: str, about: str, run: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=about, description=about.capitalize() + ".")
    parser.add_argument("node", help="UUID or name of the node")
    parser.add_argument("volume", help="UUID of the Cinder volume; with tgt, the path of the file that is the volume")
    parser.add_argument(
        "--storage",
        choices=("cinder", "tgt"),
        default="cinder",
        help="who exports it: the Cinder of section [cinder], or the tgtd on this machine, section [tgt] "
        "(default: %(default)s)",
    )
    shared.add_configuration(parser)
    service.add_options(parser)
    parser.set_defaults(run=run)
    return parser


def attach_node(options: argparse.Namespace) -> int:
    node = service.baremetal(options, "GET", f"nodes/{options.node}")
    existing = _targets(options, node)
    same = next((t for t in existing if t["volume_id"] == _volume_id(options)), None)
    taken = next((t for t in existing if t["boot_index"] == options.boot_index and t is not same), None)
    if taken is not None:
        raise errors.Duplicate(f"The node's volume {taken['volume_id']} has boot index {options.boot_index} already.")
    if same is not None and node["power_state"] != "power off":
        raise errors.InvalidState("The node has this volume already, and a new export needs it to be off.")
    target = {
        "volume_type": "iscsi",
        "volume_id": _volume_id(options),
        "boot_index": options.boot_index,
        "properties": _export(options, node, again=same is not None),
    }
    if same is None:
        written = service.baremetal(options, "POST", "volume/targets", {"node_uuid": node["uuid"], **target})
    else:
        patch = [{"op": "replace", "path": f"/{name}", "value": value} for name, value in target.items()]
        written = service.baremetal(options, "PATCH", f"volume/targets/{same['uuid']}", patch)
    return _tell(options, written, f"Volume {target['volume_id']} is target {written['uuid']} of {options.node}.")


def detach_node(options: argparse.Namespace) -> int:
    node = service.baremetal(options, "GET", f"nodes/{options.node}")
    if node["power_state"] != "power off":
        raise errors.InvalidState("The machine may be using the volume. Switch it off first.")
    for target in _targets(options, node):
        if target["volume_id"] == _volume_id(options):
            # First the node must not try it any more.
            service.baremetal(options, "DELETE", f"volume/targets/{target['uuid']}")
    if options.storage == "tgt":
        tgt.unexport(shared.load(options).tgt, _volume_id(options), force=True)
    elif node["storage_interface"] != "cinder":
        cinder.detach(Cinder(shared.load(options)), node["uuid"], options.volume)
    return _tell(options, None, f"Volume {_volume_id(options)} is no longer with {options.node}.")


def _export(options: argparse.Namespace, node: dict[str, Any], *, again: bool) -> dict[str, Any]:
    """Has the volume exported to the node's initiators; how to reach it, login and all."""
    if options.storage == "cinder" and node["storage_interface"] == "cinder":
        return {}
    found = service.listed(options, "volume/connectors", node=node["uuid"], detail="true")
    connectors = [Connector(uuid=c["uuid"], type=c["type"], connector_id=c["connector_id"]) for c in found]
    document = volumes.connector_document(node["uuid"], connectors, (node["properties"] or {}).get("cpu_arch"))
    conf = shared.load(options)
    if options.storage == "tgt":
        names = [connector.connector_id for connector in connectors if connector.type == "iqn"]
        return tgt.export(conf.tgt, _volume_id(options), options.volume, names, again=again)
    client = Cinder(conf)
    made = [a for a in client.attachments(instance=node["uuid"]) if a["volume_id"] == options.volume]
    connection = cinder.attach(client, options.volume, node["uuid"], document, made)
    if connection.get("driver_volume_type") not in (None, "iscsi"):
        cinder.detach(client, node["uuid"], options.volume)
        raise errors.Conflict(f"Cinder exports the volume as {connection['driver_volume_type']}, not over iSCSI.")
    return cinder.connection_data(connection)


def _targets(options: argparse.Namespace, node: dict[str, Any]) -> list[dict[str, Any]]:
    return service.listed(options, "volume/targets", node=node["uuid"], detail="true")


def _volume_id(options: argparse.Namespace) -> str:
    return tgt.volume_id(options.volume) if options.storage == "tgt" else str(options.volume)


def _tell(options: argparse.Namespace, document: Any, sentence: str) -> int:
    print(json.dumps(document, indent=2) if options.format == "json" else sentence)
    return 0
