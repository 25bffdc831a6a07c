"""The resource table: each API resource is declared once, as data.

From a `Resource` come the JSON of one object and of lists, `fields=`, sort keys, the rules of POST and
PATCH, version gating, and the OpenAPI schemas. A new field is one line.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import ColumnElement, Connection, FromClause, Select, bindparam, select

from holdfast import errors, secrets
from holdfast.db.prepared import Prepared
from holdfast.web import patch
from holdfast.web.kinds import Kind
from holdfast.web.versions import Version

if TYPE_CHECKING:
    from holdfast.web.routes import Request

V1_1 = Version(1, 1)
V1_43 = Version(1, 43)

# ids of rows on this page -> value of the field for each
Loader = Callable[[Connection, Sequence[int]], Mapping[int, Any]]
# the guard's columns of a row -> the fields of it whose content must not be shown
Hidden = Callable[..., Collection[str]]

REDACTED = "** Redacted: your project may not see this. **"


@dataclass(frozen=True)
class Field:
    """One attribute. `writable` says where a client may set it; `load` fills it for a whole page at
    once when it lives in another table; `shown` adapts the value to older versions; `inner` lists keys
    inside a JSON object that came later than the field."""

    name: str
    kind: Kind
    column: ColumnElement[Any] | None = None
    since: Version = V1_1
    create: bool = False
    patch: bool = False
    required: bool = False
    sort: bool = True
    load: Loader | None = None
    shown: Callable[[Any, Version], Any] | None = None
    default: Any = None
    inner: Sequence[tuple[str, Version]] = ()
    # Only ever sent by clients: part of how the object is made, not of what it is.
    write_only: bool = False

    def require_known(self, version: Version, value: Any, below: str | None = None) -> None:
        """Refuses to set what a later version brought: the field, or the key `below` it, or one in its value."""
        if self.since > version:
            raise newer(f"Field {self.name}", self.since)
        for key, since in self.inner:
            if since > version and (key == below or (isinstance(value, dict) and key in value)):
                raise newer(f"{self.name}['{key}']", since)


@dataclass(frozen=True)
class LinkList:
    """Links to a sub-collection, present only in full representations."""

    name: str
    since: Version = V1_1


@dataclass(frozen=True)
class Filter:
    """A query argument that narrows a list. `clause(value)` is the SQL."""

    name: str
    kind: Kind
    clause: Callable[[Any], ColumnElement[bool]]
    since: Version = V1_1
    about: str = ""


@dataclass(frozen=True)
class Guard:
    """Fields whose content not every caller may see. `columns` are read with every row; `hidden(request)` is
    None for a caller who sees everything, else what decides by them."""

    columns: Sequence[ColumnElement[Any]]
    hidden: Callable[[Request], Hidden | None]


@dataclass(frozen=True)
class Resource:
    """`key` is the list's JSON key, `path` where objects live; `source` the table with its joins."""

    noun: str
    key: str
    path: str
    table: FromClause
    fields: Sequence[Field]
    summary: Sequence[str]
    source: FromClause | None = None
    links: Sequence[LinkList] = ()
    filters: Sequence[Filter] = ()
    fields_since: Version = V1_1
    detail_since: Version = V1_43
    # How a stored object is named in its URL; bios settings, say, have no UUID.
    ident: str = "uuid"
    guard: Guard | None = None
    # Fields and filters of versions this service does not speak yet: refused as the future's, not as nonsense.
    later: Sequence[tuple[str, Version]] = ()

    @cached_property
    def by_name(self) -> dict[str, Field]:
        return {field.name: field for field in self.fields}

    @cached_property
    def patchable(self) -> frozenset[str]:
        return frozenset(field.name for field in self.fields if field.patch)

    def require_spoken(self, what: str, *names: str) -> None:
        for name, since in self.later:
            if name in names:
                raise newer(f"{what} {name}", since)

    def visible(self, version: Version) -> list[Field]:
        return [field for field in self.fields if field.since <= version and not field.write_only]

    def sort_column(self, key: str, version: Version) -> ColumnElement[Any]:
        field = self.by_name.get(key)
        if key == "id":
            return self.table.c.id
        if field is None:
            self.require_spoken("Sorting by", key)
        if field is None or not field.sort or field.column is None:
            raise errors.InvalidValue(f"{self.key} cannot be sorted by {key!r}.")
        if field.since > version:
            raise newer(f"Sorting by {key}", field.since)
        return field.column

    def choose(self, names: Iterable[str], version: Version) -> list[Field]:
        """The fields a client asked for with `fields=`."""
        chosen = []
        for name in dict.fromkeys(name.strip().lower() for name in names):
            if name in ("", "links"):
                continue
            field = self.by_name.get(name)
            if field is None:
                self.require_spoken("Field", name)
            if field is None or field.write_only:
                raise errors.InvalidValue(
                    f"A {self.noun} has no field {name!r}. It has: {', '.join(f.name for f in self.fields)}."
                )
            if field.since > version:
                raise newer(f"Field {name}", field.since)
            chosen.append(field)
        return chosen

    # -- what clients send

    def parse_create(self, body: Any, version: Version) -> dict[str, Any]:
        """Checked values of a POST body, every field the client left out at its default."""
        if not isinstance(body, dict):
            raise errors.InvalidValue("The request body must be a JSON object.")
        values: dict[str, Any] = {}
        for name, value in body.items():
            field = self.by_name.get(name)
            if field is None:
                self.require_spoken("Field", name)
            if field is None or not field.create:
                raise errors.UnknownArgument(f"{name!r} cannot be set when a {self.noun} is created.")
            field.require_known(version, value)
            values[name] = field.kind.check(name, value)
        for field in self.fields:
            if field.required and values.get(field.name) is None:
                raise errors.InvalidValue(f"A {self.noun} needs {field.name}.")
            if field.create and values.get(field.name) is None:
                default = field.default if field.default is not None else field.kind.empty
                values[field.name] = field.kind.check(field.name, default)
        return values

    def check_patch(self, operations: Any, version: Version) -> list[dict[str, Any]]:
        """A well-formed patch in which nothing newer than the version is set."""
        self.require_spoken("Field", *patch.roots(operations))
        checked = patch.check(operations, self.patchable)
        for operation in checked:
            field = self.by_name[patch.root(operation)]
            if operation["op"] != "remove":
                field.require_known(version, operation["value"], patch.below(operation))
        return checked

    def apply_patch(self, stored: Mapping[str, Any], operations: list[dict[str, Any]]) -> dict[str, Any]:
        """The values that change, checked. `stored` holds the row's values by field name."""
        before = {field.name: field.kind.load(stored[field.name]) for field in self.fields if field.patch}
        after = patch.apply(before, operations)
        changes: dict[str, Any] = {}
        for name in {patch.root(operation) for operation in operations}:
            field = self.by_name[name]
            empty = field.default if field.default is not None else field.kind.empty
            value = secrets.keep_masked(after.get(name, empty), before[name])
            if value is None and field.required:
                raise errors.BadPatch(f"A {self.noun} needs {name}; it cannot be removed.")
            if value is None:
                value = empty
            checked = field.kind.check(name, value)
            if checked != stored[name]:
                changes[name] = checked
        return changes

    # -- what the service answers

    def plan(self, fields: Sequence[Field], version: Version, *, full: bool) -> Plan:
        return Plan(self, fields, version, full=full)

    @cached_property
    def _plans(self) -> dict[tuple[Version, bool], Plan]:
        """Of whole objects and of plain lists; what nearly every request asks for is worked out once."""
        return {}

    def full(self, version: Version) -> Plan:
        """Everything this version knows, links to sub-collections included."""
        plan = self._plans.get((version, True))
        if plan is None:
            plan = self._plans[version, True] = Plan(self, self.visible(version), version, full=True)
        return plan

    def brief(self, version: Version) -> Plan:
        """The columns of a plain list."""
        plan = self._plans.get((version, False))
        if plan is None:
            fields = [self.by_name[name] for name in self.summary if self.by_name[name].since <= version]
            plan = self._plans[version, False] = Plan(self, fields, version, full=False)
        return plan


