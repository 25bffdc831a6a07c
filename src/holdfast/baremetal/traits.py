"""Traits of nodes (spec 001): which names there are, how many a node may have, and their SQL.

Traits may change in any state of the node and while a flow holds it: they say what a node is, not
what happens to it. Writers of one node's traits queue up behind its row, so that the limit holds
whoever writes at the same moment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, insert, literal_column, select

from holdfast import errors
from holdfast.baremetal import nodes
from holdfast.db.engine import Database
from holdfast.db.prepared import Prepared
from holdfast.db.tables import node_traits
from holdfast.db.tables import nodes as nodes_table

# Both limits are Placement's, which the traits of a node end up in.
MOST = 50
LONGEST = 255
_CUSTOM = re.compile(r"CUSTOM_[A-Z0-9_]+")


@cache
def standard() -> frozenset[str]:
    """The names everybody agrees on."""
    import os_traits

    return frozenset(os_traits.get_traits())


def is_valid(name: str) -> bool:
    return len(name) <= LONGEST and (_CUSTOM.fullmatch(name) is not None or name in standard())


def check(name: str) -> str:
    """The name, if a trait can be called so."""
    if not is_valid(name):
        raise errors.InvalidValue(
            f"{name[:80]!r} is not a trait: it must be one of os-traits' standard names, or CUSTOM_ "
            f"followed by upper-case letters, digits and underscores, {LONGEST} characters at most."
        )
    return name


_OF_ONE = Prepared(
    select(node_traits.c.trait).where(node_traits.c.node_id == bindparam("node_id")).order_by(node_traits.c.trait)
)


def of_node(connection: Connection, node_id: int) -> list[str]:
    """The node's traits, sorted."""
    return [trait for (trait,) in _OF_ONE(connection, node_id=node_id)]


_SORTED = (
    select(node_traits.c.trait)
    .where(node_traits.c.node_id == nodes_table.c.id)
    .order_by(node_traits.c.trait)
    .correlate(nodes_table)
    .subquery()
)
# The traits of a row of `nodes` in one text, sorted; null if it has none.
_COMMA: Any = literal_column("""'","'""")
JOINED = select(func.aggregate_strings(_SORTED.c.trait, _COMMA)).scalar_subquery().label("traits")


def array(joined: str) -> str:
    """`JOINED` as JSON. Names of traits need no escaping."""
    return f'["{joined}"]'


def replace(db: Database, node: str, names: Iterable[str]) -> list[str]:
    """Gives the node exactly these traits; returns them, sorted."""
    wanted = {check(name) for name in names}
    with db.write() as connection:
        row = nodes.find(connection, node, lock=True)
        _require_room(nodes.label(row), wanted)
        before = set(of_node(connection, row.id))
        _delete(connection, row.id, before - wanted)
        _insert(connection, row.id, wanted - before)
    return sorted(wanted)


def add(db: Database, node: str, names: Iterable[str]) -> None:
    """Adds traits; one the node has already is no error."""
    wanted = {check(name) for name in names}
    with db.write() as connection:
        row = nodes.find(connection, node, lock=True)
        before = set(of_node(connection, row.id))
        _require_room(nodes.label(row), before | wanted)
        _insert(connection, row.id, wanted - before)


def add_found(db: Database, node: str, names: Iterable[str]) -> list[str]:
    """Adds what inspection found, as far as there is room. Returns what was left out: what did not fit,
    and what is no trait."""
    found = list(dict.fromkeys(names))
    wanted = [name for name in found if is_valid(name)]
    with db.write() as connection:
        row = nodes.find(connection, node, lock=True)
        before = set(of_node(connection, row.id))
        new = [name for name in wanted if name not in before][: max(0, MOST - len(before))]
        _insert(connection, row.id, set(new))
    return [name for name in found if name not in before and name not in new]


def remove(db: Database, node: str, name: str) -> None:
    with db.write() as connection:
        row = nodes.find(connection, node, lock=True)
        if not _delete(connection, row.id, {name}):
            raise errors.NotFound(f"Node {nodes.label(row)} does not have the trait {name[:LONGEST]!r}.")


def remove_all(db: Database, node: str) -> None:
    with db.write() as connection:
        row = nodes.find(connection, node, lock=True)
        connection.execute(delete(node_traits).where(node_traits.c.node_id == row.id))


def _require_room(label: str, names: set[str]) -> None:
    if len(names) > MOST:
        raise errors.InvalidValue(
            f"Node {label} would have {len(names)} traits; {MOST} is the most a node can have. Remove some first."
        )


def _insert(connection: Connection, node_id: int, names: set[str]) -> None:
    if names:
        connection.execute(insert(node_traits), [{"node_id": node_id, "trait": name} for name in sorted(names)])


def _delete(connection: Connection, node_id: int, names: set[str]) -> int:
    if not names:
        return 0
    return connection.execute(
        delete(node_traits).where(node_traits.c.node_id == node_id, node_traits.c.trait.in_(names))
    ).rowcount
