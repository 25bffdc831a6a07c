"""An enrolled Ironic database, kept for the next quick run.

Ironic needs minutes to take in a fleet that never changes, and that is most of a quick run. So every
run that has enrolled one over HTTP keeps the SQLite file, and quick runs start from a copy as long as
Ironic, the fleet and the API version are the same. They then have no figures for enrolment: those of
another hour would not compare.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from bench import SCRATCH
from bench.load import Request


class KeptFleet:
    """The place of one database, named after everything that went into it."""

    def __init__(self, version: str, requests: Sequence[Request]) -> None:
        digest = hashlib.sha256(repr((version, requests)).encode()).hexdigest()[:16]
        self._copy = SCRATCH / "fleets" / f"{digest}.sqlite"

    def exists(self) -> bool:
        return self._copy.exists()

    def keep(self, database: Path) -> None:
        """Copy the database of a stopped service; the name appears only when the copy is complete."""
        partial = self._copy.with_suffix(".partial")
        partial.parent.mkdir(exist_ok=True)
        partial.unlink(missing_ok=True)
        _copy(database, partial)
        partial.rename(self._copy)

    def restore(self, database: Path) -> None:
        """Put the copy in place for a stopped service."""
        _copy(self._copy, database)


def _copy(source: Path, target: Path) -> None:
    """Through SQLite, because a write-ahead log may lie beside either file and belongs to it."""
    with closing(sqlite3.connect(source)) as original, closing(sqlite3.connect(target)) as copy:
        original.backup(copy)
