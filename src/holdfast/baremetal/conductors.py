"""Conductors: the processes of this installation as the API shows them, one per host.

Any process may work on any node, so nobody has to be in charge of one. Clients still ask who is: nodes
are dealt out over the hosts that live, in the order of their names.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from sqlalchemy import ColumnElement, Connection, and_, case, func, literal, select

from holdfast import errors
from holdfast.db.prepared import Prepared
from holdfast.db.tables import nodes, processes

_alive = processes.c.dead_at.is_(None)

# A process that takes over the work of one it never saw leaves a row without a host for a moment.
conductors = (
    select(
        processes.c.hostname.label("id"),
        processes.c.hostname.label("hostname"),
        literal("").label("conductor_group"),
        func.max(case((_alive, 1), else_=0)).label("alive"),
        func.max(processes.c.drivers).label("drivers"),
        func.min(processes.c.started_at).label("created_at"),
        func.max(processes.c.beat_at).label("updated_at"),
    )
    .where(processes.c.hostname != "")
    .group_by(processes.c.hostname)
    .subquery("conductors")
)


def missing(hostname: str) -> errors.NotFound:
    return errors.NotFound(f"Conductor {hostname[:255]} could not be found.")


_LIVING = Prepared(select(processes.c.hostname).distinct().where(_alive).order_by(processes.c.hostname))


def shown(connection: Connection) -> Callable[[int], str]:
    """The host in charge of a node, by the node's id, as JSON."""
    hosts = [json.dumps(hostname) for (hostname,) in _LIVING(connection)] or ["null"]
    return lambda node_id: hosts[node_id % len(hosts)]


def in_charge_of(hostname: str) -> ColumnElement[bool]:
    """The nodes of one host, as a clause: so that pages of the list are full."""
    hosts = func.count(processes.c.hostname.distinct())
    all_hosts = select(hosts).where(_alive).scalar_subquery()
    before = select(hosts).where(_alive, processes.c.hostname < hostname).scalar_subquery()
    lives = select(processes.c.executor).where(_alive, processes.c.hostname == hostname).exists()
    return and_(lives, nodes.c.id % func.nullif(all_hosts, 0) == before)
