"""What a ramdisk may ask without credentials: /v1/lookup, /v1/heartbeat, /v1/continue_inspection, and the
vendor passthru that was there before the first two (spec 004), for ramdisks as old as that.

`ROUTES` is also all that the listener for ramdisks serves of this API (`[api] ramdisk_port`).
"""

from __future__ import annotations

import functools
import logging
from typing import Any

import msgspec
from sqlalchemy import Row

from holdfast import errors, secrets
from holdfast.baremetal import inventories, ramdisk
from holdfast.baremetal.api.states import Strict
from holdfast.baremetal.drivers.agent.inventory import mac_addresses
from holdfast.baremetal.states import INSPECTWAIT
from holdfast.services import Services
from holdfast.web import metrics
from holdfast.web.kinds import UUID, text
from holdfast.web.routes import Handler, Param, Reply, Request, Route
from holdfast.web.versions import Version as V

LOG = logging.getLogger(__name__)

# All a stranger on the provisioning network gets to see of a node, beside its links.
SHOWN = ("properties", "instance_info", "driver_internal_info")


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
INSPECTION = V(1, 84)


def limited(handler: Handler) -> Handler:
    """A handler that one address may call only so often."""

    @functools.wraps(handler)
    def guarded(request: Request) -> Reply:
        request.services.ramdisk_limit.take(request.remote)
        return handler(request)

    return guarded


def lookup(request: Request) -> Reply:
    node_uuid = UUID.check("node_uuid", request.query.get("node_uuid") or None)
    addresses = [] if node_uuid else ramdisk.addresses_in(request.query.get("addresses", ""))
    if node_uuid is None and not addresses:
        raise errors.BadRequest("A lookup needs node_uuid, or addresses with at least one MAC address.")
    return Reply(document=_found(request, node_uuid, addresses, wants_token=request.version >= TOKENS))


def heartbeat(request: Request) -> Reply:
    body: HeartbeatRequest = request.body
    for name, since in SAID_SINCE.items():
        if getattr(body, name) is not None and request.version < since:
            raise errors.InvalidValue(f"{name} needs API version {since} or later.")
    beat = ramdisk.Beat(**msgspec.structs.asdict(body))
    return _record(request, beat, token_required=request.version >= TOKENS)


def continue_inspection(request: Request) -> Reply:
    """Without a version, which is how agents send it, the answer is the node's UUID; from 1.84 on that of a lookup."""
    if V(1, 1) < request.version < INSPECTION:
        raise errors.NotFound("The resource could not be found.")
    node_uuid = UUID.check("node_uuid", request.query.get("node_uuid") or None)
    inventory = request.body.get("inventory")
    addresses = mac_addresses(inventory) if isinstance(inventory, dict) else []
    if not addresses:
        raise errors.BadRequest("A report needs an inventory with at least one interface that has a mac_address.")
    services = request.services
    uuid = inventories.keep(services.db, node_uuid, addresses, request.body)
    document: dict[str, Any] = {"uuid": uuid}
    if request.version >= INSPECTION:
        document = _found(request, uuid, [], wants_token=True)
    ramdisk.act(services, uuid, INSPECTWAIT, {})
    return Reply(202, document=document)


# -- what old ramdisks call


def old_lookup(request: Request) -> Reply:
    _deprecated(request, "/v1/lookup")
    body: dict[str, Any] = request.body
    node_uuid = UUID.check("node_uuid", body.get("node_uuid") or None)
    inventory = body.get("inventory")
    addresses = mac_addresses(inventory) if isinstance(inventory, dict) else []
    if node_uuid is None and not addresses:
        raise errors.BadRequest("A lookup needs node_uuid, or an inventory with the mac_address of an interface.")
    document = _found(request, node_uuid, addresses, wants_token=False)
    timeout = request.services.conf.api.ramdisk_heartbeat_timeout
    return Reply(document={"heartbeat_timeout": timeout, "node": document["node"]})


def old_heartbeat(request: Request) -> Reply:
    _deprecated(request, "/v1/heartbeat")
    url, version = request.body.get("agent_url"), request.body.get("agent_version")
    if not isinstance(url, str) or not isinstance(version, str | None):
        raise errors.InvalidValue("A heartbeat needs agent_url.")
    return _record(request, ramdisk.Beat(url, version), token_required=False)


def _deprecated(request: Request, instead: str) -> None:
    LOG.warning("A ramdisk at %s uses the deprecated vendor passthru; a newer one uses %s", request.remote, instead)


def _record(request: Request, beat: ramdisk.Beat, *, token_required: bool) -> Reply:
    try:
        ramdisk.heartbeat(request.services, request.path["node"], beat, token_required=token_required)
    except errors.HoldfastError:
        metrics.HEARTBEATS.labels("refused").inc()
        raise
    metrics.HEARTBEATS.labels("recorded").inc()
    return Reply(202)


def _found(request: Request, node_uuid: str | None, addresses: list[str], *, wants_token: bool) -> dict[str, Any]:
    services = request.services
    row, token = ramdisk.look_up(services, node_uuid, addresses, wants_token=wants_token)
    return {"node": _document(row, request.base), "config": _config(services, token)}


def _document(row: Row[Any], base: str) -> dict[str, Any]:
    return {
        "uuid": row.uuid,
        **{name: msgspec.Raw(secrets.mask_json(getattr(row, name)).encode()) for name in SHOWN},
        "links": [
            {"href": f"{base}/v1/nodes/{row.uuid}", "rel": "self"},
            {"href": f"{base}/nodes/{row.uuid}", "rel": "bookmark"},
        ],
    }


def _config(services: Services, token: str | None) -> dict[str, object]:
    return {
        "heartbeat_timeout": services.conf.api.ramdisk_heartbeat_timeout,
        "agent_token": token,
        "agent_token_required": True,
        "agent_md5_checksum_enable": False,
        "disable_deep_image_inspection": False,
        "permitted_image_formats": ["raw", "qcow2"],
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
        limited(lookup),
        None,
        "Find the node a ramdisk runs on.",
        since=V(1, 22),
        query=[Param("addresses", text(4096)), Param("node_uuid", UUID)],
    ),
    Route(
        "POST",
        "/v1/heartbeat/{node}",
        limited(heartbeat),
        None,
        "Record a ramdisk's sign of life.",
        since=V(1, 22),
        success=202,
        body=HeartbeatRequest,
    ),
    Route(
        "POST",
        "/v1/continue_inspection",
        limited(continue_inspection),
        None,
        "Take an inspection ramdisk's report of a machine.",
        success=202,
        body=dict,
        body_limit="max_json_body_size_inspection",
        query=[Param("node_uuid", UUID)],
    ),
    Route(
        "POST",
        "/v1/drivers/{driver}/vendor_passthru/lookup",
        limited(old_lookup),
        None,
        "Deprecated: find the node an old ramdisk runs on.",
        body=dict,
    ),
    Route(
        "POST",
        "/v1/nodes/{node}/vendor_passthru/heartbeat",
        limited(old_heartbeat),
        None,
        "Deprecated: record an old ramdisk's sign of life.",
        success=202,
        body=dict,
    ),
]
