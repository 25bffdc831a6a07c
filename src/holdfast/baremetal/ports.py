"""Ports: the network cards of nodes. Rules of creating, changing and deleting them, and their SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, Select, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from holdfast import errors
from holdfast.baremetal import belongings, nodes, states, vifs
from holdfast.baremetal.drivers.base import NetworkInterface
from holdfast.baremetal.task import Port, Portgroup, Task
from holdfast.db import tables
from holdfast.db.constraints import is_taken
from holdfast.db.engine import Database, now
from holdfast.services import Services
from holdfast.web.kinds import MAC, new_uuid

ports = tables.ports

# column: what a refusal calls it. How a machine is wired is settled before it is offered to anybody.
WIRING = {
    "node_id": "node of a port",
    "portgroup_id": "port group of a port",
    "pxe_enabled": "pxe_enabled of a port",
    "local_link_connection": "local_link_connection of a port",
    "physical_network": "physical network of a port",
}

Changes = Callable[[Mapping[str, Any]], dict[str, Any]]


def whole() -> Select[Any]:
    """Ports with the UUIDs of what they refer to, as the API names it."""
    groups = tables.portgroups
    return (
        select(ports, *belongings.NODE_COLUMNS, groups.c.uuid.label("portgroup_uuid"))
        .join_from(ports, tables.nodes)
        .outerjoin(groups, groups.c.id == ports.c.portgroup_id)
    )


def find(connection: Connection, uuid: str) -> Row[Any]:
    row = connection.execute(whole().where(ports.c.uuid == uuid)).first()
    if row is None:
        raise missing(uuid)
    return row


def missing(uuid: str) -> errors.NotFound:
    return errors.NotFound(f"Port {uuid} could not be found.")


def create(services: Services, values: Mapping[str, Any]) -> str:
    """Adds a port to a node and returns its UUID. `values` are checked fields of the API."""
    columns = dict(values)
    columns["uuid"] = columns.get("uuid") or new_uuid()
    group_uuid = columns.pop("portgroup_uuid", None)
    with services.db.write() as connection:
        node = belongings.lock_node_in_body(connection, columns.pop("node_uuid"))
        columns["node_id"] = node.id
        columns["portgroup_id"] = _group_id(connection, group_uuid)
        vif = vifs.legacy({}, msgspec.json.decode(columns["extra"]), f"port {columns['uuid']}", node.uuid)
        _check_smartnic(columns)
        _check_group(connection, node, columns, vif)
        _insert(connection, columns)
        if vif:
            vifs.follow(connection, services.drivers, node.uuid)
    return str(columns["uuid"])


def ensure(db: Database, node_uuid: str, address: str) -> str:
    """The UUID of the node's port with this address, created if there is none.

    For a flow that has the node: its lock is not asked. `Duplicate` if another node has the address.
    """
    address = MAC.required().check("address", address)
    with db.write() as connection:
        node = nodes.find(connection, node_uuid, lock=True)
        found = connection.execute(select(ports.c.uuid, ports.c.node_id).where(ports.c.address == address)).first()
        if found is None:
            uuid = new_uuid()
            _insert(connection, {"uuid": uuid, "node_id": node.id, "address": address})
            return uuid
        if found.node_id != node.id:
            raise taken(address)
        return str(found.uuid)


def change(
    services: Services, uuid: str, changes: Changes, *, inspection_shown: bool, request_id: str | None = None
) -> None:
    """Applies a patch in one transaction. `changes` turns the stored values into those that change.

    If a network service must hear of it, a flow makes the change instead, once it is checked.
    """
    with services.db.write() as connection:
        node, row = belongings.lock(connection, ports, uuid, whole(), missing(uuid))
        belongings.require_not_inspecting(node, inspection_shown=inspection_shown)
        columns = changes(row._asdict())
        home = node
        if "node_uuid" in columns:
            home = belongings.lock_node_in_body(connection, columns.pop("node_uuid"))
            belongings.require_same_owner(node, home)
            columns["node_id"] = home.id
        if "portgroup_uuid" in columns:
            columns["portgroup_id"] = _group_id(connection, columns.pop("portgroup_uuid"))
        if not columns:
            return
        task = nodes.load_task(connection, node.uuid)
        network = services.drivers.network(task)
        port = next(port for port in task.ports if port.id == row.id)
        changed = changed_port(port, columns)
        _check_smartnic({**row._asdict(), **columns})
        _check_state(node, home, columns)
        _check_vifs(network, task, port, columns)
        if "extra" in columns:
            vifs.legacy(port.extra, changed.extra, f"port {uuid}", home.uuid)
        if columns.keys() & {*WIRING, "extra"}:
            _check_group(connection, home, {**row._asdict(), **columns}, network.tenant_vif(changed))
        pushed = network.calls_out and network.pushes(task, changed)
        if not pushed:
            if not network.calls_out:
                network.port_changed(task, changed)
            _update(connection, row.id, columns)
            if "extra" in columns:
                vifs.follow(connection, services.drivers, home.uuid)
    if pushed:
        from holdfast.baremetal.flows import change_port  # here, because flows import this module

        change_port.run(services, node, "ports", row, columns, request_id)


def destroy(services: Services, uuid: str, request_id: str | None = None) -> None:
    """Deletes a port that nobody uses; in maintenance one with a VIF, too."""
    with services.db.write() as connection:
        node, row = belongings.lock(connection, ports, uuid, whole(), missing(uuid))
        task = nodes.load_task(connection, node.uuid)
        network = services.drivers.network(task)
        port = next(port for port in task.ports if port.id == row.id)
        vif = network.get_current_vif(port)
        if vif is not None and not node.maintenance:
            raise errors.InvalidState(
                f"Port {uuid} of node {nodes.label(node)} cannot be deleted: VIF {vif} is on it. "
                "Detach it first, or put the node into maintenance."
            )
        left_over = network.tenant_vif(port) if network.calls_out else None
        if left_over is None:
            connection.execute(delete(ports).where(ports.c.id == row.id))
            if vif is not None:
                vifs.follow(connection, services.drivers, node.uuid)
    if left_over is not None:  # the network service must hear of it before the port is gone
        vifs.vif_detach(services, node.uuid, left_over, request_id)
        destroy(services, uuid, request_id)


# -- rules


def _check_state(node: Row[Any], home: Row[Any], columns: Mapping[str, Any]) -> None:
    """Refuses what the state of the port's node forbids, or of `home`, the node it is going to."""
    used = node.provision_state == states.ACTIVE or node.instance_uuid is not None
    if "address" in columns and used and not node.maintenance:
        raise errors.InvalidState(
            f"The address of a port cannot change while node {nodes.label(node)} carries an instance. "
            "Undeploy it first, or put it into maintenance."
        )
    for name, what in WIRING.items():
        if name in columns:
            belongings.require_rewirable(node, what)
            belongings.require_rewirable(home, what)


