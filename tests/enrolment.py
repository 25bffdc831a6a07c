"""Nodes for tests, enrolled through the API, in process or over HTTP alike."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

# What to ask for, one after the other, to bring a new node into a state.
ROADS: dict[str, tuple[str, ...]] = {
    "enroll": (),
    "manageable": ("manage",),
    "available": ("manage", "provide"),
    "active": ("manage", "provide", "active"),
}

# (method, path below the API's prefix, body) -> the document of a successful answer
Send = Callable[[str, str, Any], Any]


def enrol(send: Send, count: int = 1, *, state: str = "enroll", **fields: Any) -> list[str]:
    """The UUIDs of new fake-hardware nodes in that state. `fields` go into every POST; a name gets a number."""
    uuids = []
    for number in range(count):
        body = {"driver": "fake-hardware", **fields}
        if count > 1 and "name" in body:
            body["name"] = f"{body['name']}-{number}"
        uuids.append(str(send("POST", "/v1/nodes", body)["uuid"]))
    for verb in ROADS[state]:
        for uuid in uuids:
            send("PUT", f"/v1/nodes/{uuid}/states/provision", {"target": verb})
        for uuid in uuids:
            settle(send, uuid)
    return uuids


def settle(send: Send, node: str, *, wanted: str | None = None, seconds: float = 30) -> dict[str, Any]:
    """The node once nothing works on it any more (and, if given, once it is in the wanted state)."""
    until = time.monotonic() + seconds
    while True:
        document: dict[str, Any] = send("GET", f"/v1/nodes/{node}", None)
        busy = document["reservation"] is not None or document["target_power_state"] is not None
        if not busy and document["provision_state"] == (wanted or document["provision_state"]):
            return document
        if time.monotonic() > until:
            shown = {k: document[k] for k in ("provision_state", "reservation", "last_error", "target_power_state")}
            raise AssertionError(f"Node {node} did not settle in {wanted or 'any state'}: {shown}")
        time.sleep(0.02)
