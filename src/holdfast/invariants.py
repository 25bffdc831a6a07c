"""What must hold whenever no flow is running: the promise that nothing is lost, as a function.

`holdfast doctor` prints the violations; the crash and failure tests call this after every kill.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
from sqlalchemy import Connection, or_, select

from holdfast import errors
from holdfast.baremetal import nodes, states, vifs
from holdfast.baremetal.drivers.base import NetworkInterface
from holdfast.baremetal.drivers.fake.power import FakePower
from holdfast.baremetal.drivers.storage.cinder import CinderStorage
from holdfast.baremetal.drivers.storage.volumes import BOOT_FROM_VOLUME
from holdfast.db import tables
from holdfast.services import Services

VIF_KEY, LEGACY_KEY = NetworkInterface.VIF_KEY, vifs.LEGACY_KEY

Check = Callable[[Services, Connection], Iterator[str]]


def violations(services: Services) -> list[str]:
    """Every broken promise, as a sentence; empty when all is well."""
    with services.db.read() as connection:
        return [problem for check in CHECKS for problem in check(services, connection)]


def every_lock_belongs_to_a_live_flow(_services: Services, connection: Connection) -> Iterator[str]:
    table, flows = tables.nodes, tables.flows
    live = set(connection.execute(select(flows.c.id).where(flows.c.state.in_(("running", "stuck")))).scalars())
    for uuid, holder in connection.execute(
        select(table.c.uuid, table.c.reservation).where(table.c.reservation.is_not(None))
    ):
        if holder.partition("/")[2] not in live:
            yield f"Node {uuid} is locked by {holder}, which is not running."


def every_moving_node_has_its_flow(_services: Services, connection: Connection) -> Iterator[str]:
    table = tables.nodes
    moving = states.UNSTABLE - states.WAITING
    for uuid, state in connection.execute(
        select(table.c.uuid, table.c.provision_state).where(
            table.c.provision_state.in_(moving), table.c.reservation.is_(None)
        )
    ):
        yield f"Node {uuid} is {state!r} and nothing works on it."


def every_power_change_has_its_flow(_services: Services, connection: Connection) -> Iterator[str]:
    table = tables.nodes
    for uuid, target in connection.execute(
        select(table.c.uuid, table.c.target_power_state).where(
            table.c.target_power_state.is_not(None), table.c.reservation.is_(None)
        )
    ):
        yield f"Node {uuid} is on its way to {target!r} and nothing works on it."


def targets_follow_from_states(_services: Services, connection: Connection) -> Iterator[str]:
    table = tables.nodes
    for row in connection.execute(select(table.c.uuid, table.c.provision_state, table.c.target_provision_state)):
        expected = {states.TARGETS.get(row.provision_state)}
        if row.provision_state in (states.CLEANING, states.CLEANWAIT, states.CLEANFAIL):
            expected.add(states.MANAGEABLE)
        if row.target_provision_state not in expected:
            yield (
                f"Node {row.uuid} is {row.provision_state!r} with target {row.target_provision_state!r}, "
                f"not {sorted(map(str, expected))}."
            )


def every_vif_is_where_its_port_says(_services: Services, connection: Connection) -> Iterator[str]:
    """The key that keeps a VIF on one node, and the ports and port groups that carry it, tell the same."""
    nodes, claims = tables.nodes, tables.node_vifs
    claimed = {
        (row.vif_id, row.uuid)
        for row in connection.execute(select(claims.c.vif_id, nodes.c.uuid).join_from(claims, nodes))
    }
    carried = set()
    for table in (tables.ports, tables.portgroups):
        for info, extra, uuid in connection.execute(
            select(table.c.internal_info, table.c.extra, nodes.c.uuid)
            .join_from(table, nodes)
            .where(or_(table.c.internal_info.contains(VIF_KEY), table.c.extra.contains(LEGACY_KEY)))
        ):
            if vif := msgspec.json.decode(info).get(VIF_KEY) or msgspec.json.decode(extra).get(LEGACY_KEY):
                carried.add((vif, uuid))
    for vif, uuid in sorted(claimed - carried):
        yield f"VIF {vif} is kept for node {uuid}, but none of its ports carries it."
    for vif, uuid in sorted(carried - claimed):
        yield f"VIF {vif} is on a port of node {uuid}, but could be attached to another node as well."


def network_services_hold_what_the_rows_say(services: Services, connection: Connection) -> Iterator[str]:
    """Of nodes at rest whose network interface talks to one."""
    table = tables.nodes
    rows = connection.execute(
        select(table.c.uuid).where(
            table.c.reservation.is_(None),
            table.c.network_interface.not_in(("noop",)),
            table.c.provision_state.in_(states.STABLE),
            table.c.driver.in_(services.drivers.types()),
        )
    ).scalars()
    for uuid in rows.all():
        task = nodes.load_task(connection, uuid)
        yield from services.drivers.network(task).audit(task)


def fake_machines_are_what_the_rows_say(services: Services, connection: Connection) -> Iterator[str]:
    """Of nodes at rest. A power state that is unknown has not been read yet."""
    table = tables.nodes
    rows = connection.execute(
        select(
            table.c.uuid,
            table.c.power_state,
            table.c.provision_state,
            table.c.driver_internal_info,
            table.c.deploy_interface,
        ).where(table.c.driver == "fake-hardware", table.c.reservation.is_(None))
    ).all()
    power = services.drivers.interface("fake-hardware", "power", "fake") if rows else None
    if not isinstance(power, FakePower):
        return
    for uuid, recorded, state, info, deploy in rows:
        machine = power.machines.get(uuid)
        from_volume = BOOT_FROM_VOLUME in msgspec.json.decode(info)
        if recorded is not None and machine.power_state != recorded:
            yield f"Node {uuid} is recorded as {recorded!r} but its machine is {machine.power_state!r}."
        if state == states.ACTIVE and deploy == "fake" and not machine.disk and not from_volume:
            yield f"Node {uuid} is active but its machine carries no instance."
        if state == states.AVAILABLE and machine.disk:
            yield f"Node {uuid} is available but its machine still carries an instance."
        # In `error` a tear down stopped anywhere, a rescue ramdisk or not.
        if machine.rescued != (state == states.RESCUE) and state in states.STABLE - {states.ERROR}:
            yield f"Node {uuid} is {state!r} but its machine {'runs' if machine.rescued else 'lacks'} a rescue ramdisk."


def cinder_attaches_what_the_rows_say(services: Services, connection: Connection) -> Iterator[str]:
    """Of nodes at rest: an active one that is on has its volumes, one without an instance has none."""
    table, targets = tables.nodes, tables.volume_targets
    rows = connection.execute(
        select(table).where(table.c.storage_interface == "cinder", table.c.reservation.is_(None))
    ).all()
    for row in rows:
        storage = services.drivers.interface(row.driver, "storage", "cinder")
        if not isinstance(storage, CinderStorage):
            continue
        try:
            ours = {a["volume_id"] for a in storage.cinder.attachments(instance=row.uuid)}
            given = {a["volume_id"] for a in storage.cinder.attachments(instance=row.instance_uuid or row.uuid)}
        except errors.HoldfastError as error:
            yield f"Node {row.uuid} cannot be compared with its volumes. {error.public}"
            continue
        wanted = set(connection.execute(select(targets.c.volume_id).where(targets.c.node_id == row.id)).scalars())
        if row.provision_state == states.ACTIVE and row.power_state == states.POWER_ON:
            for volume in sorted(wanted - ours - given):
                yield f"Node {row.uuid} is active and on, but its volume {volume} is not attached."
        elif row.provision_state not in (states.AVAILABLE, states.DEPLOYFAIL, states.MANAGEABLE, states.ENROLL):
            continue
        else:
            wanted = set()
        for volume in sorted(ours - wanted):
            yield f"Node {row.uuid} is {row.provision_state!r}, but volume {volume} is still attached to it."


def allocations_and_nodes_agree(_services: Services, connection: Connection) -> Iterator[str]:
    table, nodes, flows = tables.allocations, tables.nodes, tables.flows
    live = set(connection.execute(select(flows.c.id).where(flows.c.state.in_(("running", "stuck")))).scalars())
    rows = select(table.c.uuid, table.c.state, table.c.reservation, nodes.c.uuid.label("node"), nodes.c.instance_uuid)
    for row in connection.execute(rows.outerjoin_from(table, nodes, nodes.c.id == table.c.node_id)):
        if (row.state == "active") != (row.node is not None):
            yield f"Allocation {row.uuid} is {row.state!r} and has {row.node or 'no node'}."
        if row.node is not None and row.instance_uuid != row.uuid:
            yield f"Allocation {row.uuid} has node {row.node}, which carries instance {row.instance_uuid}."
        searching = row.reservation is not None and row.reservation.partition("/")[2] in live
        if (row.state == "allocating") != searching:
            yield f"Allocation {row.uuid} is {row.state!r} and its flow is {row.reservation}."


CHECKS: tuple[Check, ...] = (
    every_lock_belongs_to_a_live_flow,
    every_moving_node_has_its_flow,
    every_power_change_has_its_flow,
    targets_follow_from_states,
    every_vif_is_where_its_port_says,
    network_services_hold_what_the_rows_say,
    fake_machines_are_what_the_rows_say,
    cinder_attaches_what_the_rows_say,
    allocations_and_nodes_agree,
)
