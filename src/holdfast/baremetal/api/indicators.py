"""/v1/nodes/<node>/management/indicators: the lights of a machine, called <light>@<component>."""

from __future__ import annotations

from typing import Any

from holdfast import errors
from holdfast.baremetal import nodes
from holdfast.baremetal.api.nodes import subject
from holdfast.baremetal.api.states import Strict
from holdfast.baremetal.drivers.base import INDICATOR_STATES, Indicator
from holdfast.baremetal.task import Task
from holdfast.web.routes import Handler, Reply, Request, Route
from holdfast.web.versions import Version as V


class IndicatorRequest(Strict):
    state: str


def index(request: Request) -> Reply:
    task = _task(request)
    supported = request.services.drivers.management(task).get_supported_indicators(task)
    found = [
        _document(request, component, name, indicator)
        for component, indicators in sorted(supported.items())
        for name, indicator in sorted(indicators.items())
    ]
    return Reply(document={"indicators": found})


def show(request: Request) -> Reply:
    task = _task(request)
    component, name, _indicator = _named(request, task)
    state = request.services.drivers.management(task).get_indicator_state(task, component, name)
    return Reply(document={"state": state})


def change(request: Request) -> Reply:
    """Without the node's lock: to find the machine in its rack is wanted most while it is busy."""
    state = request.body.state
    if state not in INDICATOR_STATES:
        raise errors.InvalidValue(f"state must be one of {', '.join(INDICATOR_STATES)}.")
    task = _task(request)
    component, name, indicator = _named(request, task)
    if indicator.readonly or state not in indicator.states:
        allowed = "nothing" if indicator.readonly else ", ".join(indicator.states)
        raise errors.InvalidValue(f"Indicator {name}@{component} cannot be set to {state!r}, but to: {allowed}.")
    request.services.drivers.management(task).set_indicator_state(task, component, name, state)
    return Reply(204)


def _task(request: Request) -> Task:
    with request.services.db.read() as connection:
        return nodes.load_task(connection, request.subject.uuid)


def _named(request: Request, task: Task) -> tuple[str, str, Indicator]:
    """Component, name and abilities of the indicator in the path."""
    given = request.path["indicator"]
    name, at, component = given.partition("@")
    supported = request.services.drivers.management(task).get_supported_indicators(task)
    if not at or name not in supported.get(component, {}):
        raise errors.NotFound(f"Node {task.node.label} has no indicator {given[:255]!r}.")
    return component, name, supported[component][name]


def _document(request: Request, component: str, name: str, indicator: Indicator) -> dict[str, Any]:
    path = f"nodes/{request.subject.uuid}/management/indicators/{name}@{component}"
    return {
        "name": f"{name}@{component}",
        "component": component,
        "readonly": indicator.readonly,
        "states": list(indicator.states),
        "links": [
            {"href": f"{request.base}/v1/{path}", "rel": "self"},
            {"href": f"{request.base}/{path}", "rel": "bookmark"},
        ],
    }


def _route(method: str, path: str, handler: Handler, verb: str, about: str, **more: Any) -> Route:
    rule = f"baremetal:node:{verb}_indicator_state"
    path = "/v1/nodes/{node}/management/indicators" + path
    return Route(method, path, handler, rule, about, since=V(1, 63), subject=subject(rule), **more)


ROUTES = [
    _route("GET", "", index, "get", "List the indicators of a node."),
    _route("GET", "/{indicator}", show, "get", "Show the state of an indicator."),
    _route("PUT", "/{indicator}", change, "set", "Set the state of an indicator.", success=204, body=IndicatorRequest),
]