class Plan:
    """How to select and show a resource for one request: which columns, in which order, how rendered."""

    def __init__(self, resource: Resource, fields: Sequence[Field], version: Version, *, full: bool) -> None:
        self.resource = resource
        self.columns: list[ColumnElement[Any]] = [
            resource.table.c.id,
            resource.table.c[resource.ident],
            *(resource.guard.columns if resource.guard else ()),
        ]
        self._guarded = slice(2, len(self.columns))
        self._direct: list[tuple[str, int, Callable[[Any], Any] | None]] = []
        self._loaded: list[Field] = []
        for field in fields:
            if field.load is not None:
                self._loaded.append(field)
            elif field.column is not None:
                self._direct.append((field.name, len(self.columns), _shower(field, version)))
                self.columns.append(field.column)
        self._by: dict[ColumnElement[Any], Prepared] = {}
        self._links = [link.name for link in resource.links if link.since <= version] if full else []

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

    def render(
        self, connection: Connection, rows: Sequence[Any], base: str, hidden: Hidden | None = None
    ) -> list[dict[str, Any]]:
        """The rows as documents ready to encode. One query per loaded field, however many rows."""
        if not rows:
            return []
        ids = [row[0] for row in rows]
        loaded = [(field.name, field.load(connection, ids)) for field in self._loaded if field.load]
        links = [_Links(base, self.resource.path, name) for name in ("links", *self._links)]
        direct = self._direct
        documents = []
        for row in rows:
            ident = row[1]
            document = {
                name: row[index] if show is None or row[index] is None else show(row[index])
                for name, index, show in direct
            }
            for name, values in loaded:
                document[name] = values.get(row[0], [])
            if hidden is not None:
                self._redact(document, hidden(*row[self._guarded]))
            for link in links:
                document[link.name] = link.of(ident)
            documents.append(document)
        return documents

    def _redact(self, document: dict[str, Any], names: Collection[str]) -> None:
        for name in names:
            if name in document:
                is_object = isinstance(self.resource.by_name[name].kind.empty, dict)
                document[name] = {"content": REDACTED} if is_object else REDACTED


class _Links:
    """Links to an object, or to one of its sub-collections. A page has thousands of them that differ in the
    identifier only, so they are cut once and encoded already."""

    def __init__(self, base: str, path: str, name: str) -> None:
        self.name = name
        behind = "" if name == "links" else f"/{name}"
        mark = "\0"
        own, bookmark = f"{base}/v1/{path}/{mark}{behind}", f"{base}/{path}/{mark}{behind}"
        document = [{"href": own, "rel": "self"}, {"href": bookmark, "rel": "bookmark"}]
        self._cut = msgspec.json.encode(document).decode().split("\\u0000")

    def of(self, ident: str) -> msgspec.Raw:
        return msgspec.Raw(ident.join(self._cut).encode())


def newer(what: str, since: Version) -> errors.NewerVersionNeeded:
    return errors.NewerVersionNeeded(f"{what} needs API version {since} or later.")


def _shower(field: Field, version: Version) -> Callable[[Any], Any] | None:
    if field.shown is not None:
        shown = field.shown
        return lambda value: shown(value, version)
    show = field.kind.show
    return None if show.__name__ == "same" else show
