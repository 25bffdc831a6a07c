"""The ramdisk's side of a node: finding it, and its heartbeats (spec 004).

Both endpoints are open to anybody on the provisioning network, so they say the same "not found" for
every reason, give an allow-list of fields, and believe nothing:

- the token is given once per boot, in one atomic write, and a heartbeat without it is refused;
- the callback URL and the certificate of the first heartbeat stay until the machine is switched off.

A heartbeat is one read and one write, and never waits for the node's lock: it is recorded, in
`nodes.heartbeat_pending` too, and the flow that goes on with the node's work is started behind it. If another
flow has the node, that one sees the record when it ends; `upkeep` starts what is left over.
"""

from __future__ import annotations

import hmac
import logging
import secrets as randomness
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, bindparam, func, select, update

from holdfast import errors, secrets
from holdfast.baremetal import boot_progress, callback_urls, nodes, states
from holdfast.baremetal.flows import abort_node, clean_node, deploy_node, inspect_node, rescue_node
from holdfast.baremetal.flows.node_work import NodeParams
from holdfast.db import tables
from holdfast.db.engine import Database, ago, now
from holdfast.db.prepared import Prepared
from holdfast.flows.flow import Flow
from holdfast.services import Services
from holdfast.web import kinds

LOG = logging.getLogger(__name__)

TOKEN = "agent_secret_token"  # noqa: S105
# What a ramdisk may say of its own work; the words are those of kickstart and its like.
STATUSES = ("start", "end", "error")
LENGTHS = {"agent_version": 255, "agent_verify_ca": 65536, "agent_status_message": 4096, "agent_token": 255}
# Tries against others who write the node at the same moment.
TRIES = 5
# Seconds that a heartbeat waits for the flow it started before somebody else makes up for it.
PATIENCE = 5

# What a heartbeat sets going in each state that waits for one.
CONTINUES: dict[str, Flow[Any]] = {
    states.DEPLOYWAIT: deploy_node.CONTINUE,
    states.CLEANWAIT: clean_node.CONTINUE,
    states.INSPECTWAIT: inspect_node.CONTINUE,
    states.RESCUEWAIT: rescue_node.CONTINUE,
}


@dataclass(frozen=True)
class Beat:
    """What a ramdisk says in a heartbeat."""

    callback_url: str
    agent_version: str | None = None
    agent_token: str | None = None
    agent_verify_ca: str | None = None
    agent_status: str | None = None
    agent_status_message: str | None = None


def missing() -> errors.NotFound:
    """The one answer for a node that is unknown, ambiguous, or expects no ramdisk."""
    return errors.NotFound("The node could not be found.")


def find(db: Database, node_uuid: str | None, addresses: list[str], *, restrict: bool) -> Row[Any]:
    """The node a ramdisk runs on."""
    with db.read() as connection:
        if node_uuid is not None:
            rows = _BY_UUID.all(connection, uuid=node_uuid)
        else:
            values = {f"address_{number}": address for number, address in enumerate(addresses)}
            rows = _by_addresses(len(addresses)).all(connection, **values)
    if len(rows) != 1 or (restrict and rows[0].provision_state not in states.LOOKUP):
        raise missing()
    return rows[0]


_BY_UUID = Prepared(select(tables.nodes).where(tables.nodes.c.uuid == bindparam("uuid")))


@lru_cache(maxsize=16)
def _by_addresses(count: int) -> Prepared:
    """Nodes that have a port with one of so many addresses; two of them are as bad as more."""
    ports, table = tables.ports, tables.nodes
    matching = ports.c.address.in_([bindparam(f"address_{number}") for number in range(count)])
    return Prepared(select(table).where(table.c.id.in_(select(ports.c.node_id).where(matching))).limit(2))


