"""The machine a run was made on, as far as it matters to a reader."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

from bench import ROOT


def description() -> dict[str, str]:
    """Source revision, processor, memory, kernel, and how busy the machine was before the run."""
    return {"revision": _revision(), "machine": _hardware(), "load before": _load()}


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


def _load() -> str:
    return f"{os.getloadavg()[0]:.2f} processes, average of one minute"


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()
