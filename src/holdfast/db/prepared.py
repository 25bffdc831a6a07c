"""Hot reads: a SELECT compiled once and run on the driver's own cursor.

Building, keying and unpacking a statement costs SQLAlchemy several times what the database needs to find
one row by its key. The few reads that every request makes (one object, its traits) take this path;
everything else stays plain Core.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Select


class Prepared:
    """A SELECT with `bindparam`s, called with their values; rows as the driver gives them."""

    def __init__(self, statement: Select[Any]) -> None:
        self._statement = statement
        # dialect: the text, the order of its parameters where the driver takes them by position, and its constants
        self._compiled: dict[str, tuple[str, list[str] | None, dict[str, Any]]] = {}

    def __call__(self, connection: Connection, **values: Any) -> list[tuple[Any, ...]]:
        dialect = connection.dialect
        compiled = self._compiled.get(dialect.name)
        if compiled is None:
            made = self._statement.compile(dialect=dialect)
            compiled = self._compiled[dialect.name] = (str(made), made.positiontup, made.params)
        text, order, constants = compiled
        if len(constants) > len(values):
            values = {**constants, **values}
        cursor = connection.connection.cursor()
        try:
            cursor.execute(text, values if order is None else [values[name] for name in order])
            return cursor.fetchall()  # type: ignore[return-value]
        finally:
            cursor.close()
