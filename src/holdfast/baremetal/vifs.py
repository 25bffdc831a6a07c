"""VIFs of nodes (spec 003): listing, attaching and detaching them through the node's network interface.

Two records: the port or port group remembers its VIF in `internal_info`, where clients look for it;
`node_vifs` says which node a VIF is on, and its key lets no VIF be on two. A network interface that only
keeps books is asked inside one transaction; for one that calls a network service there are flows.
"""

from __future__ import annotations

import copy
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, delete, insert, select
from sqlalchemy.exc import IntegrityError

from holdfast import errors, secrets
from holdfast.baremetal import belongings, nodes
from holdfast.baremetal.drivers import vif_placement
from holdfast.baremetal.drivers.base import NetworkInterface
from holdfast.baremetal.drivers.registry import Drivers
from holdfast.baremetal.task import Task
from holdfast.db.tables import node_vifs
from holdfast.services import Services

LOG = logging.getLogger(__name__)

LEGACY_KEY = "vif_port_id"

# Flows that hold a node for a moment: worth waiting for, so many seconds.
SHORT_FLOWS = frozenset({"attach_vif", "detach_vif", "change_port"})
PATIENCE = 60.0


def vif_list(services: Services, ident: str) -> list[dict[str, Any]]:
    """The VIFs on a node, as its network interface tells them."""
    with services.db.read() as connection:
        task = nodes.load_task(connection, ident)
    network = services.drivers.network(task)
    if not network.calls_out:  # listing reads our own record; no network service need be there for that
        network.validate(task)
    return network.vif_list(task)


def vif_attach(services: Services, ident: str, vif: Mapping[str, Any], request_id: str | None = None) -> None:
    """Puts a VIF on a node. `vif` has its `id`; other keys are the network interface's business.

    A locked node, or a driver that failed, is `Unavailable`, not a conflict: Nova takes any conflict for "it
    is attached already".
    """
    try:
        if _calls_out(services, ident):
            _in_turn(services, ident, lambda: _attach_by_flow(services, ident, vif, request_id))
            return
        with _changing(services, ident) as (connection, network, task):
            require_unattached(connection, task, str(vif["id"]))
            network.vif_attach(task, vif)
    except (errors.NodeLocked, errors.DriverFailed) as error:
        raise errors.Unavailable(error.public) from None


def vif_detach(services: Services, ident: str, vif_id: str, request_id: str | None = None) -> None:
    """Takes a VIF off a node; `BadRequest` if it is not on it."""
    if _calls_out(services, ident):
        from holdfast.baremetal.flows import detach_vif  # here, because flows import this module

        params = detach_vif.DetachParams(node=ident, vif_id=vif_id)
        _in_turn(services, ident, lambda: services.flows.run(detach_vif.DETACH, params, request_id=request_id))
        return
    with _changing(services, ident) as (_connection, network, task):
        network.vif_detach(task, vif_id)


def _attach_by_flow(services: Services, ident: str, vif: Mapping[str, Any], request_id: str | None) -> None:
    from holdfast.baremetal.flows import attach_vif  # here, because flows import this module

    # What can be refused without a flow and without asking anybody, is. The flow checks again.
    with services.db.read() as connection:
        task = nodes.load_task(connection, ident)
        require_unattached(connection, task, str(vif["id"]))
    vif_placement.choose(task, vif, (), services.drivers.network(task).tenant_vif)
    params = attach_vif.AttachParams(node=ident, vif=secrets.mask(dict(vif)))
    services.flows.run(attach_vif.ATTACH, params, request_id=request_id)


def _calls_out(services: Services, ident: str) -> bool:
    with services.db.read() as connection:
        task = nodes.load_task(connection, ident)
    return services.drivers.network(task).calls_out


def _in_turn(services: Services, node: str, run: Callable[[], object]) -> None:
    """Runs a short flow on a node. Callers who want the same node stand in line, rather than be refused
    because of each other; whoever waits too long is told that the node is locked."""
    until = time.monotonic() + PATIENCE
    with _TURNS.of(node):
        while True:
            try:
                run()
                return
            except errors.NodeLocked:  # by another process; the first in line of each waits here
                if not _is_held_briefly(services, node) or time.monotonic() > until:
                    raise
            time.sleep(0.05)


def _is_held_briefly(services: Services, node: str) -> bool:
    with services.db.read() as connection:
        holder = nodes.find(connection, node).reservation
    return holder is None or holder.partition("/")[0] in SHORT_FLOWS


class _Turns:
    """A line of callers for each node, within this process."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._lines: dict[str, tuple[threading.Lock, int]] = {}

    @contextmanager
    def of(self, node: str) -> Iterator[None]:
        with self._guard:
            line, waiting = self._lines.get(node, (threading.Lock(), 0))
            self._lines[node] = (line, waiting + 1)
        try:
            if not line.acquire(timeout=PATIENCE):
                raise errors.NodeLocked(f"Others have been changing the VIFs of node {node} for long. Try again.")
            try:
                yield
            finally:
                line.release()
        finally:
            with self._guard:
                line, waiting = self._lines.pop(node)
                if waiting > 1:
                    self._lines[node] = (line, waiting - 1)


_TURNS = _Turns()


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
        network = services.drivers.network(task)
        if network.calls_out:  # became one a moment ago
            raise errors.Conflict(f"The network interface of node {task.node.label} has just changed. Try again.")
        network.validate(task)
        before = copy.deepcopy(task)
        yield connection, network, task
        nodes.store(connection, before, task)
        record(connection, network, task)


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
        claim(connection, task, vif_id)


def claim(connection: Connection, task: Task, vif_id: str) -> None:
    """Makes the VIF this node's; `Duplicate` if it is another's."""
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


def require_unattached(connection: Connection, task: Task, vif_id: str) -> None:
    """The friendly half of the check; two attaches at the same moment meet at the key of `node_vifs`."""
    holder = connection.execute(select(node_vifs.c.node_id).where(node_vifs.c.vif_id == vif_id)).scalar()
    if holder == task.node.id:
        raise errors.Duplicate(f"VIF {vif_id} is already attached to node {task.node.label}.")
    if holder is not None:
        raise _elsewhere(vif_id)


def _elsewhere(vif_id: str) -> errors.Duplicate:
    return errors.Duplicate(f"VIF {vif_id} is attached to another node. Detach it there first.")
