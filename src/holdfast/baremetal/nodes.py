"""Nodes: the rules of creating, changing and deleting them, and their SQL."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from oslo_config import cfg
from sqlalchemy import ColumnElement, Connection, Row, Select, Table, bindparam, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from holdfast import config, errors
from holdfast.baremetal import deploy_templates, locks, states
from holdfast.baremetal.drivers.registry import Drivers
from holdfast.baremetal.task import Connector, Node, Port, Portgroup, Target, Task
from holdfast.db import tables
from holdfast.db.engine import Database, now
from holdfast.db.prepared import Prepared
from holdfast.services import Services
from holdfast.web.kinds import is_uuid, new_uuid

INTERFACE_FIELDS = tuple(f"{kind}_interface" for kind in config.INTERFACES)
RESERVED_NAMES = frozenset({"maintenance", "management", "states", "vendor_passthru", "detail", "validate"})
_HOST_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*", re.IGNORECASE)
_GROUP = re.compile(r"[a-z0-9_\-.]*")
_JSON_COLUMNS = tuple(
    column.name for column in tables.nodes.c if column.server_default is not None and str(column.type) == "TEXT"
)

nodes = tables.nodes


def _by(column: ColumnElement[Any]) -> Select[Any]:
    return select(nodes).where(column == bindparam("ident"))


# (by UUID, lock)
_FIND = {
    (True, False): Prepared(_by(nodes.c.uuid)),
    (True, True): Prepared(_by(nodes.c.uuid).with_for_update()),
    (False, False): Prepared(_by(nodes.c.name)),
    (False, True): Prepared(_by(nodes.c.name).with_for_update()),
}


def find(connection: Connection, ident: str, *, lock: bool = False) -> Row[Any]:
    """The row of the node with that UUID or name. `lock`: the row is about to be changed."""
    by_uuid = is_uuid(ident)
    row = _FIND[by_uuid, lock].first(connection, ident=ident.lower() if by_uuid else ident)
    if row is None:
        raise missing(ident)
    return row


def missing(ident: str) -> errors.NotFound:
    return errors.NotFound(f"Node {ident} could not be found.")


def label(row: Any) -> str:
    """How messages name a node."""
    return f"{row.name} ({row.uuid})" if row.name else str(row.uuid)


def check_name(name: str | None, *, host_name: bool) -> None:
    """Beyond the general form of names: no reserved words, and host names only before 1.10."""
    if name is None:
        return
    if name.lower() in RESERVED_NAMES:
        raise errors.InvalidValue(f"A node cannot be called {name!r}: the API uses that word in its paths.")
    if host_name and not _HOST_NAME.fullmatch(name):
        raise errors.InvalidValue(f"{name!r} is not a host name; other names need API version 1.10.")


def create(db: Database, drivers: Drivers, conf: cfg.ConfigOpts, values: dict[str, Any], state: str) -> str:
    """Enrols a node and returns its UUID. `values` are checked fields; interfaces left out get defaults."""
    values = dict(values)
    driver = values["driver"]
    values.update(_interfaces(drivers, driver, values))
    values["uuid"] = values.get("uuid") or new_uuid()
    values["conductor_group"] = _group(values.get("conductor_group"))
    values["resource_class"] = values.get("resource_class") or conf.default_resource_class
    if not values.get("maintenance"):
        values["maintenance"] = False
    with db.write() as connection:
        values["chassis_id"] = _chassis_id(connection, values.pop("chassis_uuid", None))
        try:
            connection.execute(
                insert(nodes).values(
                    **values,
                    created_at=now(),
                    provision_state=state,
                    provision_updated_at=now(),
                    power_sync_due_at=now(),
                )
            )
        except IntegrityError as error:
            raise _duplicate(values, error) from None
    return str(values["uuid"])


def change(
    services: Services,
    ident: str,
    changes: Callable[[Mapping[str, Any]], dict[str, Any]],
    operations: Sequence[Mapping[str, Any]],
    *,
    inspection_shown: bool,
    reset_interfaces: bool = False,
    may_reassign: bool = False,
) -> int:
    """Applies a patch in one transaction and returns the node's id.

    `changes` turns the stored values into those that change; `operations` is the patch it came from,
    which some rules depend on; `inspection_shown`: the version in which nodes under inspection are closed;
    `may_reassign`: the caller may give a node that is in use to another project.
    """
    with services.db.write() as connection:
        row = find(connection, ident, lock=True)
        chassis_uuid = connection.execute(
            select(tables.chassis.c.uuid).where(tables.chassis.c.id == row.chassis_id)
        ).scalar()
        freeing = row.maintenance and [dict(o) for o in operations] == [{"op": "remove", "path": "/instance_uuid"}]
        if not freeing:
            _require_changeable(row, inspection_shown)
        locks.require_free(label(row), row.reservation)
        values = changes({**row._asdict(), "chassis_uuid": chassis_uuid})
        _check_changes(services.drivers, row, values, reset_interfaces)
        if "owner" in values:
            _require_reassignable(connection, row, may_reassign)
        if values.get("instance_uuid", row.instance_uuid) is None and row.instance_uuid is not None:
            _drop_allocation(connection, row)
        if values.get("network_interface", row.network_interface) != row.network_interface:
            _require_no_vifs(connection, row)
        if values:
            values.setdefault("updated_at", now())
            try:
                connection.execute(update(nodes).where(nodes.c.id == row.id).values(**_columns(connection, values)))
            except IntegrityError as error:
                raise _duplicate(values, error) from None
        return int(row.id)


def destroy(services: Services, ident: str, request_id: str | None = None) -> None:
    """Deletes a node with everything that belongs to it; by a flow, if a network or storage service knows of it."""
    with services.db.write() as connection:
        row = find(connection, ident, lock=True)
        locks.require_free(label(row), row.reservation)
        require_deletable(services.conf, row)
        # A driver that is not enabled any more must not keep its nodes from being deleted.
        known = services.drivers.supports(row.driver)
        calls_out = known and _is_known_outside(services, load_task(connection, ident))
        if not calls_out:
            erase(connection, row.id)
    if calls_out:
        from holdfast.baremetal.flows import delete_node, node_work  # here, because flows import this module

        services.flows.run(delete_node.DELETE, node_work.NodeParams(node=row.uuid), request_id=request_id)


def _is_known_outside(services: Services, task: Task) -> bool:
    # Volumes are attached to nodes that carry an instance, or had trouble getting rid of one.
    carries = task.node.provision_state not in states.DELETABLE | {states.AVAILABLE}
    return services.drivers.network(task).calls_out or (carries and services.drivers.storage(task).calls_out)


def require_deletable(conf: cfg.ConfigOpts, row: Row[Any]) -> None:
    """Refuses to delete a node that is in use."""
    allowed = states.DELETABLE
    if conf.conductor.allow_deleting_available_nodes:
        allowed = allowed | {states.AVAILABLE}
    require_unprotected(row)
    if row.instance_uuid is not None and not row.maintenance:
        raise errors.Associated(f"Node {label(row)} carries instance {row.instance_uuid}. Undeploy it first.")
    if row.provision_state not in allowed and not row.maintenance:
        raise errors.InvalidState(
            f"Node {label(row)} cannot be deleted while it is {row.provision_state!r}. "
            "Bring it to manageable first, or put it into maintenance."
        )


def erase(connection: Connection, node_id: int) -> None:
    """Removes the node's rows."""
    # Ports refer to port groups; the cascade of the database does not order the two.
    connection.execute(delete(tables.ports).where(tables.ports.c.node_id == node_id))
    connection.execute(delete(nodes).where(nodes.c.id == node_id))


