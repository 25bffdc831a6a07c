"""VIFs of nodes (spec 003): listing, attaching and detaching them through the node's network interface.

Two records, written in one transaction: the port or port group remembers its VIF in `internal_info`,
where clients look for it; `node_vifs` says which node a VIF is on, and its key lets no VIF be on two.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, delete, insert, select
from sqlalchemy.exc import IntegrityError

from holdfast import errors
from holdfast.baremetal import belongings, nodes
from holdfast.baremetal.drivers.base import NetworkInterface
from holdfast.baremetal.drivers.registry import Drivers
from holdfast.baremetal.task import Task
from holdfast.db.tables import node_vifs
from holdfast.services import Services

LOG = logging.getLogger(__name__)

LEGACY_KEY = "vif_port_id"


def listed(services: Services, ident: str) -> list[dict[str, Any]]:
    """The VIFs on a node, as its network interface tells them."""
    with services.db.read() as connection:
        task = nodes.load_task(connection, ident)
    network = services.drivers.network(task)
    network.validate(task)
    return network.vif_list(task)


def attach(services: Services, ident: str, vif: Mapping[str, Any]) -> None:
    """Puts a VIF on a node. `vif` has its `id`; other keys are the network interface's business."""
    with _changing(services, ident) as (connection, network, task):
        _require_unattached(connection, task, str(vif["id"]))
        network.vif_attach(task, vif)


def detach(services: Services, ident: str, vif_id: str) -> None:
    """Takes a VIF off a node; `BadRequest` if it is not on it."""
    with _changing(services, ident) as (_connection, network, task):
        network.vif_detach(task, vif_id)


def detach_all(services: Services, ident: str, generation: int) -> None:
    """Takes every VIF off a node: a flow's step, so the network interface may call out. Repeatable."""
    with services.db.read() as connection:
        task = nodes.load_task(connection, ident, generation)
    network = services.drivers.network(task)
    before = copy.deepcopy(task)
    for vif in network.vif_list(task):
        try:
            network.vif_detach(task, vif["id"])
        except errors.BadRequest:  # gone between list and detach: that is what we want
            continue
    with services.db.write() as connection:
        nodes.store(connection, before, task)
        record(connection, network, task)


@contextmanager
def _changing(services: Services, ident: str) -> Iterator[tuple[Connection, NetworkInterface, Task]]:
    """One transaction in which the node's network interface may edit its ports and port groups."""
    with services.db.write() as connection:
        node = belongings.lock_node(connection, ident)
        task = nodes.load_task(connection, node.uuid)
        network = bookkeeper(services.drivers, task)
        network.validate(task)
        before = copy.deepcopy(task)
        yield connection, network, task
        nodes.store(connection, before, task)
        record(connection, network, task)


def bookkeeper(drivers: Drivers, task: Task) -> NetworkInterface:
    """The node's network interface, if it may be asked inside a transaction.

    The seam for interfaces that call a network service: those calls take a flow that holds the node.
    """
    network = drivers.network(task)
    if network.calls_out:
        raise errors.UnsupportedByDriver(
            f"The network interface of node {task.node.label} needs a network service to be called, "
            "which this version does not do."
        )
    return network


def record(connection: Connection, network: NetworkInterface, task: Task) -> None:
    """Makes `node_vifs` say what the task's ports and port groups carry. `Duplicate` if another node has one."""
    carried = [str(vif["id"]) for vif in network.vif_list(task)]
    wanted = set(carried)
    if len(wanted) < len(carried):
        twice = next(vif for vif in carried if carried.count(vif) > 1)
        raise errors.Duplicate(f"VIF {twice} is already attached to node {task.node.label}.")
    mine = node_vifs.c.node_id == task.node.id
    known = set(connection.execute(select(node_vifs.c.vif_id).where(mine)).scalars())
    if known - wanted:
        connection.execute(delete(node_vifs).where(mine, node_vifs.c.vif_id.in_(known - wanted)))
    for vif_id in sorted(wanted - known):
        try:
            connection.execute(insert(node_vifs).values(vif_id=vif_id, node_id=task.node.id))
        except IntegrityError:
            raise _elsewhere(vif_id) from None


def follow(connection: Connection, drivers: Drivers, node_uuid: str) -> None:
    """Brings `node_vifs` up to date after a port or port group was written directly."""
    task = nodes.load_task(connection, node_uuid)
    record(connection, drivers.network(task), task)


def legacy(before: Mapping[str, Any], after: Mapping[str, Any], of: str, node_uuid: str) -> str | None:
    """The VIF in the `extra` that a client gives a port or port group: how one attached VIFs before 1.28."""
    vif = after.get(LEGACY_KEY)
    if not vif:
        return None
    if not isinstance(vif, str) or len(vif) > 255:
        raise errors.InvalidValue(f"extra['{LEGACY_KEY}'] must be the id of a VIF, a string.")
    if vif != before.get(LEGACY_KEY):
        LOG.warning(
            "The VIF in extra['%s'] of %s counts as attached, but attaching it this way is deprecated. "
            "Use POST /v1/nodes/%s/vifs (API version 1.28).",
            LEGACY_KEY,
            of,
            node_uuid,
        )
    return vif


def _require_unattached(connection: Connection, task: Task, vif_id: str) -> None:
    """The friendly half of the check; two attaches at the same moment meet at the key in `record`."""
    holder = connection.execute(select(node_vifs.c.node_id).where(node_vifs.c.vif_id == vif_id)).scalar()
    if holder == task.node.id:
        raise errors.Duplicate(f"VIF {vif_id} is already attached to node {task.node.label}.")
    if holder is not None:
        raise _elsewhere(vif_id)


def _elsewhere(vif_id: str) -> errors.Duplicate:
    return errors.Duplicate(f"VIF {vif_id} is attached to another node. Detach it there first.")
