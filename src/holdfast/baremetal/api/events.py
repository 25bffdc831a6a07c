"""/v1/events: what other services tell about things they look after for us. Checked and logged."""

from __future__ import annotations

import logging
from typing import Literal

import msgspec

from holdfast import errors
from holdfast.baremetal.api.states import Strict
from holdfast.web.kinds import MAC, UUID
from holdfast.web.routes import Reply, Request, Route
from holdfast.web.versions import Version as V

LOG = logging.getLogger(__name__)

MOST = 1000


class NetworkEvent(Strict):
    """Something happened to a Neutron port."""

    event: Literal["network.bind_port", "network.unbind_port", "network.delete_port"]
    port_id: str
    mac_address: str
    status: str
    device_id: str | None = None
    host_id: str | None = msgspec.field(name="binding:host_id", default=None)
    vnic_type: str | None = msgspec.field(name="binding:vnic_type", default=None)


class EventsRequest(Strict):
    events: list[NetworkEvent]


def post(request: Request) -> Reply:
    body: EventsRequest = request.body
    if not 1 <= len(body.events) <= MOST:
        raise errors.InvalidValue(f"events must be a list of 1 to {MOST} events.")
    for event in body.events:
        port, address = UUID.check("port_id", event.port_id), MAC.check("mac_address", event.mac_address)
        UUID.check("device_id", event.device_id)
        LOG.info("%s: Neutron port %s with address %s is %r", event.event, port, address, event.status[:80])
    return Reply(204)


ROUTES = [
    Route(
        "POST",
        "/v1/events",
        post,
        "baremetal:events:post",
        "Tell what happened in another service.",
        since=V(1, 54),
        success=204,
        body=EventsRequest,
    )
]
