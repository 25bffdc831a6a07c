"""Volume targets: the remote volumes of a node and how it reaches them (spec 000). Rules and SQL.

`properties` holds secrets (CHAP). Nothing here puts a value of it into an error or a log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, Select, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from holdfast import errors
from holdfast.baremetal import belongings, nodes
from holdfast.baremetal.task import Target
from holdfast.db import tables
from holdfast.db.constraints import is_taken
from holdfast.db.engine import Database, now
from holdfast.services import Services
from holdfast.web.kinds import new_uuid

targets = tables.volume_targets

Changes = Callable[[Mapping[str, Any]], dict[str, Any]]


def whole() -> Select[Any]:
    """Targets with the UUID of their node, as the API names it."""
    return select(targets, *belongings.NODE_COLUMNS).join_from(targets, tables.nodes)


def find(connection: Connection, uuid: str) -> Row[Any]:
    row = connection.execute(whole().where(targets.c.uuid == uuid)).first()
    if row is None:
        raise missing(uuid)
    return row


def missing(uuid: str) -> errors.NotFound:
    return errors.NotFound(f"Volume target {uuid} could not be found.")


def create(db: Database, values: Mapping[str, Any]) -> str:
    """Gives a node a volume, in whatever state the node is; returns the target's UUID."""
    columns = dict(values)
    columns["uuid"] = columns.get("uuid") or new_uuid()
    with db.write() as connection:
        node = belongings.node_in_body(connection, columns.pop("node_uuid"))
        columns["node_id"] = node.id
        try:
            connection.execute(insert(targets).values(**columns, created_at=now()))
        except IntegrityError as error:
            if is_taken(error, targets.c.uuid):
                raise errors.Duplicate(f"A volume target with UUID {columns['uuid']} already exists.") from None
            raise _taken(node, columns["boot_index"]) from None
    return str(columns["uuid"])


def update_volume_target(services: Services, uuid: str, changes: Changes) -> None:
    """Applies a patch in one transaction. `changes` turns the stored values into those that change."""
    with services.db.write() as connection:
        node, row = belongings.lock(connection, targets, uuid, whole(), missing(uuid))
        belongings.require_off(node, "volume targets")
        columns = changes(row._asdict())
        home = node
        if "node_uuid" in columns:
            home = belongings.lock_node_in_body(connection, columns.pop("node_uuid"))
            belongings.require_same_owner(node, home)
            belongings.require_off(home, "volume targets")
            columns["node_id"] = home.id
        if not columns:
            return
        task = nodes.load_task(connection, node.uuid)
        changed = _as_drivers_see_it({**row._asdict(), **columns})
        services.drivers.storage(task).target_changed(task, changed)
        try:
            connection.execute(update(targets).where(targets.c.id == row.id).values(**columns, updated_at=now()))
        except IntegrityError:
            raise _taken(home, changed.boot_index) from None


def destroy_volume_target(services: Services, uuid: str) -> None:
    with services.db.write() as connection:
        node, row = belongings.lock(connection, targets, uuid, whole(), missing(uuid))
        belongings.require_off(node, "volume targets", deleting=True)
        task = nodes.load_task(connection, node.uuid)
        services.drivers.storage(task).target_removed(task, _as_drivers_see_it(row._asdict()))
        connection.execute(delete(targets).where(targets.c.id == row.id))


def _as_drivers_see_it(values: Mapping[str, Any]) -> Target:
    known = {name: values[name] for name in Target.__struct_fields__}
    return Target(**{**known, "properties": msgspec.json.decode(known["properties"])})


def _taken(node: Row[Any], boot_index: int) -> errors.Duplicate:
    return errors.Duplicate(f"Node {nodes.label(node)} already has a volume target with boot index {boot_index}.")
