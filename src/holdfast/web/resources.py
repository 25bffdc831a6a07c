"""The resource table: each API resource is declared once, as data.

From a `Resource` come the JSON of one object and of lists, `fields=`, sort keys, the rules of POST and
PATCH, version gating, and the OpenAPI schemas. A new field is one line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Connection, FromClause

from holdfast import errors, secrets
from holdfast.web import patch
from holdfast.web.kinds import Kind
from holdfast.web.plans import Hidden, Load, Plan
from holdfast.web.versions import Version

if TYPE_CHECKING:
    from holdfast.web.routes import Request

V1_1 = Version(1, 1)
V1_43 = Version(1, 43)

# reads once for all rows; then the field's value for a row's id, as JSON text
Loader = Callable[[Connection], Load]

REDACTED = "** Redacted: your project may not see this. **"


@dataclass(frozen=True)
class Field:
    """One attribute. `writable` says where a client may set it; `load` fills it for all rows at
    once when they do not hold it; `shown` adapts the value to older versions; `inner` lists keys
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
    None for a caller who sees everything, else what decides by them. Such a caller reads `instead`, in an
    object below the key `under`."""

    columns: Sequence[ColumnElement[Any]]
    hidden: Callable[[Request], Hidden | None]
    instead: str = REDACTED
    under: str = "content"


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

    def plan(self, fields: Sequence[Field], version: Version, links: Sequence[str] = ("links",)) -> Plan:
        return Plan(self, fields, version, links)

    @cached_property
    def _plans(self) -> dict[tuple[Version, bool], Plan]:
        """Of whole objects and of plain lists; what nearly every request asks for is worked out once."""
        return {}

    def full(self, version: Version) -> Plan:
        """Everything this version knows, links to sub-collections included."""
        plan = self._plans.get((version, True))
        if plan is None:
            plan = self._plans[version, True] = self.plan(
                self.visible(version), version, ("links", *(link.name for link in self.links if link.since <= version))
            )
        return plan

    def brief(self, version: Version) -> Plan:
        """The columns of a plain list."""
        plan = self._plans.get((version, False))
        if plan is None:
            fields = [self.by_name[name] for name in self.summary if self.by_name[name].since <= version]
            plan = self._plans[version, False] = self.plan(fields, version)
        return plan


def newer(what: str, since: Version) -> errors.NewerVersionNeeded:
    return errors.NewerVersionNeeded(f"{what} needs API version {since} or later.")
