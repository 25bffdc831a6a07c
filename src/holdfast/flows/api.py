"""Flows over HTTP: the list, one with its timeline, and the two verbs that repair."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

import msgspec

from holdfast import errors
from holdfast.flows import records
from holdfast.web import health
from holdfast.web.kinds import INTEGER, UUID, choice, text
from holdfast.web.routes import Api, Param, Reply, Request, Route

DEFAULT_LIMIT = 100


class Abandon(msgspec.Struct, forbid_unknown_fields=True):
    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]


def list_flows(request: Request) -> Reply:
    query = {name: value for name, value in request.query.items() if value}
    if (state := query.get("state")) is not None and state not in records.STATES:
        raise errors.InvalidValue(f"state must be one of {', '.join(records.STATES)}.")
    limit = min(_limit(query.get("limit")), request.services.conf.api.max_limit)
    with request.services.db.read() as connection:
        found = records.listing(
            connection,
            state=state,
            kind=query.get("kind"),
            subject=query.get("subject"),
            marker=query.get("marker"),
            limit=limit + 1,
        )
    document: dict[str, object] = {"flows": found[:limit]}
    if len(found) > limit:
        again = {**query, "limit": str(limit), "marker": found[limit - 1]["id"]}
        document["next"] = f"{request.base}?{urlencode(again)}"
    return Reply(document=document)


def show_flow(request: Request) -> Reply:
    return _shown(request, 200)


def retry_flow(request: Request) -> Reply:
    request.services.flows.retry(request.path["flow"])
    return _shown(request, 202)


def abandon_flow(request: Request) -> Reply:
    request.services.flows.abandon(request.path["flow"], request.body.reason)
    return _shown(request, 200)


def _shown(request: Request, status: int) -> Reply:
    with request.services.db.read() as connection:
        return Reply(status, document=records.show(connection, request.path["flow"]))


def _limit(given: str | None) -> int:
    if given is None:
        return DEFAULT_LIMIT
    if not (given.isascii() and given.isdigit() and int(given[:9]) > 0):
        raise errors.InvalidValue("limit must be a positive integer.")
    return int(given[:9])


FILTERS = [
    Param("state", choice(*records.STATES), about="Only flows in this state."),
    Param("kind", text(64), about="Only flows of this kind."),
    Param("subject", text(255), about="Only flows that work on this: the UUID of a node, say."),
    Param("limit", INTEGER, about="Most flows in one page."),
    Param("marker", UUID, about="The last flow of the page before."),
]
GET, REPAIR = "holdfast:flow:get", "holdfast:flow:repair"
ROUTES = [
    Route("GET", "", list_flows, GET, "Flows, newest first.", query=FILTERS),
    Route("GET", "/{flow}", show_flow, GET, "One flow, with the timeline of its steps and what to do next."),
    Route("POST", "/{flow}/retry", retry_flow, REPAIR, "Carries a stuck flow on where it got stuck.", success=202),
    Route(
        "POST",
        "/{flow}/abandon",
        abandon_flow,
        REPAIR,
        "Gives a flow up and releases what it holds.",
        body=Abandon,
    ),
]

API = Api("flows", "/flows", ROUTES, None, health.error_body)
