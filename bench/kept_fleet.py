"""An enrolled Ironic database, kept for the next quick run.

Ironic needs minutes to take in a fleet that never changes, and that is most of a quick run. So the
first run of any kind keeps the SQLite file it has filled over HTTP, with what that cost; quick runs
start from a copy as long as Ironic, the fleet and the API version are the same.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench import SCRATCH
from bench.load import Request


@dataclass(frozen=True)
class Enrolment:
    """What it cost to enrol a fleet, in this run or in the one it was `restored` from."""

    seconds: float
    cpu_seconds: float
    restored: bool = False


class KeptFleet:
    """The place of one database, named after everything that went into it."""

    def __init__(self, version: str, requests: Sequence[Request]) -> None:
        digest = hashlib.sha256(repr((version, requests)).encode()).hexdigest()[:16]
        self._database = SCRATCH / "fleets" / f"{digest}.sqlite"
        self._cost = self._database.with_suffix(".json")

    def keep(self, database: Path, cost: Enrolment) -> None:
        """Copy the database of a stopped service. The cost is written last: it marks the copy complete."""
        self._database.parent.mkdir(exist_ok=True)
        shutil.copy(database, self._database)
        self._cost.write_text(json.dumps(asdict(cost)))

    def exists(self) -> bool:
        return self._cost.exists()

    def restore(self, database: Path) -> Enrolment:
        """Put the copy in place for a stopped service."""
        shutil.copy(self._database, database)
        return Enrolment(**{**json.loads(self._cost.read_text()), "restored": True})
