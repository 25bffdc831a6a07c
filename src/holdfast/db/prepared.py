"""Hot statements: compiled once, and run on the driver's own cursor.

Building, keying and unpacking a statement costs SQLAlchemy several times what the database needs to find
one row by its key. The few that every request makes (one object, the node it is about) take this path;
everything else stays plain Core.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, cast

from sqlalchemy import Boolean, Connection, Row, Select, Update
from sqlalchemy.exc import DBAPIError


class Prepared:
    """A statement with `bindparam`s, called with their values; rows as the driver gives them."""

    def __init__(self, statement: Select[Any] | Update) -> None:
        self._statement = statement
        # dialect: the text, the order of its parameters where the driver takes them by position, and its constants
        self._compiled: dict[str, tuple[str, list[str] | None, dict[str, Any]]] = {}

    def __call__(self, connection: Connection, **values: Any) -> list[tuple[Any, ...]]:
        with self._executed(connection, values) as cursor:
            return cursor.fetchall()  # type: ignore[no-any-return]

    def change(self, connection: Connection, **values: Any) -> int:
        """Runs an UPDATE; how many rows it changed."""
        with self._executed(connection, values) as cursor:
            return int(cursor.rowcount)

    @contextmanager
    def _executed(self, connection: Connection, values: dict[str, Any]) -> Iterator[Any]:
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
            yield cursor
        except dialect.loaded_dbapi.Error as error:
            raise _as_sqlalchemy_tells_it(connection, cursor, text, error) from error
        finally:
            cursor.close()

    def all(self, connection: Connection, **values: Any) -> list[Row[Any]]:
        """The rows with their columns by name, as `execute().all()` gives them."""
        rows = [self._named._make(row) for row in self(connection, **values)]
        if not connection.dialect.supports_native_boolean:
            rows = [row._replace(**self._truths_of(row)) for row in rows]
        return rows

    def first(self, connection: Connection, **values: Any) -> Row[Any] | None:
        """The first of them, or nothing."""
        return next(iter(self.all(connection, **values)), None)

    @cached_property
    def _named(self) -> Any:
        return namedtuple("Record", [column.name for column in self._columns])

    @cached_property
    def _truths(self) -> list[str]:
        return [column.name for column in self._columns if isinstance(column.type, Boolean)]

    def _truths_of(self, row: Any) -> dict[str, bool]:
        return {name: bool(truth) for name in self._truths if (truth := getattr(row, name)) is not None}

    @property
    def _columns(self) -> Sequence[Any]:
        return list(cast("Select[Any]", self._statement).selected_columns)


def _as_sqlalchemy_tells_it(connection: Connection, cursor: Any, text: str, error: Any) -> Any:
    """The driver's error as every other statement raises it; a connection that broke is not used again."""
    dialect = connection.dialect
    broken = dialect.is_disconnect(error, connection.connection.dbapi_connection, cursor)
    if broken:
        connection.invalidate(error)
    return DBAPIError.instance(
        text, None, error, dialect.loaded_dbapi.Error, True, connection_invalidated=broken, dialect=dialect
    )
