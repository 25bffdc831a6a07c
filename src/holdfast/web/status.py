"""GET /status: the installation on one screen, counted by the database. `holdfast status` shows it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, func, select

from holdfast import __version__
from holdfast.db.engine import now
from holdfast.db.tables import flows, node_vifs, nodes, ports, processes, volume_connectors, volume_targets
from holdfast.web.routes import Reply, Request, Route


def show(request: Request) -> Reply:
    with request.services.db.read() as connection:
        return Reply(document={"version": __version__, "at": now(), **_counts(connection)})


def _counts(connection: Connection) -> dict[str, Any]:
    return {
        "nodes": _by(connection, nodes.c.provision_state),
        "power": _by(connection, nodes.c.power_state),
        "maintenance": _count(connection, nodes, nodes.c.maintenance.is_(True)),
        "locked": _count(connection, nodes, nodes.c.reservation.is_not(None)),
        "ports": _count(connection, ports),
        "vifs": _count(connection, node_vifs),
        "volume connectors": _count(connection, volume_connectors),
        "volume targets": _count(connection, volume_targets),
        "flows": _by(connection, flows.c.state),
        "working": _by(connection, flows.c.kind, flows.c.state == "running"),
        "stuck": [
            {"id": row.id, "kind": row.kind, "subject": row.subject, "error": row.error}
            for row in connection.execute(
                select(flows).where(flows.c.state == "stuck").order_by(flows.c.created_at).limit(20)
            )
        ],
        "processes": [
            {"hostname": row.hostname, "pid": row.pid, "beat_at": row.beat_at}
            for row in connection.execute(select(processes).where(processes.c.dead_at.is_(None)))
        ],
    }


def _by(connection: Connection, column: Any, *where: Any) -> dict[str, int]:
    rows = connection.execute(select(column, func.count()).where(*where).group_by(column).order_by(column))
    return {str(key): count for key, count in rows}


def _count(connection: Connection, table: Any, *where: Any) -> int:
    return int(connection.execute(select(func.count()).select_from(table).where(*where)).scalar_one())


ROUTE = Route("GET", "/status", show, "holdfast:flow:get", "The installation in numbers.")
