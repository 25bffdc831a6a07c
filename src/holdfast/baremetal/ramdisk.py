"""The ramdisk's side of a node: finding it, and its heartbeats (spec 004).

Both endpoints are open to anybody on the provisioning network, so they say the same "not found" for
every reason, give an allow-list of fields, and believe nothing: the callback URL a ramdisk names first
stays until the machine is powered off or reprovisioned.
"""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import urlsplit

import msgspec
from sqlalchemy import select, update

from holdfast import errors
from holdfast.baremetal import nodes, states
from holdfast.baremetal.flows import clean_node, deploy_node, inspect_node, rescue_node
from holdfast.baremetal.flows.node_work import NodeParams
from holdfast.db import tables
from holdfast.db.engine import Database, now
from holdfast.flows.flow import Flow
from holdfast.services import Services
from holdfast.web import kinds

LOG = logging.getLogger(__name__)

# What a heartbeat sets going in each state that waits for one.
CONTINUES: dict[str, Flow[Any]] = {
    states.DEPLOYWAIT: deploy_node.CONTINUE,
    states.CLEANWAIT: clean_node.CONTINUE,
    states.INSPECTWAIT: inspect_node.CONTINUE,
    states.RESCUEWAIT: rescue_node.CONTINUE,
}


def find(db: Database, node_uuid: str | None, addresses: list[str], *, restrict: bool) -> str:
    """The UUID of the node a ramdisk runs on. One text for every reason it cannot be told."""
    table, ports = tables.nodes, tables.ports
    if node_uuid is not None:
        statement = select(table.c.uuid, table.c.provision_state).where(table.c.uuid == node_uuid)
    else:
        statement = (
            select(table.c.uuid, table.c.provision_state)
            .distinct()
            .join_from(table, ports)
            .where(ports.c.address.in_(addresses))
        )
    with db.read() as connection:
        rows = connection.execute(statement).all()
    if len(rows) != 1 or (restrict and rows[0].provision_state not in states.LOOKUP):
        raise errors.NotFound("The node could not be found.")
    return str(rows[0].uuid)


def addresses_in(text: str) -> list[str]:
    """The MAC addresses in a comma-separated list, in lower case; what is not one is left out."""
    found = []
    for part in text.split(","):
        try:
            found.append(kinds.MAC.required().check("address", part.strip()))
        except errors.InvalidValue:
            LOG.info("A ramdisk sent something that is not a MAC address; left out")
    return found


def heartbeat(services: Services, ident: str, callback_url: str, agent_version: str | None) -> None:
    """Records a ramdisk's sign of life, and goes on with what waited for it.

    A node that is locked keeps the record; the flow that holds it, or the next heartbeat, acts on it.
    """
    _check_url(callback_url)
    table = tables.nodes
    with services.db.write() as connection:
        row = nodes.find(connection, ident, lock=True)
        if services.conf.api.restrict_lookup and row.provision_state not in states.LOOKUP:
            LOG.info("Heartbeat of node %s ignored: no ramdisk is expected in %r", row.uuid, row.provision_state)
            return
        info = msgspec.json.decode(row.driver_internal_info)
        pinned = info.get("agent_url")
        if pinned and pinned != callback_url:
            raise errors.BadRequest("The callback_url differs from the one this ramdisk gave before.")
        info["agent_url"] = callback_url
        info["agent_last_heartbeat"] = now()
        if agent_version is not None:
            info["agent_version"] = agent_version
        values = {"driver_internal_info": msgspec.json.encode(info).decode()}
        if row.provision_state in states.WAITING:
            values["provision_updated_at"] = now()  # the clock of the wait starts again
        connection.execute(update(table).where(table.c.id == row.id).values(**values))
    if row.reservation is None and (flow := CONTINUES.get(row.provision_state)) is not None:
        try:
            services.flows.start(flow, NodeParams(node=row.uuid))
        except errors.HoldfastError as error:  # another heartbeat, or an operator, was faster
            LOG.info("Heartbeat of node %s recorded, not acted on: %s", row.uuid, error.public)


def _check_url(callback_url: str) -> None:
    try:
        parts = urlsplit(callback_url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
        _ = parts.port
    except ValueError:
        valid = False
    if not valid or len(callback_url) > 255:
        raise errors.InvalidValue("callback_url must be an http or https URL without credentials.")
