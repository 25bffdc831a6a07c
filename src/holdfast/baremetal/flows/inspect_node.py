"""Inspects a node: manageable -> inspecting -> manageable, or through `inspect wait` when a ramdisk answers.

Guard: the node lock. Inspection only reads the hardware; ports and properties it finds are stored in
one step that may be repeated (a MAC that exists is kept). Failure: `inspect failed` with the reason.
"""

from __future__ import annotations

from typing import Any

from holdfast import errors
from holdfast.baremetal import nodes, ports, provision
from holdfast.baremetal.drivers.base import Outcome
from holdfast.baremetal.flows.node_work import NodeParams, abandon, ending, fail, node_of
from holdfast.db.engine import now
from holdfast.flows.flow import NOTHING, Flow, Step, Work


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
    with nodes.working(work.services, params.node, work.generation) as task:
        interface = work.services.drivers.inspect(task)
        interface.validate(task)
        found = interface.inspect_hardware(task)
    if isinstance(found, Outcome):
        return {"wait": found is Outcome.WAIT}
    return {
        "wait": False,
        "properties": dict(found.properties),
        "mac_addresses": list(found.mac_addresses),
    }


def store(work: Work, params: NodeParams) -> list[str]:
    """Keeps what was found; MACs that another node has are reported, never taken from it."""
    found = work.results["inspect"]
    if found.get("properties"):
        with nodes.working(work.services, params.node, work.generation) as task:
            task.node.properties = {**task.node.properties, **found["properties"]}
    taken = []
    for address in found.get("mac_addresses", []):
        try:
            ports.ensure(work.services.db, params.node, address)
        except errors.Duplicate:
            taken.append(address)
    return taken


def finish(work: Work, params: NodeParams) -> None:
    event = ending(work, "inspect")
    values: dict[str, Any] = {} if event == "wait" else {"inspection_finished_at": now()}
    if taken := work.results["store"]:
        values["last_error"] = (
            f"Inspection found MAC addresses that belong to another node: {', '.join(taken)}. "
            "Delete the ports there if they are wrong."
        )
    provision.finish(work.services.db, params.node, work.lock, event, **values)


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
    abandon=abandon,
)

CONTINUE: Flow[NodeParams] = Flow(
    "continue_inspection",
    NodeParams,
    [Step("begin", resume, undo=fail), *_WORK],
    subject=node_of,
    summary="go on with an inspection when the ramdisk answers",
    abandon=abandon,
)
