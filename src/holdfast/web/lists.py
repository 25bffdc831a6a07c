"""Lists: `limit`, `marker`, `sort_key`, `sort_dir`, `fields`, `detail` and filters, in one place.

Pages are cut by key, not by offset: the query starts behind the marker's (sort value, id), so that a
deep page costs what the first one does. The link to the next page repeats every argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from sqlalchemy import ColumnElement, Connection, and_, or_, select

from holdfast import errors
from holdfast.web import kinds
from holdfast.web.resources import Filter, Plan, Resource, newer
from holdfast.web.routes import Reply, Request
from holdfast.web.versions import Version

PAGING = ("limit", "marker", "sort_key", "sort_dir", "fields", "detail")


def page(
    request: Request,
    resource: Resource,
    *,
    where: Sequence[ColumnElement[bool]] = (),
    detail: bool = False,
    path: str | None = None,
    filters: Sequence[Filter] | None = None,
) -> Reply:
    """One page of a resource. `where` limits it beyond what the client asked (a parent, the caller's scope)."""
    query = request.query
    clauses = [*where, *_filter_clauses(request, resource.filters if filters is None else filters)]
    plan, detailed = _plan(request, resource, detail)
    limit = _limit(query.get("limit"), request.services.conf.api.max_limit)
    descending = _descending(query.get("sort_dir"))
    key = query.get("sort_key") or "id"
    sort = resource.sort_column(key, request.version)
    with request.services.db.read() as connection:
        statement = plan.select().where(*clauses)
        if marker := query.get("marker"):
            statement = statement.where(_behind(connection, resource, sort, marker, descending))
        rows = connection.execute(statement.order_by(*_order(resource, sort, descending)).limit(limit + 1)).all()
        documents = plan.render(connection, rows[:limit], request.base)
    document: dict[str, Any] = {resource.key: documents}
    if len(rows) > limit:
        again = {**query, "limit": str(limit), "marker": rows[limit - 1][1]}
        own = path or (resource.path + ("/detail" if detailed and detail else ""))
        document["next"] = f"{request.base}/v1/{own}?{urlencode(again)}"
    return Reply(document=document)


def one(request: Request, resource: Resource, where: ColumnElement[bool], missing: str) -> dict[str, Any]:
    """One object, whole or by `fields=`; `NotFound` with the given text if there is none."""
    if "fields" in request.query:
        _fields_allowed(resource, request.version)
        chosen = resource.choose(request.query["fields"].split(","), request.version)
        plan = resource.plan(chosen, request.version, full=False)
    else:
        plan = resource.full(request.version)
    with request.services.db.read() as connection:
        return show(connection, plan, where, request.base, missing)


def show(connection: Connection, plan: Plan, where: ColumnElement[bool], base: str, missing: str) -> dict[str, Any]:
    row = connection.execute(plan.select().where(where)).first()
    if row is None:
        raise errors.NotFound(missing)
    return plan.render(connection, [row], base)[0]


def _filter_clauses(request: Request, filters: Sequence[Filter]) -> list[ColumnElement[bool]]:
    clauses = []
    for entry in filters:
        if entry.name not in request.query:
            continue
        if entry.since > request.version:
            raise newer(f"Filtering by {entry.name}", entry.since)
        value = entry.kind.check(entry.name, request.query[entry.name])
        clauses.append(entry.clause(value))
    return clauses


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
        return resource.plan(chosen, request.version, full=False), False
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
    """Nulls come last (first when descending) on every database: SQLite and PostgreSQL disagree by default."""
    row_id = resource.table.c.id
    keys = [row_id] if sort is row_id else [sort.is_(None), sort, row_id]
    return [key.desc() if descending else key for key in keys]


def _behind(
    connection: Connection, resource: Resource, sort: ColumnElement[Any], marker: str, descending: bool
) -> ColumnElement[bool]:
    source = resource.source if resource.source is not None else resource.table
    ident = kinds.UUID.check("marker", marker) if resource.ident == "uuid" else marker
    row_id = resource.table.c.id
    row = connection.execute(
        select(row_id, sort).select_from(source).where(resource.table.c[resource.ident] == ident)
    ).first()
    if row is None:
        raise errors.NotFound(f"The marker {marker} is not a {resource.noun}.")
    at, value = row
    later_id: ColumnElement[bool] = row_id < at if descending else row_id > at
    if sort is row_id:
        return later_id
    if value is None:
        same = and_(sort.is_(None), later_id)
        return or_(same, sort.is_not(None)) if descending else same
    later = sort < value if descending else sort > value
    behind = or_(later, and_(sort == value, later_id))
    return behind if descending else or_(behind, sort.is_(None))