def set_maintenance(db: Database, ident: str, on: bool, reason: str | None = None) -> None:
    """Turns maintenance on with a reason, or off, which also ends the fault that caused it."""
    with db.write() as connection:
        row = find(connection, ident, lock=True)
        values: dict[str, Any] = {"maintenance": on, "maintenance_reason": reason, "updated_at": now()}
        if not on:
            values["fault"] = None
        connection.execute(update(nodes).where(nodes.c.id == row.id).values(**values))


def set_console(services: Services, ident: str, on: bool) -> None:
    """Opens or closes the node's console and records which."""
    with working(services, ident) as task:
        console = services.drivers.console(task)
        console.validate(task)
        (console.start_console if on else console.stop_console)(task)
    with services.db.write() as connection:
        connection.execute(update(nodes).where(nodes.c.id == task.node.id).values(console_enabled=on, updated_at=now()))


# -- tasks: what drivers work with


def bare_task(row: Row[Any]) -> Task:
    """The node alone, decoded, without what belongs to it."""
    values = {name: getattr(row, name) for name in Node.__struct_fields__ if name != "interfaces"}
    for name in _JSON_COLUMNS:
        if name in values:
            values[name] = msgspec.json.decode(values[name])
    interfaces = {
        kind: getattr(row, f"{kind}_interface") for kind in config.INTERFACES if getattr(row, f"{kind}_interface")
    }
    return Task(node=Node(**values, interfaces=interfaces))


