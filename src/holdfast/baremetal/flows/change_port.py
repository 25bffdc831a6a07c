"""Changes a port or port group that carries a VIF, when the network service must hear of it: its MAC
address, mostly. Synchronous for the caller, who has checked the change.

Guard: the node lock, taken only if the port and its node are still as they were checked. The network service
is told first; if the change cannot be stored (somebody took the MAC address), it is told the old
values again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row, select, update
from sqlalchemy.exc import IntegrityError

from holdfast import errors
from holdfast.baremetal import locks, nodes, portgroups, ports, vifs
from holdfast.baremetal.flows.node_work import NodeParams, node_of
from holdfast.baremetal.task import Task
from holdfast.db import tables
from holdfast.db.engine import now
from holdfast.flows.flow import Flow, Step, Work
from holdfast.services import Services

TABLES = {"ports": tables.ports, "portgroups": tables.portgroups}
# What a node is checked for before its ports may change.
STATE = ("provision_state", "instance_uuid", "maintenance")


class ChangeParams(NodeParams, frozen=True, kw_only=True):
    """`before` and `after` are columns of the row, `state` what the node was checked to be."""

    table: str
    id: int
    before: dict[str, Any]
    after: dict[str, Any]
    state: dict[str, Any]


def run(
    services: Services,
    node: Row[Any],
    table: str,
    row: Row[Any],
    columns: Mapping[str, Any],
    request_id: str | None,
) -> None:
    """Makes the change `columns` of a port or port group that was read as `row`."""
    params = ChangeParams(
        node=node.uuid,
        table=table,
        id=row.id,
        before={name: getattr(row, name) for name in columns},
        after=dict(columns),
        state={name: getattr(node, name) for name in STATE},
    )
    services.flows.run(CHANGE, params, request_id=request_id)


def begin(work: Work, params: ChangeParams) -> None:
    with work.services.db.write() as connection:
        row = nodes.find(connection, params.node, lock=True)
        if row.reservation == work.lock:
            return
        locks.require_free(nodes.label(row), row.reservation)
        if _stored(connection, params) != params.before or params.state != {n: getattr(row, n) for n in STATE}:
            raise errors.Conflict(f"Node {nodes.label(row)} or its port was changed at the same moment. Try again.")
        locks.take(connection, row.id, work.lock, nodes.label(row))


def let_go(work: Work, params: ChangeParams) -> None:
    with work.services.db.write() as connection:
        row = nodes.find(connection, params.node, lock=True)
        locks.release(connection, row.id, work.lock)


def push(work: Work, params: ChangeParams) -> None:
    _tell(work, params, params.after)


def push_back(work: Work, params: ChangeParams) -> None:
    _tell(work, params, params.before)


def store(work: Work, params: ChangeParams) -> None:
    _write(work, params, params.after)


def restore(work: Work, params: ChangeParams) -> None:
    _write(work, params, params.before)


def _tell(work: Work, params: ChangeParams, columns: Mapping[str, Any]) -> None:
    with work.services.db.read() as connection:
        task: Task = nodes.load_task(connection, params.node, work.generation)
    network = work.services.drivers.network(task)
    if params.table == "ports":
        port = next(port for port in task.ports if port.id == params.id)
        network.port_changed(task, ports.changed_port(port, columns))
    else:
        group = next(group for group in task.portgroups if group.id == params.id)
        network.portgroup_changed(task, portgroups.changed_group(group, columns))


def _write(work: Work, params: ChangeParams, columns: Mapping[str, Any]) -> None:
    table = TABLES[params.table]
    with work.services.db.write() as connection:
        if _stored(connection, params) == columns:
            return
        try:
            connection.execute(update(table).where(table.c.id == params.id).values(**columns, updated_at=now()))
        except IntegrityError as error:
            if params.table == "ports":
                raise ports.taken(columns.get("address")) from None
            raise portgroups.duplicate(columns, error) from None
        if "extra" in columns:
            vifs.follow(connection, work.services.drivers, params.node)


def _stored(connection: Connection, params: ChangeParams) -> dict[str, Any]:
    table = TABLES[params.table]
    wanted = select(*(table.c[name] for name in params.before)).where(table.c.id == params.id)
    row = connection.execute(wanted).first()
    return dict(row._mapping) if row else {}


CHANGE: Flow[ChangeParams] = Flow(
    "change_port",
    ChangeParams,
    [
        Step("begin", begin, undo=let_go),
        Step("push", push, undo=push_back),
        Step("store", store, undo=restore),
        Step("finish", let_go, pivot=True),
    ],
    subject=node_of,
    summary="change a port and tell the network service",
    abandon=let_go,
)
