"""Telling which constraint a statement would have broken, on either database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column
from sqlalchemy.exc import IntegrityError


def is_taken(error: IntegrityError, column: Column[Any]) -> bool:
    """Whether the value is one that another row already has in this unique column."""
    text = str(error.orig)
    # SQLite names the column, PostgreSQL the constraint, which our naming convention spells.
    return f"{column.table.name}.{column.name}" in text or f"uq_{column.table.name}_{column.name}" in text
