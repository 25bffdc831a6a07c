"""Every route of the service with something real to call it on, generated from the route tables."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import uuid4

from sqlalchemy import update

from holdfast.app import APIS
from holdfast.db.tables import nodes
from holdfast.web.resources import Resource
from holdfast.web.routes import Api, Route
from tests.application import Application

PARAM = re.compile(r"\{(\w+)\}")


class Endpoint(NamedTuple):
    api: Api
    route: Route

    def __str__(self) -> str:
        return f"{self.route.method} {self.api.prefix}{self.route.path}"


ENDPOINTS = [Endpoint(api, route) for api in APIS for route in api.routes]


def mac() -> str:
    return "52:54:00:" + ":".join(re.findall("..", uuid4().hex[:6]))


@lru_cache(maxsize=1)
def owner(api: Application) -> str:
    """The node that ports and volumes belong to, one for each application. It is off: else volumes cannot change."""
    (uuid,) = api.enrol()
    with api.services.db.write() as connection:
        connection.execute(update(nodes).where(nodes.c.uuid == uuid).values(power_state="power off"))
    return uuid


# collection: a document that creates something in it
DOCUMENTS: dict[str, Callable[[Application], dict[str, Any]]] = {
    "/v1/nodes": lambda api: {"driver": "fake-hardware"},
    "/v1/chassis": lambda api: {"description": "rack"},
    "/v1/ports": lambda api: {"address": mac(), "node_uuid": owner(api)},
    "/v1/portgroups": lambda api: {"address": mac(), "node_uuid": owner(api)},
    "/v1/volume/connectors": lambda api: {
        "node_uuid": owner(api),
        "type": "iqn",
        "connector_id": f"iqn.2024-01.test:{uuid4()}",
    },
    "/v1/volume/targets": lambda api: {
        "node_uuid": owner(api),
        "volume_type": "iscsi",
        "boot_index": uuid4().int % 10**9,
        "volume_id": str(uuid4()),
    },
    "/v1/allocations": lambda api: {"resource_class": "swept"},
    "/v1/deploy_templates": lambda api: {
        "name": f"CUSTOM_{uuid4().hex.upper()}",
        "steps": [{"interface": "deploy", "step": "deploy", "args": {}, "priority": 90}],
    },
}

# path elements that name no object of ours
WORDS = {
    "driver": "fake-hardware",
    "setting": "BootMode",
    "method": "echo",
    "version": "v3",
    "trait": "CUSTOM_SWEPT",
    "step": "power",
    "indicator": "led@chassis",
}


def fill(api: Application, endpoint: Endpoint, **given: str) -> str:
    """The endpoint's path with objects that exist (or the given elements) in place of its parameters."""
    path = endpoint.route.path
    while match := PARAM.search(path):
        name, collection = match[1], path[: match.start() - 1]
        if name in given:
            value = given[name]
        elif collection in DOCUMENTS:
            value = create(api, collection)
        elif name == "node":
            value = api.enrol()[0]
        else:
            value = WORDS.get(name, str(uuid4()))
        path = path[: match.start()] + value + path[match.end() :]
    return endpoint.api.prefix + path or "/"


def create(api: Application, collection: str) -> str:
    return str(api.send("POST", collection, DOCUMENTS[collection](api))["uuid"])


def valid_body(api: Application, route: Route) -> Any:
    """A body the route accepts, as far as its table tells."""
    if isinstance(route.body, Resource):
        return DOCUMENTS[route.path](api)
    if route.body is list:
        return []
    if route.body is dict or route.body is None:
        return {}
    return BODIES.get(route.body.__name__, {})


# request struct: a body in its form
BODIES: dict[str, dict[str, Any]] = {
    "PowerRequest": {"target": "power on"},
    "ProvisionRequest": {"target": "manage"},
    "ConsoleRequest": {"enabled": True},
    "MaintenanceRequest": {"reason": "swept"},
    "BootDeviceRequest": {"boot_device": "pxe"},
    "HeartbeatRequest": {"callback_url": "http://127.0.0.1:9999/"},
    "IndicatorRequest": {"state": "on"},
    "EventsRequest": {
        "events": [
            {
                "event": "network.bind_port",
                "port_id": "2e6f3a3c-9c9b-4a5d-8d7c-1a2b3c4d5e6f",
                "mac_address": "52:54:00:12:34:56",
                "status": "ACTIVE",
            }
        ]
    },
    "TraitsRequest": {"traits": ["CUSTOM_SWEPT"]},
    "Abandon": {"reason": "swept"},
}
