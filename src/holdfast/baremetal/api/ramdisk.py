"""/v1/lookup and /v1/heartbeat: what a ramdisk may ask without credentials."""

from __future__ import annotations

import msgspec

from holdfast import errors
from holdfast.baremetal import ramdisk
from holdfast.baremetal.api.nodes import NODE, ident
from holdfast.baremetal.api.states import Strict
from holdfast.db import tables
from holdfast.web import lists, metrics
from holdfast.web.kinds import UUID, text
from holdfast.web.routes import Param, Reply, Request, Route
from holdfast.web.versions import Version as V

# All a stranger on the provisioning network gets to see of a node.
SHOWN = ("uuid", "properties", "instance_info", "driver_internal_info")


class HeartbeatRequest(Strict):
    callback_url: str
    agent_version: str | None = None
    agent_token: str | None = None
    agent_verify_ca: str | None = None
    agent_status: str | None = None
    agent_status_message: str | None = None


# What heartbeats may say, and since when.
SAID_SINCE = {
    "agent_version": V(1, 36),
    "agent_verify_ca": V(1, 68),
    "agent_status": V(1, 72),
    "agent_status_message": V(1, 72),
}
TOKENS = V(1, 62)


def lookup(request: Request) -> Reply:
    node_uuid = UUID.check("node_uuid", request.query.get("node_uuid") or None)
    addresses = [] if node_uuid else ramdisk.addresses_in(request.query.get("addresses", ""))
    if node_uuid is None and not addresses:
        raise errors.BadRequest("A lookup needs node_uuid, or addresses with at least one MAC address.")
    services = request.services
    uuid = ramdisk.find(services.db, node_uuid, addresses, restrict=services.conf.api.restrict_lookup)
    token = ramdisk.issue_token(services.db, uuid) if request.version >= TOKENS else None
    plan = NODE.plan([NODE.by_name[name] for name in SHOWN], request.version, full=False)
    with services.db.read() as connection:
        node = lists.show(connection, plan, tables.nodes.c.uuid == uuid, request.base, "The node could not be found.")
    return Reply(document={"node": node, "config": _config(services.conf.api.ramdisk_heartbeat_timeout, token)})


def heartbeat(request: Request) -> Reply:
    body: HeartbeatRequest = request.body
    for name, since in SAID_SINCE.items():
        if getattr(body, name) is not None and request.version < since:
            raise errors.InvalidValue(f"{name} needs API version {since} or later.")
    beat = ramdisk.Beat(**msgspec.structs.asdict(body))
    try:
        ramdisk.heartbeat(request.services, ident(request), beat, token_required=request.version >= TOKENS)
    except errors.HoldfastError:
        metrics.HEARTBEATS.labels("refused").inc()
        raise
    metrics.HEARTBEATS.labels("recorded").inc()
    return Reply(202)


def _config(heartbeat_timeout: int, token: str | None) -> dict[str, object]:
    return {
        "heartbeat_timeout": heartbeat_timeout,
        "agent_token": token,
        "agent_token_required": True,
        "metrics": {
            "backend": "noop",
            "prepend_host": False,
            "prepend_uuid": False,
            "prepend_host_reverse": True,
            "global_prefix": None,
        },
        "metrics_statsd": {"statsd_host": "localhost", "statsd_port": 8125},
    }


ROUTES = [
    Route(
        "GET",
        "/v1/lookup",
        lookup,
        None,
        "Find the node a ramdisk runs on.",
        since=V(1, 22),
        query=[Param("addresses", text(4096)), Param("node_uuid", UUID)],
    ),
    Route(
        "POST",
        "/v1/heartbeat/{node}",
        heartbeat,
        None,
        "Record a ramdisk's sign of life.",
        since=V(1, 22),
        success=202,
        body=HeartbeatRequest,
    ),
]