def load_task(connection: Connection, ident: str, generation: int = 0) -> Task:
    """The node with everything that belongs to it, decoded."""
    row = find(connection, ident)
    node = bare_task(row).node
    return Task(
        node=node,
        ports=[Port(**r) for r in _belongings(connection, tables.ports, Port, row.id)],
        portgroups=[Portgroup(**r) for r in _belongings(connection, tables.portgroups, Portgroup, row.id)],
        connectors=[Connector(**r) for r in _belongings(connection, tables.volume_connectors, Connector, row.id)],
        targets=[Target(**r) for r in _belongings(connection, tables.volume_targets, Target, row.id)],
        traits=list(
            connection.execute(
                select(tables.node_traits.c.trait)
                .where(tables.node_traits.c.node_id == row.id)
                .order_by(tables.node_traits.c.trait)
            ).scalars()
        ),
        template_steps=_template_steps(connection, node.instance_info.get("traits")),
        generation=generation,
    )


def _template_steps(connection: Connection, traits: Any) -> list[dict[str, Any]]:
    return deploy_templates.steps_for(connection, traits) if isinstance(traits, list) and traits else []


@contextmanager
def working(services: Services, ident: str, generation: int = 0) -> Iterator[Task]:
    """A task for the length of a driver call, outside any transaction; what the driver changed is
    stored when the call succeeded."""
    with services.db.read() as connection:
        task = load_task(connection, ident, generation)
    before = copy.deepcopy(task)

    def save() -> None:
        nonlocal before
        with services.db.write() as connection:
            store(connection, before, task)
        before = copy.deepcopy(task)

    task.save = save
    yield task
    save()


_STORED = ("driver_internal_info", "properties", "instance_info", "raid_config", "target_raid_config")


def store(connection: Connection, before: Task, after: Task) -> None:
    """Writes the keys the driver changed, and only those: a heartbeat or a patch may have changed others."""
    changed = [name for name in _STORED if getattr(after.node, name) != getattr(before.node, name)]
    if changed or after.node.power_state != before.node.power_state:
        row = find(connection, after.node.uuid, lock=True)
        values: dict[str, Any] = {}
        if after.node.power_state != before.node.power_state:
            values["power_state"] = after.node.power_state
        for name in changed:
            document = msgspec.json.decode(getattr(row, name))
            merged = _merge(document, getattr(before.node, name), getattr(after.node, name))
            values[name] = msgspec.json.encode(merged).decode()
        connection.execute(update(nodes).where(nodes.c.id == row.id).values(**values, updated_at=now()))
    _store_places(connection, tables.ports, before.ports, after.ports)
    _store_places(connection, tables.portgroups, before.portgroups, after.portgroups)
    _store_targets(connection, before.targets, after.targets)