def addresses_in(text: str) -> list[str]:
    """The MAC addresses in a comma-separated list, in lower case; what is not one is left out."""
    found = []
    for part in text.split(","):
        try:
            found.append(kinds.MAC.required().check("address", part.strip()))
        except errors.InvalidValue:
            LOG.info("A ramdisk sent something that is not a MAC address; left out")
    return found


def look_up(
    services: Services, node_uuid: str | None, addresses: list[str], *, wants_token: bool
) -> tuple[Row[Any], str | None]:
    """The node, and the token of this boot: itself to the first who asks, a mask to everybody after."""
    restrict = services.conf.api.restrict_lookup
    for _ in range(TRIES):
        row = find(services.db, node_uuid, addresses, restrict=restrict)
        info = msgspec.json.decode(row.driver_internal_info)
        token = None
        marked = boot_progress.reached(info, boot_progress.LOOKUP)
        if wants_token:
            token = secrets.MASK if info.get(TOKEN) else randomness.token_urlsafe(32)
            if token != secrets.MASK:
                marked[TOKEN] = token
        if marked == info or _replace(services.db, row, marked):
            return row, token
    raise errors.Conflict("The node is being changed; try again.")


def heartbeat(services: Services, ident: str, beat: Beat, *, token_required: bool) -> None:
    """Records a ramdisk's sign of life, and goes on with what waited for it."""
    _check(services, beat)
    for left in range(TRIES - 1, -1, -1):
        # The last try keeps everybody else out meanwhile: it cannot be outrun again.
        with services.db.read() if left else services.db.write() as connection:
            row = _expecting(services, connection, ident, lock=not left)
            info = _recorded(services, row, beat, token_required)
            if not left:
                _write(connection, row, info, **_signs(row, beat))
        if not left or _replace(services.db, row, info, **_signs(row, beat)):
            break
    if row.reservation is None and beat.agent_status != "start":
        act(services, row.uuid, row.provision_state, info)


def _signs(row: Row[Any], beat: Beat) -> dict[str, str]:
    """What else of the node changes with a heartbeat."""
    values = {}
    if row.provision_state in states.WAITING:
        values["provision_updated_at"] = now()  # the clock of the wait starts again
    if beat.agent_status != "start" and row.provision_state in states.LOOKUP:
        values["heartbeat_pending"] = now()
    return values


def act(services: Services, node: str, state: str, info: Mapping[str, Any]) -> None:
    """Starts what goes on with a node whose ramdisk has called. Whoever is slower than another is refused
    by the flow's first step, which then leaves no trace."""
    if state not in CONTINUES:
        return
    try:
        if info.get("agent_status") == "error":
            reason = f"The ramdisk reports: {info.get('agent_status_message') or 'an error'}"
            params = abort_node.AbortParams(node=node, event="fail", reason=secrets.mask_text(reason))
            services.flows.post(abort_node.ABORT, params)
        else:
            services.flows.post(CONTINUES[state], NodeParams(node=node))
    except errors.Unavailable as error:  # stopping, say; the heartbeat is on record
        LOG.info("The heartbeat of node %s is acted on later: %s", node, error.public)


def act_on_pending(services: Services) -> None:
    """Makes up for heartbeats that nobody acted on: a process died, or was stopping, just then."""
    table = tables.nodes
    with services.db.read() as connection:
        rows = connection.execute(
            select(table.c.uuid, table.c.provision_state, table.c.driver_internal_info).where(
                table.c.provision_state.in_(CONTINUES),
                table.c.heartbeat_pending.is_not(None),
                table.c.heartbeat_pending < ago(PATIENCE),
                table.c.reservation.is_(None),
            )
        ).all()
    for row in rows:
        act(services, row.uuid, row.provision_state, msgspec.json.decode(row.driver_internal_info))


