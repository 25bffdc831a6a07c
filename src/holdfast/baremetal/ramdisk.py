"""The ramdisk's side of a node: finding it, and its heartbeats (spec 004).

Both endpoints are open to anybody on the provisioning network, so they say the same "not found" for
every reason, give an allow-list of fields, and believe nothing: the callback URL a ramdisk names first
stays until the machine is powered off or reprovisioned. From 1.62 on the first lookup of a boot gives the
ramdisk a token, once; whoever cannot show it is not the ramdisk.
"""

from __future__ import annotations

import hmac
import logging
import secrets as randomness
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import msgspec
from sqlalchemy import select, update

from holdfast import errors, secrets
from holdfast.baremetal import nodes, states
from holdfast.baremetal.flows import abort_node, clean_node, deploy_node, inspect_node, rescue_node
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


TOKEN = "agent_secret_token"  # noqa: S105
# What a ramdisk may say of its own work; the words are those of kickstart and its like.
STATUSES = ("start", "end", "error")


def issue_token(db: Database, uuid: str) -> str:
    """The token of this boot, if this is the first to ask for it; afterwards only that there is one.

    One write that also reads: of two who ask at the same moment one gets it.
    """
    table = tables.nodes
    with db.write() as connection:
        row = nodes.find(connection, uuid, lock=True)
        info = msgspec.json.decode(row.driver_internal_info)
        if info.get(TOKEN):
            return secrets.MASK
        info[TOKEN] = token = randomness.token_urlsafe(32)
        stored = msgspec.json.encode(info).decode()
        connection.execute(update(table).where(table.c.id == row.id).values(driver_internal_info=stored))
        return token


@dataclass(frozen=True)
class Beat:
    """What a ramdisk says in a heartbeat."""

    callback_url: str
    agent_version: str | None = None
    agent_token: str | None = None
    agent_verify_ca: str | None = None
    agent_status: str | None = None
    agent_status_message: str | None = None


def heartbeat(services: Services, ident: str, beat: Beat, *, token_required: bool) -> None:
    """Records a ramdisk's sign of life, and goes on with what waited for it.

    A node that is locked keeps the record; the flow that holds it, or the next heartbeat, acts on it.
    """
    _check_beat(beat)
    table = tables.nodes
    with services.db.write() as connection:
        row = nodes.find(connection, ident, lock=True)
        if services.conf.api.restrict_lookup and row.provision_state not in states.LOOKUP:
            LOG.info("Heartbeat of node %s ignored: no ramdisk is expected in %r", row.uuid, row.provision_state)
            return
        info = msgspec.json.decode(row.driver_internal_info)
        _require_token(info, beat.agent_token, token_required)
        for key, given in (("agent_url", beat.callback_url), ("agent_verify_ca", beat.agent_verify_ca)):
            if info.get(key) and given != info[key]:
                what = "callback_url" if key == "agent_url" else key
                raise errors.BadRequest(f"The {what} differs from the one this ramdisk gave before.")
        said = {
            "agent_url": beat.callback_url or None,
            "agent_version": beat.agent_version,
            "agent_verify_ca": beat.agent_verify_ca,
            "agent_status": beat.agent_status,
            "agent_status_message": beat.agent_status_message,
        }
        info.update({key: value for key, value in said.items() if value is not None})
        info["agent_last_heartbeat"] = now()
        values = {"driver_internal_info": msgspec.json.encode(info).decode()}
        if row.provision_state in states.WAITING:
            values["provision_updated_at"] = now()  # the clock of the wait starts again
        connection.execute(update(table).where(table.c.id == row.id).values(**values))
    if row.reservation is None and beat.agent_status != "start" and row.provision_state in CONTINUES:
        try:
            if beat.agent_status == "error":
                reason = f"The ramdisk reports: {beat.agent_status_message or 'an error'}"
                params = abort_node.AbortParams(node=row.uuid, event="fail", reason=secrets.mask_text(reason))
                services.flows.start(abort_node.ABORT, params)
            else:
                services.flows.start(CONTINUES[row.provision_state], NodeParams(node=row.uuid))
        except errors.HoldfastError as error:  # another heartbeat, or an operator, was faster
            LOG.info("Heartbeat of node %s recorded, not acted on: %s", row.uuid, error.public)


def _require_token(info: dict[str, Any], given: str | None, required: bool) -> None:
    """A token that was issued is asked for in every version: an older one must not be a way around it."""
    known = info.get(TOKEN)
    if known is None and not required:
        return
    if not given:
        raise errors.BadRequest("The heartbeat needs the agent_token that the lookup gave.")
    if not hmac.compare_digest(str(known or "").encode(), given.encode()):
        raise errors.BadRequest("The agent_token is not the one of this boot.")


def _check_beat(beat: Beat) -> None:
    if beat.callback_url or beat.agent_status is None:  # who only reports cannot be called back
        _check_url(beat.callback_url)
    if beat.agent_status not in (None, *STATUSES):
        raise errors.InvalidValue(f"agent_status must be one of {', '.join(STATUSES)}.")
    for name, most in (("agent_version", 255), ("agent_verify_ca", 65536), ("agent_status_message", 4096)):
        if len(getattr(beat, name) or "") > most:
            raise errors.InvalidValue(f"{name} must have at most {most} characters.")


def _check_url(callback_url: str) -> None:
    try:
        parts = urlsplit(callback_url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
        _ = parts.port
    except ValueError:
        valid = False
    if not valid or len(callback_url) > 255:
        raise errors.InvalidValue("callback_url must be an http or https URL without credentials.")
