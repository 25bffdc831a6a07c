"""Which nodes, and which things of nodes, a caller may see: one clause that every query uses.

Nodes get an owner and a lessee with 1.50 and 1.65. Until then a node belongs to nobody, and a caller
whose rights end at a project sees none.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, false

from holdfast.web.policy import Scope


def visible(scope: Scope) -> list[ColumnElement[bool]]:
    """The WHERE of a list for this scope; joined to `nodes` by whoever asks."""
    return [] if scope.is_everything else [false()]
