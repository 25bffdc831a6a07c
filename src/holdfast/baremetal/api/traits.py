"""/v1/nodes/<node>/traits (spec 001)."""

from __future__ import annotations

from typing import Any

from holdfast.baremetal import traits
from holdfast.baremetal.api.nodes import subject
from holdfast.baremetal.api.states import Strict
from holdfast.web.routes import Handler, Reply, Request, Route
from holdfast.web.versions import Version as V

SINCE = V(1, 37)


class TraitsRequest(Strict):
    traits: list[str]


def index(request: Request) -> Reply:
    with request.services.db.read() as connection:
        return Reply(document={"traits": traits.of_node(connection, request.subject.id)})


def replace(request: Request) -> Reply:
    names = traits.replace(request.services.db, request.subject.uuid, request.body.traits)
    return Reply(document={"traits": names})


def add(request: Request) -> Reply:
    node, name = request.subject.uuid, request.path["trait"]
    traits.add(request.services.db, node, [name])
    return Reply(204, headers={"Location": f"{request.base}/v1/nodes/{node}/traits/{name}"})


def remove(request: Request) -> Reply:
    traits.remove(request.services.db, request.subject.uuid, request.path["trait"])
    return Reply(204)


def remove_all(request: Request) -> Reply:
    traits.remove_all(request.services.db, request.subject.uuid)
    return Reply(204)


def _route(method: str, path: str, handler: Handler, verb: str, about: str, **more: Any) -> Route:
    rule = f"baremetal:node:traits:{verb}"
    path = "/v1/nodes/{node}/traits" + path
    return Route(method, path, handler, rule, about, since=SINCE, subject=subject(rule), **more)


ROUTES = [
    _route("GET", "", index, "list", "List a node's traits."),
    _route("PUT", "", replace, "set", "Replace a node's traits.", body=TraitsRequest),
    _route("DELETE", "", remove_all, "delete", "Remove all traits of a node.", success=204),
    _route("PUT", "/{trait}", add, "set", "Add a trait to a node.", success=204),
    _route("DELETE", "/{trait}", remove, "delete", "Remove a trait from a node.", success=204),
]
