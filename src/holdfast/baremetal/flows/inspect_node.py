"""Inspects a node: manageable -> inspecting -> manageable, or through `inspect wait` when a ramdisk answers.

Guard: the node lock. Inspection only reads the hardware; ports, volume connectors, properties and
capabilities it finds are stored in one step that may be repeated (what exists is kept). Failure: `inspect
failed` with the reason.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from holdfast import errors
from holdfast.baremetal import connectors, inventories, nodes, ports, provision, traits
from holdfast.baremetal.drivers.base import Outcome
from holdfast.baremetal.flows import node_work
from holdfast.baremetal.flows.node_work import NodeParams, abandon, ending, fail, node_of
from holdfast.baremetal.task import Node
from holdfast.db.engine import now
from holdfast.flows.flow import NOTHING, Flow, Next, Step, Work

LOG = logging.getLogger(__name__)


def begin(work: Work, params: NodeParams) -> None:
    provision.begin(
        work.services.db,
        params.node,
        work.lock,
        "inspect",
        inspection_started_at=now(),
        inspection_finished_at=None,
    )


def resume(work: Work, params: NodeParams) -> None:
    provision.begin(work.services.db, params.node, work.lock, "resume")


def inspect(work: Work, params: NodeParams) -> dict[str, Any]:
    reported = inventories.reported(work.services.db, params.node) if work.kind == CONTINUE.kind else None
    with nodes.working(work.services, params.node, work.generation) as task:
        interface = work.services.drivers.inspect(task)
        interface.validate(task)
        if work.kind == CONTINUE.kind:
            found = interface.continue_inspection(task, *(reported or (None, {})))
        else:
            found = interface.inspect_hardware(task)
    if isinstance(found, Outcome):
        return {"wait": found is Outcome.WAIT}
    return {
        "wait": False,
        "properties": dict(found.properties),
        "mac_addresses": list(found.mac_addresses),
        "connectors": [list(connector) for connector in found.connectors],
        "capabilities": dict(found.capabilities),
        "traits": list(found.traits),
    }


def store(work: Work, params: NodeParams) -> list[str]:
    """Keeps what was found; what another node has is reported, never taken from it."""
    found = work.results["inspect"]
    with nodes.working(work.services, params.node, work.generation) as task:
        task.node.properties = {**task.node.properties, **(found.get("properties") or {})}
        _add_capabilities(task.node, found.get("capabilities") or {})
    taken = []
    for address in found.get("mac_addresses", []):
        try:
            ports.ensure(work.services.db, params.node, address)
        except errors.Duplicate:
            taken.append(f"MAC address {address}")
    for kind, name in found.get("connectors", []):
        try:
            connectors.ensure(work.services.db, params.node, kind, name)
        except errors.Duplicate:
            taken.append(f"connector {kind} {name}")
        except errors.InvalidValue:
            LOG.warning("Inspection of node %s found a %s connector that is malformed; left out", params.node, kind)
    if left_out := traits.add_found(work.services.db, params.node, found.get("traits", [])):
        LOG.warning("Inspection of node %s found traits that were left out: %s", params.node, ", ".join(left_out))
    return taken


def _add_capabilities(node: Node, found: Mapping[str, str]) -> None:
    """What an operator says about a capability counts more than what was found."""
    stated = node.capabilities()
    missing = {name: value for name, value in found.items() if name not in stated}
    if missing:
        text = ",".join(f"{name}:{value}" for name, value in {**stated, **missing}.items())
        node.properties = {**node.properties, "capabilities": text}


def finish(work: Work, params: NodeParams) -> None:
    event = ending(work, "inspect")
    values: dict[str, Any] = {} if event == "wait" else {"inspection_finished_at": now()}
    if taken := work.results["store"]:
        values["last_error"] = (
            f"Inspection found what belongs to another node: {', '.join(taken)}. "
            "Delete the ports and connectors there if they are wrong."
        )
    node_work.finish(work, params.node, event, CONTINUE, **values)


def heard(work: Work, params: NodeParams) -> Next | None:
    return node_work.heard(work, params, CONTINUE)


_WORK: list[Step[Any]] = [
    Step("inspect", inspect, undo=NOTHING),
    Step("store", store, undo=NOTHING),
    Step("finish", finish, pivot=True),
]

INSPECT: Flow[NodeParams] = Flow(
    "inspect_node",
    NodeParams,
    [Step("begin", begin, undo=fail), *_WORK],
    subject=node_of,
    summary="inspect a node's hardware",
    then=heard,
    abandon=abandon,
)

CONTINUE: Flow[NodeParams] = Flow(
    "continue_inspection",
    NodeParams,
    [Step("begin", resume, undo=fail), *_WORK],
    subject=node_of,
    summary="go on with an inspection when the ramdisk answers",
    then=heard,
    abandon=abandon,
)
