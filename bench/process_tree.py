"""CPU time and memory of a process and all its descendants, read from the kernel.

Linux only. A database server is never a descendant of the service it serves, so it is not counted;
SQLite lives inside the service, so it is.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Process:
    """A process, told apart from a later one with the same id by its start time."""

    pid: int
    started: int
    parent: int
    reaped_children_seconds: float


def members(root: int) -> list[Process]:
    """The process `root` and its descendants, as they are now; empty when it is gone."""
    processes = [process for entry in os.listdir("/proc") if entry.isdigit() and (process := _read(int(entry)))]
    tree = [process for process in processes if process.pid == root]
    for process in tree:  # grows as it is walked: children, then theirs
        tree += [child for child in processes if child.parent == process.pid]
    return tree


def cpu_seconds(root: int) -> float:
    """CPU time, user and system, that the tree has used so far.

    Each live process is read through its CPU clock, which is `/proc/<pid>/stat` with nanoseconds
    in place of 10 ms ticks: a batch of 100 cheap requests is only a few ticks long. What children
    used that have ended since is in their parent's entry.
    """
    total = 0.0
    for process in members(root):
        with contextlib.suppress(OSError):
            total += time.clock_gettime(_cpu_clock(process.pid)) + process.reaped_children_seconds
    return total


def resident_bytes(root: int) -> int:
    """Proportional set size: what processes share is counted once."""
    total = 0
    for process in members(root):
        with contextlib.suppress(OSError):
            rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
            total += sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return total * 1024


def kill_remaining(tree: list[Process]) -> None:
    """End those of `tree` that still run; a process that took over an id is left alone."""
    for process in tree:
        now = _read(process.pid)
        if now is not None and now.started == process.started:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)


def _cpu_clock(pid: int) -> int:
    """The clock that clock_getcpuclockid(3) returns; Python has no name for it."""
    return (~pid << 3) | 2


def _read(pid: int) -> Process | None:
    """proc_pid_stat(5). The command name may hold spaces and brackets: count from its last one."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat[stat.rindex(")") + 2 :].split()
    reaped_ticks = int(fields[13]) + int(fields[14])
    return Process(pid, int(fields[19]), int(fields[1]), reaped_ticks / TICKS_PER_SECOND)
