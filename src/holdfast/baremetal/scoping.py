"""Which nodes, and which things of nodes, a caller may see: one clause that every query uses.

A system token sees everything. A project token sees the nodes the project owns or leases, what belongs to
those nodes, and the allocations the project owns; everything else does not exist for it.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, or_

from holdfast.db.tables import allocations, nodes
from holdfast.web.policy import Scope


def visible(scope: Scope) -> list[ColumnElement[bool]]:
    """The WHERE of a list for this scope; joined to `nodes` by whoever asks."""
    return [] if scope.is_everything else [or_(nodes.c.owner == scope.project_id, nodes.c.lessee == scope.project_id)]


def visible_allocations(scope: Scope) -> list[ColumnElement[bool]]:
    """The same for allocations, which have an owner of their own."""
    return [] if scope.is_everything else [allocations.c.owner == scope.project_id]


def covers(scope: Scope, owner: str | None, lessee: str | None) -> bool:
    """Whether a node that was found, with this owner and lessee, is one of those."""
    return scope.is_everything or scope.project_id in (owner, lessee)
