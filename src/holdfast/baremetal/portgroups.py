"""Port groups: ports of a node that its switch bonds. Rules of creating, changing and deleting them, and their SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, Select, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from holdfast import errors
from holdfast.baremetal import belongings, nodes, vifs
from holdfast.baremetal.drivers.base import NetworkInterface
from holdfast.baremetal.task import Portgroup, Task
from holdfast.db import tables
from holdfast.db.constraints import is_taken
from holdfast.db.engine import now
from holdfast.services import Services
from holdfast.web.kinds import is_uuid, new_uuid

portgroups = tables.portgroups

RESERVED_NAMES = frozenset({"detail"})

Changes = Callable[[Mapping[str, Any]], dict[str, Any]]


def whole() -> Select[Any]:
    """Port groups with the UUID of their node, as the API names it."""
    return select(portgroups, *belongings.NODE_COLUMNS).join_from(portgroups, tables.nodes)


def find(connection: Connection, ident: str) -> Row[Any]:
    """The port group with that UUID or name."""
    column = portgroups.c.uuid if is_uuid(ident) else portgroups.c.name
    row = connection.execute(whole().where(column == ident)).first()
    if row is None:
        raise missing(ident)
    return row


def missing(ident: str) -> errors.NotFound:
    return errors.NotFound(f"Port group {ident} could not be found.")


def create(services: Services, values: Mapping[str, Any]) -> str:
    """Adds a port group to a node and returns its UUID. `values` are checked fields of the API."""
    columns = dict(values)
    columns["uuid"] = columns.get("uuid") or new_uuid()
    columns["mode"] = columns.get("mode") or services.conf.default_portgroup_mode
    _check_name(columns.get("name"))
    with services.db.write() as connection:
        node = belongings.lock_node_in_body(connection, columns.pop("node_uuid"))
        columns["node_id"] = node.id
        extra = msgspec.json.decode(columns["extra"])
        vif = vifs.legacy({}, extra, f"port group {columns['uuid']}", node.uuid)
        try:
            connection.execute(insert(portgroups).values(**columns, created_at=now()))
        except IntegrityError as error:
            raise duplicate(columns, error) from None
        if vif:
            vifs.follow(connection, services.drivers, node.uuid)
    return str(columns["uuid"])


def change(
    services: Services, uuid: str, changes: Changes, *, inspection_shown: bool, request_id: str | None = None
) -> None:
    """Applies a patch in one transaction. `changes` turns the stored values into those that change.

    If a network service must hear of it, a flow makes the change instead, once it is checked.
    """
    with services.db.write() as connection:
        node, row = belongings.lock(connection, portgroups, uuid, whole(), missing(uuid))
        belongings.require_not_inspecting(node, inspection_shown=inspection_shown)
        columns = changes(row._asdict())
        home = node
        if "node_uuid" in columns:
            home = belongings.lock_node_in_body(connection, columns.pop("node_uuid"))
            belongings.require_same_owner(node, home)
            columns["node_id"] = home.id
        if not columns:
            return
        task = nodes.load_task(connection, node.uuid)
        network = services.drivers.network(task)
        group = next(group for group in task.portgroups if group.id == row.id)
        changed = changed_group(group, columns)
        _check(network, task, group, columns)
        if home is not node:
            for end in (node, home):
                belongings.require_rewirable(end, "node of a port group")
        if "extra" in columns:
            vifs.legacy(group.extra, changed.extra, f"port group {uuid}", home.uuid)
        pushed = network.calls_out and network.pushes(task, changed)
        if not pushed:
            if not network.calls_out:
                network.portgroup_changed(task, changed)
            try:
                connection.execute(
                    update(portgroups).where(portgroups.c.id == row.id).values(**columns, updated_at=now())
                )
            except IntegrityError as error:
                raise duplicate(columns, error) from None
            if "extra" in columns:
                vifs.follow(connection, services.drivers, home.uuid)
    if pushed:
        from holdfast.baremetal.flows import change_port  # here, because flows import this module

        change_port.run(services, node, "portgroups", row, columns, request_id)


def destroy(services: Services, uuid: str, request_id: str | None = None) -> None:
    """Deletes a port group without ports that nobody uses; in maintenance one with a VIF, too."""
    with services.db.write() as connection:
        node, row = belongings.lock(connection, portgroups, uuid, whole(), missing(uuid))
        task = nodes.load_task(connection, node.uuid)
        network = services.drivers.network(task)
        group = next(group for group in task.portgroups if group.id == row.id)
        if any(port.portgroup_id == group.id for port in task.ports):
            raise errors.NotEmpty(f"Port group {uuid} still has ports. Take them out of it, or delete them, first.")
        vif = network.get_current_vif(group)
        if vif is not None and not node.maintenance:
            raise errors.InvalidState(
                f"Port group {uuid} of node {nodes.label(node)} cannot be deleted: VIF {vif} is on it. "
                "Detach it first, or put the node into maintenance."
            )
        left_over = network.tenant_vif(group) if network.calls_out else None
        if left_over is None:
            connection.execute(delete(portgroups).where(portgroups.c.id == row.id))
            if vif is not None:
                vifs.follow(connection, services.drivers, node.uuid)
    if left_over is not None:  # the network service must hear of it before the port is gone
        vifs.vif_detach(services, node.uuid, left_over, request_id)
        destroy(services, uuid, request_id)


# -- rules


def _check(network: NetworkInterface, task: Task, group: Portgroup, columns: Mapping[str, Any]) -> None:
    """Refuses changes that the group's ports or its VIF forbid."""
    if "name" in columns:
        _check_name(columns["name"])
    if "mode" in columns and columns["mode"] is None:
        raise errors.BadPatch("A port group needs a mode; it cannot be removed.")
    members = [port for port in task.ports if port.portgroup_id == group.id]
    if "node_id" in columns:
        if members:
            raise errors.NotEmpty(f"Port group {group.uuid} still has ports; it cannot go to another node.")
        if vif := network.get_current_vif(group):
            raise errors.InvalidState(
                f"Port group {group.uuid} cannot go to another node: VIF {vif} is on it. Detach it first."
            )
    if columns.get("standalone_ports_supported") is False:
        for port in members:
            if port.pxe_enabled or network.tenant_vif(port):
                what = "is pxe_enabled" if port.pxe_enabled else "has a VIF"
                raise errors.Conflict(
                    f"Port group {group.uuid} must support standalone ports: its port {port.uuid} {what}."
                )


def _check_name(name: str | None) -> None:
    if name in RESERVED_NAMES:
        raise errors.InvalidValue(f"A port group cannot be called {name!r}: the API uses that word in its paths.")


def changed_group(group: Portgroup, columns: Mapping[str, Any]) -> Portgroup:
    """The port group as drivers will see it."""
    known = {name: value for name, value in columns.items() if name in Portgroup.__struct_fields__}
    for name in ("extra", "properties"):
        if name in known:
            known[name] = msgspec.json.decode(known[name])
    return msgspec.structs.replace(group, **known)


def duplicate(columns: Mapping[str, Any], error: IntegrityError) -> errors.Duplicate:
    if is_taken(error, portgroups.c.name):
        return errors.Duplicate(f"A port group with name {columns.get('name')} already exists.")
    if is_taken(error, portgroups.c.address):
        return errors.Duplicate(f"A port group with MAC address {columns.get('address')} already exists.")
    return errors.Duplicate(f"A port group with UUID {columns.get('uuid')} already exists.")
