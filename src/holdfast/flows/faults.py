"""Where tests make things go wrong: `HOLDFAST_FAULT="<kind>.<step>.<do|undo>.<before|inside|after>=<what>"`.

`before` is before the step is written down as started, `inside` after its effect and before its
result is recorded, `after` right after that. `kill` ends the process as kill -9 does; `error` makes
every attempt fail with `DriverFailed`, `error-once` only the first. Several faults are separated by
commas. Without the variable nothing here does anything.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping

from holdfast import errors

VARIABLE = "HOLDFAST_FAULT"
WHERE = ("before", "inside", "after")
WHAT = ("kill", "error", "error-once")


class Faults:
    def __init__(self, text: str = "") -> None:
        self._armed: dict[str, str] = {}
        self.arm(text)

    def arm(self, text: str) -> None:
        """Arms these faults and no others."""
        self._armed = {}
        for entry in filter(None, text.split(",")):
            point, _, what = entry.strip().partition("=")
            if what not in WHAT or point.count(".") != 3 or point.rpartition(".")[2] not in WHERE:
                raise ValueError(f"{VARIABLE}: {entry!r} is not <kind>.<step>.<do|undo>.<where>=<what>.")
            if what != "kill" and point.endswith(".after"):
                raise ValueError(f"{VARIABLE}: {entry!r}: what is recorded cannot fail any more.")
            self._armed[point] = what

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Faults:
        return cls((os.environ if environment is None else environment).get(VARIABLE, ""))

    def kill_at(self, point: str) -> None:
        """Ends the process here if that is armed."""
        if self._armed.get(point) == "kill":
            os.kill(os.getpid(), signal.SIGKILL)

    def fail_at(self, point: str) -> None:
        """Raises here if that is armed."""
        what = self._armed.get(point)
        if what in ("error", "error-once"):
            if what == "error-once":
                del self._armed[point]
            raise errors.DriverFailed(f"Injected failure at {point}.")
