"""Chassis: what nodes are mounted in. Rules of creating, changing and deleting them, and their SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from holdfast import errors
from holdfast.db import tables
from holdfast.db.engine import Database, now
from holdfast.web.kinds import new_uuid

chassis = tables.chassis


def find(connection: Connection, uuid: str, *, lock: bool = False) -> Row[Any]:
    """The row of the chassis. `lock`: it is about to be changed."""
    statement = select(chassis).where(chassis.c.uuid == uuid)
    row = connection.execute(statement.with_for_update() if lock else statement).first()
    if row is None:
        raise missing(uuid)
    return row


def missing(uuid: str) -> errors.NotFound:
    return errors.NotFound(f"Chassis {uuid} could not be found.")


def create(db: Database, values: Mapping[str, Any]) -> str:
    """Adds a chassis and returns its UUID."""
    columns = {**values, "uuid": values.get("uuid") or new_uuid()}
    with db.write() as connection:
        try:
            connection.execute(insert(chassis).values(**columns, created_at=now()))
        except IntegrityError:
            raise _duplicate(columns["uuid"]) from None
    return str(columns["uuid"])


def change(db: Database, uuid: str, changes: Callable[[Mapping[str, Any]], dict[str, Any]]) -> str:
    """Applies a patch and returns the UUID, which may be what changed."""
    with db.write() as connection:
        row = find(connection, uuid, lock=True)
        columns = changes(row._asdict())
        if not columns:
            return uuid
        if columns.get("uuid", uuid) is None:
            raise errors.BadPatch("A chassis needs its uuid; it cannot be removed.")
        try:
            connection.execute(update(chassis).where(chassis.c.id == row.id).values(**columns, updated_at=now()))
        except IntegrityError:
            raise _duplicate(columns["uuid"]) from None
        return str(columns.get("uuid", uuid))


def destroy(db: Database, uuid: str) -> None:
    """Deletes an empty chassis."""
    with db.write() as connection:
        row = find(connection, uuid, lock=True)
        try:
            connection.execute(delete(chassis).where(chassis.c.id == row.id))
        except IntegrityError:  # the foreign key of nodes, which also holds against one created just now
            raise errors.NotEmpty(f"Chassis {uuid} still has nodes. Take them out of it first.") from None


def _duplicate(uuid: str) -> errors.Duplicate:
    return errors.Duplicate(f"A chassis with UUID {uuid} already exists.")
