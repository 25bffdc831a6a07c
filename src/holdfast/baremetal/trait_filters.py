"""Lists of nodes filtered by traits: `traits`, `traits-any`, `not-traits`, `not-traits-any`.

    traits=A,B           has A and B
    traits-any=A,B       has A or B
    not-traits=A,B       lacks A or B: does not have all of them
    not-traits-any=A,B   lacks A and B: has none of them

Each is a clause on its own: a probe of the key (node_id, trait) for every node the list walks past. That
alone would walk a whole fleet to find the few nodes with a rare trait. So a page that demands a
trait is cut from the index (trait, node_id) instead, which holds the nodes of a trait in the order
of lists: a page costs the same whether one node in ten thousand has the trait or all have. What no
index can find is a node that *lacks* what nearly all have; the `not-` filters alone walk the
nodes in order and stop when the page is full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    func,
    literal,
    null,
    select,
    union,
    union_all,
)

from holdfast import errors
from holdfast.baremetal import traits
from holdfast.db import tables

if TYPE_CHECKING:
    from holdfast.web.lists import Window

# More names than a node can have traits make no sense, and each costs a probe.
MOST_NAMES = traits.MOST
# A trait of fewer nodes is rare. Counting ends here: beyond it the difference does not matter any more.
RARE = 1_000

nodes = tables.nodes
held = tables.node_traits


def parse(argument: str, text: str) -> tuple[str, ...]:
    """The names in a filter's value."""
    names = tuple(dict.fromkeys(traits.check(name) for name in text.split(",")))
    if len(names) > MOST_NAMES:
        raise errors.InvalidValue(f"{argument} takes {MOST_NAMES} traits at most, not {len(names)}.")
    return names


def has_all(node_id: ColumnElement[int], names: Sequence[str]) -> ColumnElement[bool]:
    return _how_many(node_id, names) >= len(names)


def has_any(node_id: ColumnElement[int], names: Sequence[str]) -> ColumnElement[bool]:
    return _how_many(node_id, names) >= 1


def lacks_some(node_id: ColumnElement[int], names: Sequence[str]) -> ColumnElement[bool]:
    return _how_many(node_id, names) < len(names)


def lacks_all(node_id: ColumnElement[int], names: Sequence[str]) -> ColumnElement[bool]:
    return _how_many(node_id, names) < 1


# argument: (its clause, what it means)
FILTERS = {
    "traits": (has_all, "Has all of these traits."),
    "traits-any": (has_any, "Has at least one of these traits."),
    "not-traits": (lacks_some, "Does not have all of these traits."),
    "not-traits-any": (lacks_all, "Has none of these traits."),
}


def narrow(connection: Connection, window: Window) -> ColumnElement[bool] | None:
    """The nodes of the rarest trait the page demands; None if it demands none, or too common a one."""
    every: tuple[str, ...] = window.values.get("traits", ())
    some: tuple[str, ...] = window.values.get("traits-any", ())
    choices = [(name,) for name in every] + ([some] if some else [])
    if not choices:
        return None
    chosen = choices[0]
    if len(choices) > 1 or not window.by_id:
        counts = _bounded_counts(connection, {*every, *some})
        sizes = {choice: sum(counts[name] for name in choice) for choice in choices}
        chosen = min(choices, key=sizes.__getitem__)
        if not window.by_id and sizes[chosen] >= RARE:
            # In another order all nodes of a trait would have to be sorted, where walking the nodes in
            # that order meets enough of them soon.
            return None
    return nodes.c.id.in_(_candidates(chosen, window))


def explain(connection: Connection, window: Window) -> Mapping[str, Any]:
    """Why a list is short: how many nodes each trait asked for would leave if it were asked for alone.
    `nodes` is how many there are without any trait filter; every other filter counts."""
    asked = {argument: window.values[argument] for argument in FILTERS if argument in window.values}
    names = {name for values in asked.values() for name in values}
    others = _others(window)
    everything = select(null().label("trait"), func.count().label("nodes")).select_from(nodes).where(*others)
    statement: Any = everything
    if names:
        by_trait = select(held.c.trait, func.count().label("nodes")).where(held.c.trait.in_(names))
        if others:
            by_trait = by_trait.join(nodes, nodes.c.id == held.c.node_id).where(*others)
        statement = union_all(everything, by_trait.group_by(held.c.trait))
    counts = {row.trait: row.nodes for row in connection.execute(statement)}
    total = counts[None]
    left: dict[str, Any] = {"nodes": total}
    for argument, values in asked.items():
        negative = argument.startswith("not-")
        left[argument] = {name: total - counts.get(name, 0) if negative else counts.get(name, 0) for name in values}
    return {"explain": left}


def _how_many(node_id: ColumnElement[int], names: Sequence[str]) -> ColumnElement[int]:
    """How many of these traits the node has.

    A count rather than EXISTS: PostgreSQL turns a negated or alternative EXISTS into a hash of all nodes
    with the trait, and guesses that `=` is nearly never true, after which it reads whole tables.
    """
    return select(func.count()).where(held.c.node_id == node_id, held.c.trait.in_(names)).scalar_subquery()


def _others(window: Window) -> list[ColumnElement[bool]]:
    return [*window.where, *(clause for name, clause in window.clauses.items() if name not in FILTERS)]


def _candidates(names: Sequence[str], window: Window) -> Any:
    """Nodes with any of these traits. In the order of ids only as many as the page needs, which is
    why every other condition applies here already; in any other order all of them."""
    each = [_stream(name, window) for name in names]
    if len(each) == 1:
        return each[0]
    # A limit inside a union needs a SELECT around it, on SQLite.
    return union(*(select(stream.subquery().c.node_id) for stream in each))


def _stream(name: str, window: Window) -> Select[Any]:
    """The nodes with one trait, read from the index in order of their ids."""
    has = held.alias()
    statement = select(has.c.node_id).where(has.c.trait == name)
    if not window.by_id:
        # All of them, which are less than RARE; PostgreSQL believes it only if it is told.
        return statement.limit(RARE * 2)
    for argument, (clause, _about) in FILTERS.items():
        wanted = [n for n in window.values.get(argument, ()) if (argument, n) != ("traits", name)]
        # Whoever has this trait has one of those.
        if wanted and not (argument == "traits-any" and name in wanted):
            statement = statement.where(clause(has.c.node_id, wanted))
    if others := _others(window):
        statement = statement.join(nodes, nodes.c.id == has.c.node_id).where(*others)
    if window.after is not None:
        after = window.after
        statement = statement.where(has.c.node_id < after if window.descending else has.c.node_id > after)
    order = has.c.node_id.desc() if window.descending else has.c.node_id.asc()
    return statement.order_by(order).limit(window.size)


def _bounded_counts(connection: Connection, names: set[str]) -> Mapping[str, int]:
    """How many nodes have each trait, at most `RARE`."""
    counts = []
    for name in sorted(names):
        some = select(held.c.node_id).where(held.c.trait == name).limit(RARE).subquery()
        counts.append(select(literal(name).label("trait"), func.count().label("nodes")).select_from(some))
    return {row.trait: row.nodes for row in connection.execute(union_all(*counts))}
