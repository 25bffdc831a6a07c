"""Deploy templates: steps that join the deploy of every instance that asks for the trait of the same name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from holdfast import errors
from holdfast.db.constraints import is_taken
from holdfast.db.engine import Database, now
from holdfast.db.tables import deploy_templates
from holdfast.web.kinds import is_uuid, new_uuid

templates = deploy_templates


def find(connection: Connection, ident: str, *, lock: bool = False) -> Row[Any]:
    """The template with that UUID or name."""
    column = templates.c.uuid if is_uuid(ident) else templates.c.name
    statement = select(templates).where(column == (ident.lower() if is_uuid(ident) else ident))
    row = connection.execute(statement.with_for_update() if lock else statement).first()
    if row is None:
        raise missing(ident)
    return row


def missing(ident: str) -> errors.NotFound:
    return errors.NotFound(f"Deploy template {ident} could not be found.")


def steps_for(connection: Connection, traits: Sequence[Any]) -> list[dict[str, Any]]:
    """The steps of the templates that these traits activate."""
    names = [trait for trait in traits if isinstance(trait, str)]
    found = connection.execute(select(templates.c.steps).where(templates.c.name.in_(names)).order_by(templates.c.id))
    return [step for steps in found.scalars() for step in msgspec.json.decode(steps)]


def create(db: Database, values: Mapping[str, Any]) -> str:
    """Adds a template and returns its UUID."""
    columns = {**values, "uuid": values.get("uuid") or new_uuid()}
    with db.write() as connection:
        try:
            connection.execute(insert(templates).values(**columns, created_at=now()))
        except IntegrityError as error:
            raise _duplicate(columns, error) from None
    return str(columns["uuid"])


def change(db: Database, uuid: str, changes: Callable[[Mapping[str, Any]], dict[str, Any]]) -> None:
    """Applies a patch. `changes` turns the stored values into those that change."""
    with db.write() as connection:
        row = find(connection, uuid, lock=True)
        columns = changes(row._asdict())
        if not columns:
            return
        try:
            connection.execute(update(templates).where(templates.c.id == row.id).values(**columns, updated_at=now()))
        except IntegrityError as error:
            raise _duplicate(columns, error) from None


def destroy(db: Database, uuid: str) -> None:
    with db.write() as connection:
        connection.execute(delete(templates).where(templates.c.id == find(connection, uuid, lock=True).id))


def _duplicate(columns: Mapping[str, Any], error: IntegrityError) -> errors.Duplicate:
    if is_taken(error, templates.c.name):
        return errors.Duplicate(f"A deploy template with name {columns.get('name')} already exists.")
    return errors.Duplicate(f"A deploy template with UUID {columns.get('uuid')} already exists.")
