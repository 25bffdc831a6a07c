"""Virtual environments of their own for what must not share one with Holdfast: real services, from PyPI, each once."""

from __future__ import annotations

import fcntl
import subprocess
import venv
from pathlib import Path


def install(directory: Path, *requirements: str) -> None:
    """Make sure the environment is there with these; several test processes may ask at once."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    wanted = "\n".join(requirements)
    with open(directory.parent / f"{directory.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = directory / "installed"
        if done.exists() and done.read_text() == wanted:
            return
        venv.create(directory, with_pip=True, clear=True)
        subprocess.run([directory / "bin/pip", "install", "--quiet", *requirements], check=True)
        done.write_text(wanted)