def _check(services: Services, beat: Beat) -> None:
    if beat.callback_url or beat.agent_status is None:  # who only reports cannot be called back
        networks = callback_urls.networks(services.conf)
        callback_urls.check(beat.callback_url, networks, require_tls=services.conf.agent.require_tls)
    if beat.agent_status not in (None, *STATUSES):
        raise errors.InvalidValue(f"agent_status must be one of {', '.join(STATUSES)}.")
    for name, most in LENGTHS.items():
        if len(getattr(beat, name) or "") > most:
            raise errors.InvalidValue(f"{name} must have at most {most} characters.")


def _expecting(services: Services, connection: Connection, ident: str, *, lock: bool) -> Row[Any]:
    try:
        row = nodes.find(connection, ident, lock=lock)
    except errors.NotFound:
        raise missing() from None
    if services.conf.api.restrict_lookup and row.provision_state not in states.LOOKUP:
        LOG.info("A heartbeat of node %s is refused: no ramdisk is expected in %r", row.uuid, row.provision_state)
        raise missing()
    return row


def _recorded(services: Services, row: Row[Any], beat: Beat, token_required: bool) -> dict[str, Any]:
    """The node's driver_internal_info with what the heartbeat says, if it is the ramdisk of this boot."""
    info: dict[str, Any] = msgspec.json.decode(row.driver_internal_info)
    _require_token(info, beat.agent_token, token_required)
    for key, given in (("agent_url", beat.callback_url or None), ("agent_verify_ca", beat.agent_verify_ca)):
        if info.get("agent_url") and given != info.get(key):
            what = "callback_url" if key == "agent_url" else key
            raise errors.BadRequest(f"The {what} differs from the one this ramdisk gave before.")
    info = boot_progress.reached(info, boot_progress.HEARTBEAT)
    said = {
        "agent_url": beat.callback_url or None,
        "agent_version": beat.agent_version,
        "agent_verify_ca": beat.agent_verify_ca,
        "agent_status": beat.agent_status,
        "agent_status_message": beat.agent_status_message,
    }
    info.update({key: value for key, value in said.items() if value is not None})
    info["agent_last_heartbeat"] = now()
    task = nodes.bare_task(row)
    task.node.driver_internal_info = info
    services.drivers.deploy(task).heartbeat(
        task,
        beat.callback_url,
        beat.agent_version,
        agent_verify_ca=beat.agent_verify_ca,
        agent_status=beat.agent_status,
        agent_status_message=beat.agent_status_message,
    )
    return task.node.driver_internal_info


def _require_token(info: Mapping[str, Any], given: str | None, required: bool) -> None:
    """A token that was issued is asked for in every version: an older one must not be a way around it."""
    known = info.get(TOKEN)
    if known is None and not required:
        return
    if not given:
        raise errors.BadRequest("The heartbeat needs the agent_token that the lookup gave.")
    if not hmac.compare_digest(str(known or "").encode(), given.encode()):
        raise errors.BadRequest("The agent_token is not the one of this boot.")


def _replace(db: Database, row: Row[Any], info: dict[str, Any], **signs: str) -> bool:
    """Writes driver_internal_info unless the node has changed since the row was read."""
    with db.write() as connection:
        return _write(connection, row, info, **signs)


def _write(connection: Connection, row: Row[Any], info: dict[str, Any], **signs: str) -> bool:
    return (
        _RECORD.change(
            connection,
            node_id=row.id,
            seen=row.driver_internal_info,
            state=row.provision_state,
            info=msgspec.json.encode(info).decode(),
            waited=signs.get("provision_updated_at"),
            pending=signs.get("heartbeat_pending"),
        )
        == 1
    )


_T = tables.nodes.c
_RECORD = Prepared(
    update(tables.nodes)
    .where(
        _T.id == bindparam("node_id"),
        _T.driver_internal_info == bindparam("seen"),
        _T.provision_state == bindparam("state"),
    )
    .values(
        driver_internal_info=bindparam("info"),
        provision_updated_at=func.coalesce(bindparam("waited"), _T.provision_updated_at),
        heartbeat_pending=func.coalesce(bindparam("pending"), _T.heartbeat_pending),
    )
)
