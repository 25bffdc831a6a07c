"""/v1/conductors: who does the work."""

from __future__ import annotations

from holdfast.baremetal import conductors
from holdfast.web import kinds, lists
from holdfast.web.kinds import BOOLEAN, TIME, text
from holdfast.web.resources import Field, Resource
from holdfast.web.routes import Reply, Request, Route
from holdfast.web.versions import Version as V

T = conductors.conductors.c

CONDUCTOR = Resource(
    noun="conductor",
    key="conductors",
    path="conductors",
    table=conductors.conductors,
    fields=[
        Field("hostname", text(255), T.hostname),
        Field("conductor_group", text(255), T.conductor_group),
        Field("alive", BOOLEAN, T.alive, sort=False),
        Field("drivers", kinds.strings(lambda _field, name: name, 1000), T.drivers, sort=False),
        Field("created_at", TIME, T.created_at),
        Field("updated_at", TIME, T.updated_at),
    ],
    summary=["hostname", "conductor_group", "alive"],
    ident="hostname",
)


def index(request: Request) -> Reply:
    return lists.page(request, CONDUCTOR)


def show(request: Request) -> Reply:
    hostname = request.path["hostname"]
    missing = conductors.missing(hostname).public
    return Reply(document=lists.one(request, CONDUCTOR, (T.hostname, hostname), missing))


GET = "baremetal:conductor:get"

ROUTES: list[Route] = [
    Route("GET", "/v1/conductors", index, GET, "List conductors.", since=V(1, 49), lists=CONDUCTOR),
    Route("GET", "/v1/conductors/{hostname}", show, GET, "Show a conductor.", since=V(1, 49), shows=CONDUCTOR),
]
