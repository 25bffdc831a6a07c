"""Power: changing it on request, and keeping the record true.

The watch reads every node's power state once per interval, spread evenly over it: each process takes a
few nodes that are due, marks them as taken care of in one statement, and asks their BMCs side by side
without holding a lock or a transaction. Reads of the API never wait for it.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
from sqlalchemy import or_, select, update

from holdfast import errors, secrets
from holdfast.baremetal import boot_progress, nodes, states
from holdfast.baremetal.flows import set_power_state
from holdfast.db.engine import ago, now
from holdfast.db.tables import nodes as table
from holdfast.services import Services

LOG = logging.getLogger(__name__)

SOFT = (states.SOFT_POWER_OFF, states.SOFT_REBOOT)


def change(services: Services, node: Any, target: str, timeout: int | None, request_id: str) -> None:
    """Starts a power change; returns once the node shows where it is going."""
    if timeout is not None and not 1 <= timeout <= 86400:
        raise errors.InvalidValue("timeout must be 1 to 86400 seconds.")
    if node.provision_state in (states.CLEANING, states.CLEANWAIT):
        raise errors.InvalidStateRequested(
            f"The power of node {nodes.label(node)} cannot change while it is {node.provision_state!r}."
        )
    with services.db.read() as connection:
        task = nodes.load_task(connection, node.uuid)
    power = services.drivers.power(task)
    power.validate(task)
    if target not in power.get_supported_power_states(task):
        raise errors.UnsupportedByDriver(f"The node's driver does not support {target!r}.")
    params = set_power_state.PowerParams(node=node.uuid, target=target, timeout=timeout)
    services.flows.start(set_power_state.SET_POWER, params, request_id=request_id)


# -- the watch

_WATCHED = (
    table.c.reservation.is_(None),
    table.c.target_power_state.is_(None),
    table.c.provision_state.not_in(
        (states.ENROLL, states.DEPLOYWAIT, states.CLEANWAIT, states.ADOPTFAIL, states.INSPECTWAIT)
    ),
    or_(table.c.maintenance.is_(False), table.c.fault == states.POWER_FAILURE),
)


def watch(services: Services, pool: ThreadPoolExecutor, batch: int) -> int:
    """Reads the power state of up to `batch` nodes that are due; returns how many."""
    uuids = _claim(services, batch)
    list(pool.map(lambda uuid: _look(services, uuid), uuids))
    return len(uuids)


def _claim(services: Services, batch: int) -> list[str]:
    """Takes nodes that are due off everybody else's list until the next round."""
    due = (
        select(table.c.id)
        .where(*_WATCHED, or_(table.c.power_sync_due_at.is_(None), table.c.power_sync_due_at <= now()))
        .order_by(table.c.power_sync_due_at)
        .limit(batch)
    )
    with services.db.read() as connection:
        if connection.execute(due.limit(1)).first() is None:
            return []
    if not services.db.is_sqlite:
        due = due.with_for_update(skip_locked=True)
    with services.db.write() as connection:
        return list(
            connection.execute(
                update(table)
                .where(table.c.id.in_(due))
                .values(power_sync_due_at=ago(-services.conf.conductor.sync_power_state_interval))
                .returning(table.c.uuid)
            ).scalars()
        )


def _look(services: Services, uuid: str) -> None:
    try:
        with services.db.read() as connection:
            task = nodes.load_task(connection, uuid)
        seen = services.drivers.power(task).get_power_state(task)
    except errors.NotFound:
        return
    except errors.HoldfastError as error:
        _missed(services, uuid, error.public)
        return
    except Exception:
        LOG.exception("Reading the power state of node %s failed", uuid)
        _missed(services, uuid, "The driver failed; the log of the service has the details.")
        return
    _seen(services, task.node.uuid, task.node.power_state, seen)


def _seen(services: Services, uuid: str, recorded: str | None, seen: str | None) -> None:
    """Records the truth, or switches the machine back where the operator asked for that."""
    with services.db.write() as connection:
        row = nodes.find(connection, uuid, lock=True)
        if row.reservation is not None or row.power_state != recorded:
            return  # somebody is changing it right now; the next round sees the result
        values: dict[str, Any] = {"power_sync_failures": 0}
        if row.fault == states.POWER_FAILURE:
            values.update(maintenance=False, maintenance_reason=None, fault=None)
        force = services.conf.conductor.force_power_state_during_sync and recorded is not None
        if seen is not None and seen != recorded and not force:
            LOG.warning("Node %s is %r, not %r as recorded; recording it", uuid, seen, recorded)
            values.update(power_state=seen, updated_at=now())
            if seen == states.POWER_OFF:
                info = boot_progress.forgotten(msgspec.json.decode(row.driver_internal_info))
                values["driver_internal_info"] = msgspec.json.encode(info).decode()
        if any(getattr(row, name) != value for name, value in values.items()):
            connection.execute(update(table).where(table.c.id == row.id).values(**values))
    if seen is not None and seen != recorded and force:
        LOG.warning("Node %s is %r, not %r as recorded; switching it back", uuid, seen, recorded)
        params = set_power_state.PowerParams(node=uuid, target=str(recorded))
        try:
            services.flows.start(set_power_state.SET_POWER, params)
        except errors.NodeLocked:
            return


def _missed(services: Services, uuid: str, reason: str) -> None:
    most = services.conf.conductor.power_state_sync_max_retries
    with services.db.write() as connection:
        row = nodes.find(connection, uuid, lock=True)
        if row.reservation is not None:
            return
        failures = row.power_sync_failures + 1
        values: dict[str, Any] = {"power_sync_failures": failures}
        if failures > most and not row.maintenance:
            LOG.warning("Node %s did not tell its power state %s times; into maintenance", uuid, failures)
            text = secrets.mask_text(reason)
            values.update(
                maintenance=True,
                maintenance_reason=f"Its power state could not be read {failures} times in a row. {text}",
                fault=states.POWER_FAILURE,
                power_state=None,
                last_error=text,
                updated_at=now(),
            )
        connection.execute(update(table).where(table.c.id == row.id).values(**values))
