"""Allocations: giving a free node to whoever asks for one of a kind. Rules and SQL.

Taking a node is one compare-and-set on its row, however many ask at the same moment. The node's
`instance_uuid` is the allocation's UUID from then on; nobody else can have it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, and_, case, delete, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from holdfast import errors
from holdfast.baremetal import locks, nodes, scoping, states, trait_filters, traits
from holdfast.db import tables
from holdfast.db.constraints import is_taken
from holdfast.db.engine import Database, now
from holdfast.web.kinds import is_uuid, new_uuid
from holdfast.web.policy import Scope

allocations = tables.allocations

ALLOCATING = "allocating"
ACTIVE = "active"
ERROR = "error"
STATES = (ALLOCATING, ACTIVE, ERROR)


def find(connection: Connection, ident: str, *, lock: bool = False) -> Row[Any]:
    """The allocation with that UUID or name."""
    column = allocations.c.uuid if is_uuid(ident) else allocations.c.name
    statement = select(allocations).where(column == (ident.lower() if is_uuid(ident) else ident))
    row = connection.execute(statement.with_for_update() if lock else statement).first()
    if row is None:
        raise missing(ident)
    return row


def of_node(connection: Connection, node: Any) -> Row[Any]:
    """The allocation a node was given to."""
    row = connection.execute(select(allocations).where(allocations.c.node_id == node.id)).first()
    if row is None:
        raise errors.NotFound(f"Node {nodes.label(node)} has no allocation.")
    return row


def missing(ident: str) -> errors.NotFound:
    return errors.NotFound(f"Allocation {ident} could not be found.")


def candidates(connection: Connection, idents: Sequence[str], scope: Scope) -> list[str]:
    """The UUIDs of the nodes a request names, in its order; `BadRequest` for one the caller cannot see."""
    table = tables.nodes
    named = or_(table.c.uuid.in_(idents), table.c.name.in_(idents))
    known = {}
    for row in connection.execute(select(table.c.uuid, table.c.name).where(named, *scoping.visible(scope))):
        known[row.uuid] = known[row.name] = row.uuid
    for ident in idents:
        if ident not in known:
            raise errors.BadRequest(nodes.missing(ident).public)
    return list(dict.fromkeys(known[ident] for ident in idents))


# -- looking for a node


def begin(db: Database, values: Mapping[str, Any], lock: str) -> None:
    """Writes the request down; the flow that holds `lock` looks for a node. May be repeated."""
    with db.write() as connection:
        mine = select(allocations.c.id).where(allocations.c.uuid == values["uuid"], allocations.c.reservation == lock)
        if connection.execute(mine).first() is None:
            _insert(connection, {**values, "state": ALLOCATING, "reservation": lock})


def choose(db: Database, uuid: str, lock: str) -> str:
    """Takes a node for the allocation and returns its UUID; `Conflict` if there is none. May be repeated."""
    while True:
        with db.write() as connection:
            wanted = find(connection, uuid, lock=True)
            if wanted.node_id is not None:
                return _node_uuid(connection, wanted.node_id)
            if wanted.reservation != lock:
                raise missing(uuid)
            # First whoever is free this moment; then, if others hold every node that matches, after them.
            taken = _take(db, connection, wanted, skip_locked=True)
            if taken is None:
                if not connection.execute(select(tables.nodes.c.id).where(*_matches(wanted)).limit(1)).all():
                    raise _nothing(connection, wanted)
                taken = _take(db, connection, wanted, skip_locked=False)
            if taken is not None:
                _give(connection, taken, wanted)
                return str(taken.uuid)


def give_back(db: Database, uuid: str, lock: str) -> None:
    """Undoes `choose`. May be repeated, and called when nothing was taken."""
    with db.write() as connection:
        mine = connection.execute(
            update(allocations)
            .where(allocations.c.uuid == uuid, allocations.c.state != ERROR)
            .values(node_id=None, state=ALLOCATING, reservation=lock, updated_at=now())
        )
        if mine.rowcount:
            _free(connection, tables.nodes.c.instance_uuid == uuid)


def fail(db: Database, uuid: str, lock: str, reason: str | None) -> None:
    """Ends the search without a node: the allocation says why."""
    with db.write() as connection:
        connection.execute(
            update(allocations)
            .where(allocations.c.uuid == uuid, allocations.c.reservation == lock)
            .values(state=ERROR, last_error=(reason or "It was given up.")[:4096], reservation=None, updated_at=now())
        )


def withdraw(db: Database, uuid: str, lock: str) -> None:
    """Undoes `begin` for a request that was refused: nothing of it stays."""
    with db.write() as connection:
        connection.execute(delete(allocations).where(allocations.c.uuid == uuid, allocations.c.reservation == lock))


def _take(db: Database, connection: Connection, wanted: Row[Any], *, skip_locked: bool) -> Any:
    """The compare-and-set. In random order, so that many at once do not queue up for the same node."""
    table = tables.nodes
    one = select(table.c.id).where(*_matches(wanted)).order_by(func.random()).limit(1)
    if not db.is_sqlite:
        one = one.with_for_update(skip_locked=skip_locked)
    free = table.c.instance_uuid.is_(None), table.c.reservation.is_(None)
    statement = (
        update(table)
        .where(table.c.id == one.scalar_subquery(), *free)
        .values(instance_uuid=wanted.uuid, updated_at=now())
        .returning(table.c.id, table.c.uuid, table.c.instance_info)
    )
    try:
        return connection.execute(statement).first()
    except IntegrityError:
        raise errors.Associated(f"Instance {wanted.uuid} is already on another node.") from None


def _give(connection: Connection, node: Any, wanted: Row[Any]) -> None:
    """Both sides of the bond, in the transaction that took the node."""
    moment, names = now(), msgspec.json.decode(wanted.traits)
    if names:
        info = {**msgspec.json.decode(node.instance_info), "traits": names}
        connection.execute(
            update(tables.nodes)
            .where(tables.nodes.c.id == node.id)
            .values(instance_info=msgspec.json.encode(info).decode())
        )
    connection.execute(
        update(allocations)
        .where(allocations.c.id == wanted.id)
        .values(node_id=node.id, state=ACTIVE, last_error=None, reservation=None, updated_at=moment)
    )


def _matches(wanted: Row[Any]) -> list[ColumnElement[bool]]:
    """Nodes that are free and of the kind that is asked for."""
    table = tables.nodes
    return [
        *_kind(wanted),
        table.c.provision_state == states.AVAILABLE,
        table.c.instance_uuid.is_(None),
        table.c.reservation.is_(None),
        table.c.power_state.is_not(None),
        table.c.maintenance.is_(False),
        table.c.retired.is_(False),
    ]


def _kind(wanted: Row[Any]) -> list[ColumnElement[bool]]:
    """Nodes of the kind that is asked for, free or not."""
    table, names = tables.nodes, msgspec.json.decode(wanted.traits)
    clauses: list[ColumnElement[bool]] = [table.c.resource_class == wanted.resource_class]
    if names:
        # The index on (trait, node_id) gives the nodes of one trait; the key (node_id, trait) tells the rest.
        held = tables.node_traits
        clauses.append(table.c.id.in_(select(held.c.node_id).where(held.c.trait == names[0])))
        clauses.append(trait_filters.has_all(table.c.id, names))
    if uuids := msgspec.json.decode(wanted.candidate_nodes):
        clauses.append(table.c.uuid.in_(uuids))
    if wanted.owner:
        clauses.append(or_(table.c.owner == wanted.owner, table.c.lessee == wanted.owner))
    return clauses


def _nothing(connection: Connection, wanted: Row[Any]) -> errors.Conflict:
    """Why there is none: the kind does not exist, or all of it is in use."""
    table = tables.nodes
    free = and_(table.c.provision_state == states.AVAILABLE, table.c.instance_uuid.is_(None))
    counts = connection.execute(
        select(
            func.count().label("all"),
            func.coalesce(func.sum(case((free, 1), else_=0)), 0).label("free"),
        ).where(*_kind(wanted))
    ).one()
    names, uuids = msgspec.json.decode(wanted.traits), msgspec.json.decode(wanted.candidate_nodes)
    kind = f"resource class {wanted.resource_class}"
    kind += f" and traits {', '.join(names)}" if names else ""
    kind += f" among the {len(uuids)} candidate nodes" if uuids else ""
    kind += f" for project {wanted.owner}" if wanted.owner else ""
    if not counts.all:
        return errors.Conflict(f"There is no node with {kind}.")
    blocked = ", but locked, in maintenance, or their power state is not known" if counts.free else ""
    return errors.Conflict(
        f"No node with {kind} is free: there are {counts.all}, of which {counts.free} are available{blocked}."
    )


# -- without looking


def backfill(db: Database, values: Mapping[str, Any], node: str) -> str:
    """An allocation for a node that carries an instance already; returns its UUID."""
    with db.write() as connection:
        try:
            row = nodes.find(connection, node, lock=True)
        except errors.NotFound as error:
            raise errors.BadRequest(error.public) from None
        locks.require_free(nodes.label(row), row.reservation)
        columns = dict(values)
        columns["uuid"] = columns.get("uuid") or row.instance_uuid or new_uuid()
        columns["resource_class"] = columns.get("resource_class") or row.resource_class
        _check_backfill(connection, row, columns)
        _insert(connection, {**columns, "node_id": row.id, "state": ACTIVE})
        try:
            connection.execute(
                update(tables.nodes)
                .where(tables.nodes.c.id == row.id)
                .values(instance_uuid=columns["uuid"], updated_at=now())
            )
        except IntegrityError:
            raise errors.Associated(f"Instance {columns['uuid']} is already on another node.") from None
    return str(columns["uuid"])


def _check_backfill(connection: Connection, node: Row[Any], columns: Mapping[str, Any]) -> None:
    label = nodes.label(node)
    if node.instance_uuid not in (None, columns["uuid"]):
        raise errors.Associated(f"Node {label} already carries instance {node.instance_uuid}.")
    if node.provision_state != states.ACTIVE:
        raise errors.InvalidState(
            f"Node {label} is {node.provision_state!r}; an allocation can be backfilled if active."
        )
    if columns["resource_class"] != node.resource_class:
        raise errors.Conflict(f"Node {label} has resource class {node.resource_class}.")
    lacking = set(msgspec.json.decode(columns["traits"])) - set(traits.of_node(connection, node.id))
    if lacking:
        raise errors.Conflict(f"Node {label} lacks the traits {', '.join(sorted(lacking))}.")
    uuids = msgspec.json.decode(columns["candidate_nodes"])
    if uuids and uuids != [node.uuid]:
        raise errors.BadRequest("candidate_nodes must be left out, or name the node that is given.")


def change(db: Database, uuid: str, changes: Any) -> None:
    """Applies a patch. `changes` turns the stored values into those that change."""
    with db.write() as connection:
        row = find(connection, uuid, lock=True)
        columns = changes(row._asdict())
        if not columns:
            return
        try:
            connection.execute(
                update(allocations).where(allocations.c.id == row.id).values(**columns, updated_at=now())
            )
        except IntegrityError as error:
            raise _duplicate(columns, error) from None


def destroy(db: Database, uuid: str) -> None:
    """Deletes an allocation; its node, if it has one and no longer uses it, is free again."""
    while True:
        with db.write() as connection:
            row = find(connection, uuid)
            if row.node_id is not None:
                # The node first, as everybody does who has both.
                node = nodes.find(connection, _node_uuid(connection, row.node_id), lock=True)
                nodes.require_deallocatable(node)
            unchanged = allocations.c.node_id.is_(None) if row.node_id is None else allocations.c.node_id == row.node_id
            gone = connection.execute(delete(allocations).where(allocations.c.id == row.id, unchanged))
            if not gone.rowcount:  # it got its node this moment: look again
                continue
            if row.node_id is not None:
                _free(connection, tables.nodes.c.id == row.node_id)
            return


# -- SQL


def _free(connection: Connection, which: ColumnElement[bool]) -> None:
    """Takes the instance off a node. What the last user said about it goes too, unless it still runs."""
    table = tables.nodes
    kept = case((table.c.provision_state == states.ACTIVE, table.c.instance_info), else_="{}")
    connection.execute(update(table).where(which).values(instance_uuid=None, instance_info=kept, updated_at=now()))


def _node_uuid(connection: Connection, node_id: int) -> str:
    return str(connection.execute(select(tables.nodes.c.uuid).where(tables.nodes.c.id == node_id)).scalar_one())


def _insert(connection: Connection, columns: Mapping[str, Any]) -> None:
    try:
        connection.execute(insert(allocations).values(**columns, created_at=now()))
    except IntegrityError as error:
        raise _duplicate(columns, error) from None


def _duplicate(columns: Mapping[str, Any], error: IntegrityError) -> errors.Duplicate:
    if is_taken(error, allocations.c.name):
        return errors.Duplicate(f"An allocation with name {columns.get('name')} already exists.")
    if is_taken(error, allocations.c.node_id):
        return errors.Duplicate("The node has an allocation already.")
    return errors.Duplicate(f"An allocation with UUID {columns.get('uuid')} already exists.")
