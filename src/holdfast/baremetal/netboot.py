"""What machines that boot over the network may ask without credentials: their script, and to say that it
failed; and what a DHCP server may tell of them.

A script of a machine that boots from a volume holds that volume's CHAP secret: firmware has no place
for a login of its own. So a script is given only
- to a caller from `[boot] allowed_networks`,
- by the MAC address of a port with `pxe_enabled`,
- of a node whose boot interface is `ipxe` and which is meant to boot now: a deploy, cleaning or the like
  has it, or it carries an instance and is on, or being switched on, by us.
For every other reason the answer is the same "nothing to boot". What remains, and what to do about it, is
told in docs/boot-from-volume.md.
"""

from __future__ import annotations

import ipaddress
import logging
from typing import Any

import msgspec
from oslo_config import cfg
from sqlalchemy import Connection, Row, select, update

from holdfast import errors
from holdfast.baremetal import boot_progress, nodes, states
from holdfast.baremetal.drivers import ipxe, ipxe_script
from holdfast.baremetal.drivers.ipxe_script import Links
from holdfast.db import tables
from holdfast.db.engine import Database, now
from holdfast.services import Services
from holdfast.web import kinds

LOG = logging.getLogger(__name__)

# States in which a flow has the machine, or waits for it: it is switched on by us, whatever the record says.
AT_WORK = states.LOOKUP | {states.UNRESCUING}
# States in which the instance may be running.
CARRYING = frozenset({states.ACTIVE, states.RESCUE, states.RESCUEFAIL, states.UNRESCUEFAIL})


def nothing() -> errors.NotFound:
    return errors.NotFound("There is nothing to boot for this machine.")


def script(services: Services, mac: str, remote: str) -> str:
    """The script of the machine with that MAC address. A new boot ends what was said about the last one."""
    task_uuid, failed = _find(services, mac, remote)
    with services.db.read() as connection:
        task = nodes.load_task(connection, task_uuid)
    own = _mac(mac).replace(":", "-")
    text = ipxe.script(services.conf, task, _mac(mac), Links(own, f"{own}/failed"))
    if text is None:
        raise nothing()
    if failed or boot_progress.is_under_way(task.node.driver_internal_info):
        _note_boot(services.db, task_uuid)
    LOG.info("Node %s fetches its boot script from %s", task_uuid, remote)
    return text


def report(services: Services, mac: str, remote: str, failure: str) -> None:
    """Shows on the node why its machine could not boot. Only words of ours get there."""
    reason = ipxe_script.reason(failure)
    if reason is None:
        raise errors.InvalidValue("failure must be a stage and an error number, such as hook-410d613c.")
    uuid, _failed = _find(services, mac, remote)
    LOG.warning("Node %s could not boot: %s", uuid, reason)
    with services.db.write() as connection:
        row = nodes.find(connection, uuid, lock=True)
        _write(connection, row, {"reason": reason, "at": now()}, f"The machine could not boot. {reason}")


def note_lease(services: Services, mac: str, remote: str) -> None:
    """Marks that the machine with that MAC address was lent an address, if it is about to boot a ramdisk. A hint that
    anybody nearby could give: it sets this mark, once, and the caller does not learn whether it did."""
    if not _allowed(services.conf, remote):
        LOG.warning("A lease was reported from %s, which is not in [boot] allowed_networks", remote)
        return
    try:
        address = _mac(mac)
    except errors.NotFound:  # a card of another kind, say
        return
    table, ports = tables.nodes, tables.ports
    statement = (
        select(table.c.uuid, table.c.driver_internal_info)
        .join_from(table, ports)
        .where(ports.c.address == address, ports.c.pxe_enabled.is_(True), table.c.provision_state.in_(states.LOOKUP))
    )
    with services.db.read() as connection:
        found = connection.execute(statement).first()
    if found is None or not boot_progress.awaits_lease(msgspec.json.decode(found.driver_internal_info)):
        return
    with services.db.write() as connection:
        row = nodes.find(connection, found.uuid, lock=True)
        info = msgspec.json.decode(row.driver_internal_info)
        if boot_progress.awaits_lease(info):
            marked = msgspec.json.encode(boot_progress.leased(info)).decode()
            connection.execute(update(table).where(table.c.id == row.id).values(driver_internal_info=marked))


def check_networks(conf: cfg.ConfigOpts) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """`[boot] allowed_networks`, read; raises where one of them is none."""
    found = []
    for text in conf.boot.allowed_networks:
        try:
            found.append(ipaddress.ip_network(text.strip(), strict=False))
        except ValueError:
            raise cfg.ConfigFileValueError(f"[boot] allowed_networks: {text!r} is not a network.") from None
    return found


def _find(services: Services, mac: str, remote: str) -> tuple[str, bool]:
    """The node that may boot, and whether its last boot failed."""
    if not _allowed(services.conf, remote):
        LOG.warning("A boot script was asked for from %s, which is not in [boot] allowed_networks", remote)
        raise nothing()
    table, ports = tables.nodes, tables.ports
    statement = (
        select(
            table.c.uuid,
            table.c.provision_state,
            table.c.power_state,
            table.c.target_power_state,
            table.c.driver_internal_info,
        )
        .join_from(table, ports)
        .where(ports.c.address == _mac(mac), ports.c.pxe_enabled.is_(True), table.c.boot_interface == "ipxe")
    )
    with services.db.read() as connection:
        row = connection.execute(statement).first()
    if row is None or not _meant_to_boot(row):
        raise nothing()
    return str(row.uuid), ipxe.FAILURE in msgspec.json.decode(row.driver_internal_info)


def _meant_to_boot(row: Any) -> bool:
    if row.provision_state in AT_WORK:
        return True
    return row.provision_state in CARRYING and states.POWER_ON in (row.power_state, row.target_power_state)


def _allowed(conf: cfg.ConfigOpts, remote: str) -> bool:
    try:
        address = ipaddress.ip_address(remote)
    except ValueError:
        return False
    # A service that listens on both kinds of addresses sees IPv4 callers in disguise.
    address = getattr(address, "ipv4_mapped", None) or address
    return any(address in network for network in check_networks(conf))


def _mac(text: str) -> str:
    """iPXE writes it with dashes: colons would be percent-encoded."""
    try:
        return str(kinds.MAC.required().check("mac", text.replace("-", ":")))
    except errors.InvalidValue:
        raise nothing() from None


def _note_boot(db: Database, uuid: str) -> None:
    """Its last failure is history, and the ramdisk it may be about to boot has come this far."""
    with db.write() as connection:
        row = nodes.find(connection, uuid, lock=True)
        said = (msgspec.json.decode(row.driver_internal_info).get(ipxe.FAILURE) or {}).get("reason")
        shown = row.last_error if said is None or said not in (row.last_error or "") else None
        _write(connection, row, None, shown)


def _write(connection: Connection, row: Row[Any], failure: dict[str, str] | None, last_error: str | None) -> None:
    info = {k: v for k, v in msgspec.json.decode(row.driver_internal_info).items() if k != ipxe.FAILURE}
    if failure is not None:
        info[ipxe.FAILURE] = failure
    else:
        info = boot_progress.reached(info, boot_progress.SCRIPT_FETCHED)
    connection.execute(
        update(tables.nodes)
        .where(tables.nodes.c.id == row.id)
        .values(driver_internal_info=msgspec.json.encode(info).decode(), last_error=last_error, updated_at=now())
    )