def _merge(stored: dict[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    for key in before.keys() - after.keys():
        stored.pop(key, None)
    for key, value in after.items():
        if key not in before or before[key] != value:
            stored[key] = value
    return stored


def _store_places(
    connection: Connection, table: Table, before: Sequence[Port | Portgroup], after: Sequence[Port | Portgroup]
) -> None:
    for old, new in zip(before, after, strict=True):
        if (new.internal_info, new.extra) != (old.internal_info, old.extra):
            connection.execute(
                update(table)
                .where(table.c.id == new.id)
                .values(
                    internal_info=msgspec.json.encode(new.internal_info).decode(),
                    extra=msgspec.json.encode(new.extra).decode(),
                    updated_at=now(),
                )
            )


def _store_targets(connection: Connection, before: Sequence[Target], after: Sequence[Target]) -> None:
    """How to reach a volume, which a storage interface has found out."""
    table = tables.volume_targets
    for old, new in zip(before, after, strict=True):
        if new.properties != old.properties:
            properties = msgspec.json.encode(new.properties).decode()
            connection.execute(
                update(table).where(table.c.uuid == new.uuid).values(properties=properties, updated_at=now())
            )


def _belongings(connection: Connection, table: Any, struct: type[msgspec.Struct], node_id: int) -> list[dict[str, Any]]:
    names = struct.__struct_fields__
    rows = connection.execute(
        select(*(table.c[name] for name in names)).where(table.c.node_id == node_id).order_by(table.c.id)
    )
    json_names = {name for name in names if str(table.c[name].type) == "TEXT"}
    return [{n: msgspec.json.decode(v) if n in json_names else v for n, v in row._mapping.items()} for row in rows]


# -- rules of change


def _require_changeable(row: Row[Any], inspection_shown: bool) -> None:
    if row.target_provision_state is not None and row.provision_state not in states.PATCHABLE_IN_TRANSITION:
        raise errors.InvalidState(
            f"Node {label(row)} cannot be changed while it is {row.provision_state!r} "
            f"on its way to {row.target_provision_state!r}."
        )
    if row.provision_state == states.INSPECTING and inspection_shown:
        raise errors.InvalidState(f"Node {label(row)} cannot be changed while it is being inspected.")


def require_unprotected(row: Any) -> None:
    """What would destroy the instance on a protected node is refused."""
    if row.protected:
        raise errors.NodeProtected(
            f"Node {label(row)} is protected ({row.protected_reason or 'no reason given'}) and cannot be undeployed, "
            "rebuilt or deleted. End the protection first: `baremetal node unset --protected`."
        )


def _require_reassignable(connection: Connection, row: Row[Any], may_reassign: bool) -> None:
    """A node does not change hands under the feet of who uses it."""
    if row.provision_state == states.ACTIVE and not may_reassign:
        raise errors.InvalidState(f"The owner of node {label(row)} cannot change while it is {states.ACTIVE!r}.")
    allocated = select(tables.allocations.c.uuid).where(
        tables.allocations.c.node_id == row.id, tables.allocations.c.owner.is_not(None)
    )
    if (uuid := connection.execute(allocated).scalar()) is not None:
        raise errors.InvalidState(
            f"The owner of node {label(row)} cannot change: allocation {uuid} is somebody's. Delete it first."
        )


def require_deallocatable(row: Row[Any]) -> None:
    """Whether an allocation may let go of its node: not while an instance is on it, or being put there."""
    if row.maintenance:
        return
    locks.require_free(label(row), row.reservation)
    moving = row.target_provision_state is not None and row.provision_state not in states.PATCHABLE_IN_TRANSITION
    if moving or row.provision_state == states.ACTIVE:
        raise errors.InvalidState(
            f"The allocation of node {label(row)} cannot be deleted while the node is {row.provision_state!r}. "
            "Undeploy it, or put it into maintenance."
        )


def _drop_allocation(connection: Connection, row: Row[Any]) -> None:
    """An allocation lives as long as its instance is on the node."""
    own = tables.allocations.c.node_id == row.id
    if connection.execute(select(tables.allocations.c.id).where(own)).first() is not None:
        require_deallocatable(row)
        connection.execute(delete(tables.allocations).where(own))


def _check_flag(row: Row[Any], values: dict[str, Any], flag: str, may_set: bool) -> None:
    """A flag with a reason: where it may be set, and that the reason goes with it."""
    reason = f"{flag}_reason"
    if values.get(flag) and not may_set:
        raise errors.InvalidState(f"Node {label(row)} cannot be set {flag} while it is {row.provision_state!r}.")
    if values.get(reason) and not values.get(flag, getattr(row, flag)):
        raise errors.BadRequest(f"{reason} goes with {flag}, which is not set.")
    if flag in values and not values[flag]:
        values[reason] = None


def _check_changes(drivers: Drivers, row: Row[Any], values: dict[str, Any], reset_interfaces: bool) -> None:
    """Refuses changes the node's state forbids, and completes `values` with what follows from them."""
    free = row.maintenance or row.provision_state in states.RECONFIGURABLE
    if "driver" in values and row.console_enabled:
        raise errors.InvalidState(f"The driver of node {label(row)} cannot change while its console is on.")
    if reset_interfaces and "driver" not in values:
        raise errors.BadRequest("reset_interfaces goes with a change of the driver.")
    if "driver" in values or any(name in values for name in INTERFACE_FIELDS):
        if not free:
            raise errors.InvalidState(
                f"Driver and interfaces of node {label(row)} cannot change while it is "
                f"{row.provision_state!r}. Bring it to manageable, or put it into maintenance."
            )
        named = {name: values.get(name) for name in INTERFACE_FIELDS if values.get(name)}
        kept = {} if reset_interfaces else {name: getattr(row, name) for name in INTERFACE_FIELDS if name not in values}
        values.update(_interfaces(drivers, values.get("driver", row.driver), {**kept, **named}))
    if "resource_class" in values and row.resource_class is not None and not free:
        raise errors.InvalidState(
            f"The resource class of node {label(row)} cannot change while it is {row.provision_state!r}."
        )
    if values.get("instance_uuid") is not None and row.instance_uuid is not None:
        raise errors.Associated(f"Node {label(row)} already carries instance {row.instance_uuid}.")
    if "maintenance" in values and not values["maintenance"]:
        values.update(maintenance_reason=None, fault=None)
    _check_flag(row, values, "protected", row.provision_state in (states.ACTIVE, states.RESCUE))
    _check_flag(row, values, "retired", row.provision_state != states.AVAILABLE)
    if "conductor_group" in values:
        values["conductor_group"] = _group(values["conductor_group"])


def _require_no_vifs(connection: Connection, row: Row[Any]) -> None:
    """VIFs are detached by the network interface that attached them, or never."""
    held = connection.execute(select(tables.node_vifs.c.vif_id).where(tables.node_vifs.c.node_id == row.id)).scalar()
    if held is not None and not row.maintenance:
        raise errors.InvalidState(
            f"The network interface of node {label(row)} cannot change: VIF {held} is attached. Detach it first."
        )


def _interfaces(drivers: Drivers, driver: str, named: Mapping[str, Any]) -> dict[str, str]:
    """All interfaces of a node: those named, checked against the driver, and defaults for the rest."""
    if not drivers.supports(driver):
        raise errors.BadRequest(
            f"No enabled hardware type is called {driver!r}. Enabled: {', '.join(drivers.types())}."
        )
    chosen = {f"{kind}_interface": name for kind, name in drivers.defaults(driver).items()}
    for kind in config.INTERFACES:
        field = f"{kind}_interface"
        if named.get(field):
            drivers.check(driver, kind, str(named[field]))
            chosen[field] = str(named[field])
    return chosen


def _columns(connection: Connection, values: dict[str, Any]) -> dict[str, Any]:
    columns = dict(values)
    if "chassis_uuid" in columns:
        columns["chassis_id"] = _chassis_id(connection, columns.pop("chassis_uuid"))
    return columns


def _chassis_id(connection: Connection, uuid: str | None) -> int | None:
    if uuid is None:
        return None
    wanted = select(tables.chassis.c.id).where(tables.chassis.c.uuid == uuid)
    # Held until the node refers to it: nobody can delete the chassis in between.
    found = connection.execute(wanted.with_for_update(read=True, key_share=True)).scalar()
    if found is None:
        raise errors.BadRequest(f"Chassis {uuid} could not be found.")
    return int(found)


def _group(name: str | None) -> str:
    group = (name or "").lower()
    if not _GROUP.fullmatch(group):
        raise errors.InvalidValue("conductor_group may only have letters, digits and any of _-.")
    return group


def _duplicate(values: Mapping[str, Any], error: IntegrityError) -> errors.HoldfastError:
    """Which unique value was taken, told by the constraint's name: the rest of the text is the database's."""
    text = str(error.orig)
    if "instance_uuid" in text:
        return errors.Associated(f"Instance {values.get('instance_uuid')} is already on another node.")
    if "name" in text and values.get("name"):
        return errors.Duplicate(f"A node with name {values['name']} already exists.")
    return errors.Duplicate(f"A node with UUID {values.get('uuid')} already exists.")


def store_bios_settings(db: Database, ident: str, settings: Mapping[str, str]) -> None:
    """Replaces the BIOS settings the API shows for a node."""
    table = tables.bios_settings
    with db.write() as connection:
        row = find(connection, ident)
        rows = connection.execute(select(table.c.name, table.c.value).where(table.c.node_id == row.id))
        known = {found.name: found.value for found in rows}
        gone = set(known) - set(settings)
        connection.execute(delete(table).where(table.c.node_id == row.id, table.c.name.in_(gone)))
        for name, value in settings.items():
            if name not in known:
                connection.execute(insert(table).values(node_id=row.id, name=name, value=value, created_at=now()))
            elif known[name] != value:
                connection.execute(
                    update(table)
                    .where(table.c.node_id == row.id, table.c.name == name)
                    .values(value=value, updated_at=now())
                )