def _check_vifs(network: NetworkInterface, task: Task, port: Port, columns: Mapping[str, Any]) -> None:
    """A port with a VIF stays where it is, and so do the members of a group with one."""
    if "node_id" not in columns and "portgroup_id" not in columns:
        return
    if task.node.maintenance and "node_id" not in columns:
        return
    places: list[Port | Portgroup] = [port, *(g for g in task.portgroups if g.id == port.portgroup_id)]
    for place in places:
        if vif := network.get_current_vif(place):
            what = "port" if isinstance(place, Port) else "port group"
            raise errors.InvalidState(
                f"Port {port.uuid} cannot go to another node or port group: VIF {vif} is on {what} {place.uuid}. "
                "Detach it first."
            )


def _check_smartnic(values: Mapping[str, Any]) -> None:
    """A smart NIC is its own switch: what plugs its ports is named by host and port."""
    link = msgspec.json.decode(values.get("local_link_connection") or "{}")
    if values.get("is_smartnic") and not {"port_id", "hostname"} <= link.keys():
        raise errors.InvalidValue("A smart NIC needs port_id and hostname in local_link_connection.")


def _check_group(connection: Connection, node: Row[Any], values: Mapping[str, Any], vif: str | None) -> None:
    """Whether a port with these values can be in the group they name: of the same node, on the same
    physical network, and not used by itself where the group's switch does not allow that."""
    if values.get("portgroup_id") is None:
        return
    groups = tables.portgroups
    group = connection.execute(
        select(groups).where(groups.c.id == values["portgroup_id"], groups.c.node_id == node.id)
    ).first()
    if group is None:
        raise errors.BadRequest(f"The port group does not belong to node {nodes.label(node)}.")
    if not group.standalone_ports_supported and (values["pxe_enabled"] or vif):
        what = "be pxe_enabled" if values["pxe_enabled"] else "have a VIF"
        raise errors.Conflict(f"Port group {group.uuid} does not support standalone ports, so its ports cannot {what}.")
    others = connection.execute(
        select(ports.c.physical_network)
        .distinct()
        .where(ports.c.portgroup_id == group.id, ports.c.uuid != values["uuid"])
    ).scalars()
    for other in others:
        if other != values.get("physical_network"):
            raise errors.Conflict(
                f"The other ports of port group {group.uuid} are on physical network {other or 'none'}, "
                f"not {values.get('physical_network') or 'none'}; all ports of a group share one."
            )


def _group_id(connection: Connection, uuid: str | None) -> int | None:
    if uuid is None:
        return None
    groups = tables.portgroups
    found = connection.execute(select(groups.c.id).where(groups.c.uuid == uuid)).scalar()
    if found is None:
        raise errors.BadRequest(f"Port group {uuid} could not be found.")
    return int(found)


# -- SQL


def changed_port(port: Port, columns: Mapping[str, Any]) -> Port:
    """The port as drivers will see it."""
    known = {name: value for name, value in columns.items() if name in Port.__struct_fields__}
    for name in ("extra", "local_link_connection"):
        if name in known:
            known[name] = msgspec.json.decode(known[name])
    return msgspec.structs.replace(port, **known)


def _insert(connection: Connection, columns: Mapping[str, Any]) -> None:
    try:
        connection.execute(insert(ports).values(**columns, created_at=now()))
    except IntegrityError as error:
        if is_taken(error, ports.c.address):
            raise taken(columns["address"]) from None
        raise errors.Duplicate(f"A port with UUID {columns['uuid']} already exists.") from None


def _update(connection: Connection, port_id: int, columns: Mapping[str, Any]) -> None:
    try:
        connection.execute(update(ports).where(ports.c.id == port_id).values(**columns, updated_at=now()))
    except IntegrityError:
        raise taken(columns.get("address")) from None


def taken(address: str | None) -> errors.Duplicate:
    return errors.Duplicate(f"A port with MAC address {address} already exists.")
