"""What belongs to the instance on a node: whether it can be deployed, and forgetting it afterwards."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, delete, update

from holdfast import errors
from holdfast.baremetal import boot_progress, locks, nodes, steps, traits
from holdfast.baremetal.drivers.registry import Drivers
from holdfast.baremetal.task import Task
from holdfast.db import tables
from holdfast.db.engine import Database, now

# The interfaces whose validation a deploy depends on.
DEPLOY_NEEDS = ("boot", "deploy", "management", "network", "power", "storage")

# What a deploy leaves in driver_internal_info that the next instance must not see.
_INSTANCE_MARKS = frozenset(
    {
        "instance",
        "root_uuid_or_disk_id",
        "is_whole_disk_image",
        "deploy_boot_mode",
        "deploy_steps",
        steps.REQUESTED,
        "deploy_step_index",
        "boot_from_volume",
        boot_progress.KEY,
        *boot_progress.AGENT_MARKS,
    }
)


def validate(drivers: Drivers, task: Task) -> dict[str, dict[str, Any]]:
    """The answer of GET validate: each interface with `result` true, false or null (not supported), and why."""
    results: dict[str, dict[str, Any]] = {}
    for kind, interface in sorted(drivers.all(task).items()):
        if kind == "vendor":
            continue
        try:
            interface.validate(task)
            if kind == "deploy":
                check_traits(task)
                steps.require_deploy(drivers, task)
            results[kind] = {"result": True}
        except errors.UnsupportedByDriver as error:
            results[kind] = {"result": None, "reason": error.public}
        except errors.HoldfastError as error:
            results[kind] = {"result": False, "reason": error.public}
    return results


def require_deployable(drivers: Drivers, task: Task) -> None:
    """Raises `BadRequest` naming everything that stands in the way of a deploy."""
    problems = [
        f"{kind}: {result['reason']}"
        for kind, result in validate(drivers, task).items()
        if kind in DEPLOY_NEEDS and result["result"] is False
    ]
    if problems:
        raise errors.BadRequest(f"Node {task.node.label} cannot be deployed. {' '.join(problems)}")


def check_traits(task: Task) -> None:
    """`instance_info.traits` may only ask for traits the node has (spec 001)."""
    _require_subset(task.node.instance_info, task.traits)


def require_traits(connection: Connection, node: Row[Any]) -> None:
    """The same, in the transaction that begins a deploy."""
    _require_subset(msgspec.json.decode(node.instance_info), traits.of_node(connection, node.id))


def _require_subset(instance_info: Mapping[str, Any], has: Collection[str]) -> None:
    wanted = instance_info.get("traits") or []
    if not isinstance(wanted, list) or not all(isinstance(trait, str) for trait in wanted):
        raise errors.DriverDataInvalid("instance_info['traits'] must be a list of trait names.")
    lacking = sorted(set(wanted) - set(has))
    if lacking:
        raise errors.DriverDataInvalid(
            f"instance_info asks for traits the node does not have: {', '.join(lacking)[:400]}. "
            "Add them to the node, or choose another node."
        )


def remember(db: Database, ident: str, values: Mapping[str, Any], marks: Mapping[str, Any] | None = None) -> None:
    """Puts what a verb brought along (a config drive, a password) into the node's instance_info. `marks`, the
    steps somebody asked for, go to driver_internal_info: None as a value forgets those of last time."""
    with db.write() as connection:
        row = nodes.find(connection, ident, lock=True)
        locks.require_free(nodes.label(row), row.reservation)
        info = {**msgspec.json.decode(row.instance_info), **values}
        internal = {**msgspec.json.decode(row.driver_internal_info), **(marks or {})}
        internal = {key: value for key, value in internal.items() if key not in (marks or {}) or value is not None}
        connection.execute(
            update(tables.nodes)
            .where(tables.nodes.c.id == row.id)
            .values(
                instance_info=msgspec.json.encode(info).decode(),
                driver_internal_info=msgspec.json.encode(internal).decode(),
                updated_at=now(),
            )
        )


def forget(connection: Connection, task: Task) -> None:
    """Takes the instance off the node: its id, its info and marks, its allocation, and its volume targets
    (spec 000)."""
    # The node first, as everybody does who changes it and what belongs to it.
    connection.execute(
        update(tables.nodes).where(tables.nodes.c.id == task.node.id).values(instance_uuid=None, updated_at=now())
    )
    connection.execute(delete(tables.allocations).where(tables.allocations.c.node_id == task.node.id))
    connection.execute(delete(tables.volume_targets).where(tables.volume_targets.c.node_id == task.node.id))
    task.node.driver_internal_info = {
        k: v for k, v in task.node.driver_internal_info.items() if k not in _INSTANCE_MARKS
    }
    task.node.instance_info = {}
