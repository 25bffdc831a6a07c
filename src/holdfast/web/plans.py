"""From rows to JSON: which columns a request needs, and how their values become text.

A page has a thousand rows of seventy values. So no row becomes a dictionary, and stored JSON passes as it is: a plan
is one template for the whole object, filled with the text of each value. Values are encoded by column, each
distinct one once: states, interfaces and empty objects repeat from row to row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Connection, Select, bindparam, select

from holdfast.db.prepared import Prepared
from holdfast.web.kinds import quote
from holdfast.web.versions import Version

if TYPE_CHECKING:
    from holdfast.web.resources import Field, Guard, Resource

# the guard's columns of a row -> the fields of it whose content must not be shown
Hidden = Callable[..., Collection[str]]
# a stored value, not null -> JSON text
Show = Callable[[Any], str]
# a row's id -> JSON text
Load = Callable[[int], str]

# Rows from which on it pays to encode by column.
MANY = 8
# What a template leaves open: the URL prefix, as each request may have come under another name, and the values.
_BASE, _VALUE = "\0", "\1"


class Plan:
    """How to select and show a resource: which columns, in which order, how rendered.

    `links` names the lists of links shown: to the object itself (`links`) and to its sub-collections.
    """

    def __init__(self, resource: Resource, fields: Sequence[Field], version: Version, links: Sequence[str]) -> None:
        self.resource = resource
        self.columns: list[ColumnElement[Any]] = [
            resource.table.c.id,
            resource.table.c[resource.ident],
            *(resource.guard.columns if resource.guard else ()),
        ]
        self._guarded = slice(2, len(self.columns))
        self._shows: list[tuple[int, Show, str]] = []
        stored, self._loads = [], []
        for field in fields:
            if field.load is not None:
                self._loads.append(field.load)
            elif field.column is not None:
                stored.append(field)
                self._shows.append((len(self.columns), _show(field, version), field.kind.null))
                self.columns.append(field.column)
        shown = [*stored, *(field for field in fields if field.load is not None)]
        self._redactions = _redactions(resource.guard, shown) if resource.guard else {}
        members = [f"{quote(field.name)}:{_VALUE}" for field in shown]
        members += [_links(resource.path, name) for name in links]
        self._template = f"{{{','.join(members)}}}"
        self._idents = 2 * len(links)
        self._by: dict[ColumnElement[Any], Prepared] = {}

    @cached_property
    def _statement(self) -> Select[Any]:
        source = self.resource.source if self.resource.source is not None else self.resource.table
        return select(*self.columns).select_from(source)

    def select(self) -> Select[Any]:
        return self._statement

    def by(self, column: ColumnElement[Any]) -> Prepared:
        """Finds one object by the value of a column, as `value`."""
        found = self._by.get(column)
        if found is None:
            found = self._by[column] = Prepared(self._statement.where(column == bindparam("value")))
        return found

    def load(self, connection: Connection) -> list[Load]:
        """What fields need that live outside the rows: one query for each, however many rows follow."""
        return [load(connection) for load in self._loads]

    def render(self, rows: Sequence[Any], base: str, loaded: Sequence[Load], hidden: Hidden | None) -> list[bytes]:
        """Each row as JSON."""
        pieces = self._template.replace(_BASE, _inside(base)).split(_VALUE)
        texts: Iterable[str]
        if hidden is not None:
            texts = (_filled(pieces, self._redacted(row, loaded, hidden)) for row in rows)
        elif len(rows) < MANY:
            texts = (_filled(pieces, self._line(row, loaded)) for row in rows)
        else:
            texts = _all_filled(pieces, self._columns(rows, loaded))
        return [text.encode() for text in texts]

    def _line(self, row: Any, loaded: Sequence[Load]) -> list[str]:
        """What one row puts into the template."""
        line = [null if row[index] is None else show(row[index]) for index, show, null in self._shows]
        line += [text(row[0]) for text in loaded]
        line += [_inside(row[1])] * self._idents
        return line

    def _columns(self, rows: Sequence[Any], loaded: Sequence[Load]) -> list[Iterable[str]]:
        """The same for many rows, by column."""
        columns = list(zip(*rows, strict=True))
        texts: list[Iterable[str]] = []
        for index, show, null in self._shows:
            texts.append(_texts(columns[index], show, null))
        texts += [map(text, columns[0]) for text in loaded]
        texts += [[_inside(ident) for ident in columns[1]]] * self._idents
        return texts

    def _redacted(self, row: Any, loaded: Sequence[Load], hidden: Hidden) -> list[str]:
        line = self._line(row, loaded)
        for name in hidden(*row[self._guarded]):
            if name in self._redactions:
                position, text = self._redactions[name]
                line[position] = text
        return line


def _filled(pieces: Sequence[str], values: Sequence[str]) -> str:
    whole = [""] * (len(pieces) + len(values))
    whole[0::2], whole[1::2] = pieces, values
    return "".join(whole)


def _all_filled(pieces: Sequence[str], columns: Sequence[Iterable[str]]) -> Iterable[str]:
    """As many texts as the columns are long. Twice as fast as formatting: `join` knows the length beforehand."""
    whole: list[Iterable[str]] = [()] * (len(pieces) + len(columns))
    whole[0::2], whole[1::2] = [repeat(piece) for piece in pieces], columns
    return map("".join, zip(*whole, strict=False))


def _redactions(guard: Guard, shown: Sequence[Field]) -> dict[str, tuple[int, str]]:
    """What stands in for each field when it is hidden, and where."""
    plain, below = quote(guard.instead), f"{{{quote(guard.under)}:{quote(guard.instead)}}}"
    return {
        field.name: (position, below if isinstance(field.kind.empty, dict) else plain)
        for position, field in enumerate(shown)
    }


def _show(field: Field, version: Version) -> Show:
    show, null, adapt = field.kind.show, field.kind.null, field.shown
    if adapt is None:
        return show

    def adapted(value: Any) -> str:
        there = adapt(value, version)
        return null if there is None else show(there)

    return adapted


def _texts(column: Sequence[Any], show: Show, null: str) -> Iterable[str]:
    """The text of each value of a column; values that repeat are encoded once."""
    if len(set(column[:MANY])) == MANY and None not in column:  # likely so on: identifiers, times, documents
        return map(show, column)
    distinct = set(column)
    texts = {value: null if value is None else show(value) for value in distinct}
    if len(distinct) == 1:
        return repeat(texts[column[0]], len(column))
    return map(texts.__getitem__, column)


def _links(path: str, name: str) -> str:
    """One list of links as part of a template: the URL prefix and the identifier are left open, twice."""
    behind = "" if name == "links" else f"/{name}"
    own, bookmark = f"{_BASE}/v1/{path}/{_VALUE}{behind}", f"{_BASE}/{path}/{_VALUE}{behind}"
    return f'"{name}":[{{"href":"{own}","rel":"self"}},{{"href":"{bookmark}","rel":"bookmark"}}]'


def _inside(text: str) -> str:
    """A text as it stands between the quotes of a JSON string."""
    return quote(text)[1:-1]
