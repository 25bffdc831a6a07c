"""The machine a run was made on, as far as it matters to a reader."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from pathlib import Path

from bench import ROOT, process_tree


def description() -> dict[str, str]:
    """Source revision, processor, memory and kernel."""
    return {"revision": _revision(), "machine": _hardware()}


class Bystanders:
    """How much CPU the processes of this machine use that have nothing to do with the run."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._before = self._cpu_seconds()

    def cores(self) -> float:
        """Cores that they have kept busy since this object was made, on average."""
        return (self._cpu_seconds() - self._before) / (time.monotonic() - self._began)

    def _cpu_seconds(self) -> float:
        """proc_stat(5): the whole machine's user, nice, system, irq and softirq time, without our tree's."""
        ticks = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
        everything = sum(ticks[:3]) + sum(ticks[5:7])
        return everything / process_tree.TICKS_PER_SECOND - process_tree.cpu_seconds(os.getpid())


def _revision() -> str:
    """The commit of this tree; `+` if the service or the benchmark has changed since."""
    commit = _git("rev-parse", "--short", "HEAD")
    changed = _git("status", "--porcelain", "--", "src", "bench", ":!bench/RESULTS.md", ":!bench/results")
    return commit + "+" if changed else commit


def _hardware() -> str:
    cores = os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return f"{_processor()}, {cores} cores, {memory:.0f} GiB, Linux {platform.release()}"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()
