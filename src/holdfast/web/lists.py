"""Lists: `limit`, `marker`, `sort_key`, `sort_dir`, `fields`, `detail` and filters, in one place.

Pages are cut by key, not by offset: the query starts behind the marker's (sort value, id), so that a
deep page costs what the first one does. The link to the next page repeats every argument.
A list that knows a faster way to its rows than walking its table gives `page` a `Narrow`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import msgspec
from sqlalchemy import Column, ColumnElement, Connection, and_, or_, select, tuple_

from holdfast import errors
from holdfast.db.engine import fetch
from holdfast.web import kinds
from holdfast.web.plans import Hidden, Plan
from holdfast.web.resources import Filter, Resource, newer
from holdfast.web.routes import Reply, Request
from holdfast.web.versions import Version

TURN = threading.Semaphore(int(os.environ.get("TURN", "2")))
# Pages of more rows than this are made a few at a time: see `Services.large_pages`.
LARGE = 100
# Rows that are read and rendered together. All at once would take ten times the memory, and time to get it.
PART = 200
PAGING = ("limit", "marker", "sort_key", "sort_dir", "fields", "detail")


@dataclass(frozen=True)
class Window:
    """Where a page lies in its list: what filters it and how it is ordered."""

    values: Mapping[str, Any]  # what the client filters by, checked
    clauses: Mapping[str, ColumnElement[bool]]  # the same as SQL
    where: Sequence[ColumnElement[bool]]  # what limits the list besides
    size: int  # rows to find
    by_id: bool
    descending: bool
    after: int | None  # the id of the row before the page


# How one object is found: a column that no two objects share, and its value.
Key = tuple[ColumnElement[Any], Any]
# A clause that holds for every row of the page and for few others, or None if there is nothing to gain.
Narrow = Callable[[Connection, Window], ColumnElement[bool] | None]
# Further members of the answer.
Also = Callable[[Connection, Window], Mapping[str, Any]]


def page(
    request: Request,
    resource: Resource,
    *,
    where: Sequence[ColumnElement[bool]] = (),
    detail: bool = False,
    path: str | None = None,
    filters: Sequence[Filter] | None = None,
    narrow: Narrow | None = None,
    also: Also | None = None,
) -> Reply:
    """One page of a resource. `where` limits it beyond what the client asked (a parent, the caller's scope)."""
    query = request.query
    values = _filter_values(request, resource.filters if filters is None else filters)
    clauses = {entry.name: entry.clause(value) for entry, value in values}
    plan, detailed = _plan(request, resource, detail)
    limit = _limit(query.get("limit"), request.services.conf.api.max_limit)
    descending = _descending(query.get("sort_dir"))
    key = query.get("sort_key") or "id"
    sort = resource.sort_column(key, request.version)
    by_id = sort is resource.table.c.id

    with TURN, request.services.db.read() as connection:
        statement = plan.select().where(*where, *clauses.values())
        after = None
        if marker := query.get("marker"):
            after, value = _marked(connection, resource, sort, marker)
            statement = statement.where(_behind(resource, sort, after, value, descending))
        window = Window(
            values={entry.name: value for entry, value in values},
            clauses=clauses,
            where=where,
            size=limit + 1,
            by_id=by_id,
            descending=descending,
            after=after,
        )
        if narrow is not None and (narrower := narrow(connection, window)) is not None:
            statement = statement.where(narrower)
        statement = statement.order_by(*_order(resource, sort, descending)).limit(window.size)
        loaded, hidden = plan.load(connection), _hides(request, resource)
        documents: list[bytes] = []
        last, goes_on = None, False
        for rows in fetch(connection, statement, PART):
            kept = rows[: limit - len(documents)]
            documents += plan.render(kept, request.base, loaded, hidden)
            last, goes_on = (kept[-1][1] if kept else last), len(kept) < len(rows)
        more = also(connection, window) if also is not None else {}
    further = dict(more)
    if goes_on:
        again = {**query, "limit": str(limit), "marker": last}
        own = path or (resource.path + ("/detail" if detailed and detail else ""))
        further["next"] = f"{request.base}/v1/{own}?{urlencode(again)}"
    return Reply(content=_array(resource.key, documents, further))


def _array(key: str, documents: list[bytes], further: Mapping[str, Any]) -> bytes:
    """An object with a list of objects that are JSON already: megabytes, so they are copied once."""
    head, tail = b'{"%b":[' % key.encode(), b"]}"
    if further:
        tail = b"]," + msgspec.json.encode(further)[1:]
    commas = [b","] * max(0, 2 * len(documents) - 1)
    commas[0::2] = documents
    return b"".join([head, *commas, tail])


def one(request: Request, resource: Resource, key: Key, missing: str) -> msgspec.Raw:
    """One object, whole or by `fields=`; `NotFound` with the given text if there is none."""
    if "fields" in request.query:
        _fields_allowed(resource, request.version)
        chosen = resource.choose(request.query["fields"].split(","), request.version)
        plan = resource.plan(chosen, request.version)
    else:
        plan = resource.full(request.version)
    return show(request, plan, key, missing)


def show(request: Request, plan: Plan, key: Key, missing: str) -> msgspec.Raw:
    """The object a key finds, as the plan shows it."""
    column, value = key
    with request.services.db.read() as connection:
        rows = plan.by(column)(connection, value=value)
        if not rows:
            raise errors.NotFound(missing)
        return msgspec.Raw(plan.render(rows, request.base, plan.load(connection), _hides(request, plan.resource))[0])


def _hides(request: Request, resource: Resource) -> Hidden | None:
    """What decides which fields of the resource this caller must not see; None: it sees all."""
    return resource.guard.hidden(request) if resource.guard is not None else None


def _filter_values(request: Request, filters: Sequence[Filter]) -> list[tuple[Filter, Any]]:
    values = []
    for entry in filters:
        if entry.name not in request.query:
            continue
        if entry.since > request.version:
            raise newer(f"Filtering by {entry.name}", entry.since)
        values.append((entry, entry.kind.check(entry.name, request.query[entry.name])))
    return values


def _plan(request: Request, resource: Resource, detail: bool) -> tuple[Plan, bool]:
    query = request.query
    if "detail" in query:
        if request.version < resource.detail_since:
            raise errors.UnknownArgument(f"The argument detail needs API version {resource.detail_since}.")
        detail = bool(kinds.BOOLEAN.check("detail", query["detail"])) or detail
    if "fields" in query:
        if detail:
            raise errors.BadRequest("fields and detail exclude each other.")
        _fields_allowed(resource, request.version)
        chosen = resource.choose(query["fields"].split(","), request.version)
        return resource.plan(chosen, request.version), False
    return (resource.full(request.version) if detail else resource.brief(request.version)), detail


def _fields_allowed(resource: Resource, version: Version) -> None:
    if version < resource.fields_since:
        raise newer("The argument fields", resource.fields_since)


def _limit(text: str | None, most: int) -> int:
    if text is None:
        return most
    if not text.isascii() or not text.isdigit() or int(text[:18]) < 1:
        raise errors.InvalidValue("limit must be a positive integer.")
    return min(int(text[:18]), most)


def _descending(text: str | None) -> bool:
    if text not in (None, "asc", "desc"):
        raise errors.InvalidValue("sort_dir must be asc or desc.")
    return text == "desc"


def _order(resource: Resource, sort: ColumnElement[Any], descending: bool) -> list[ColumnElement[Any]]:
    """Nulls come last (first when descending) on every database: SQLite and PostgreSQL disagree by default.
    Written so that both can read the rows from an index on the sort column."""
    row_id = resource.table.c.id
    tie = row_id.desc() if descending else row_id.asc()
    if sort is row_id:
        return [tie]
    return [sort.desc().nulls_first() if descending else sort.asc().nulls_last(), tie]


def _marked(connection: Connection, resource: Resource, sort: ColumnElement[Any], marker: str) -> tuple[int, Any]:
    """The marker's id and sort value."""
    source = resource.source if resource.source is not None else resource.table
    ident = kinds.UUID.check("marker", marker) if resource.ident == "uuid" else marker
    row = connection.execute(
        select(resource.table.c.id, sort).select_from(source).where(resource.table.c[resource.ident] == ident)
    ).first()
    if row is None:
        raise errors.NotFound(f"The marker {marker} is not a {resource.noun}.")
    return row[0], row[1]


def _behind(resource: Resource, sort: ColumnElement[Any], at: int, value: Any, descending: bool) -> ColumnElement[bool]:
    row_id = resource.table.c.id
    later_id = row_id < at if descending else row_id > at
    if sort is row_id:
        return later_id
    if value is None:
        same = and_(sort.is_(None), later_id)
        return or_(same, sort.is_not(None)) if descending else same
    # A comparison of pairs is one range of an index; spelled out with OR it would not be.
    here, marked = tuple_(sort, row_id), tuple_(value, at)
    behind = here < marked if descending else here > marked
    if descending or _never_null(resource, sort):
        return behind
    return or_(behind, sort.is_(None))


def _never_null(resource: Resource, sort: ColumnElement[Any]) -> bool:
    """A column of another table may be null by the join, whatever its own table says."""
    return isinstance(sort, Column) and sort.table is resource.table and not sort.nullable
