"""A private PostgreSQL server with the settings it comes with, reachable through its socket only."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import BenchError

BINARIES = Path("/usr/lib/postgresql/15/bin")
READY_SECONDS = 30
STOP_SECONDS = 30
FAST_SHUTDOWN = signal.SIGINT

# The server refuses to run as root: root hands it to the user that Debian's package made for it.
OWNER = "postgres" if os.geteuid() == 0 else None


@contextmanager
def server(directory: Path, databases: list[str]) -> Iterator[dict[str, str]]:
    """Run a server with empty `databases` in `directory`; gives each one's SQLAlchemy URL."""
    if not BINARIES.is_dir():
        raise BenchError(f"PostgreSQL is not installed: {BINARIES} is missing")
    directory.mkdir(parents=True)
    if OWNER:
        shutil.chown(directory, OWNER, OWNER)
    data = directory / "data"
    _run("initdb", "--pgdata", data, "--username", "postgres", "--auth", "trust", "--encoding", "UTF8")
    with (directory / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [BINARIES / "postgres", "-D", data, "-c", "listen_addresses=", "-k", directory],
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            user=OWNER,
            group=OWNER,
            extra_groups=[] if OWNER else None,
        )
    try:
        _wait_until_ready(directory)
        for name in databases:
            _run("createdb", "--host", directory, "--username", "postgres", name)
        yield {name: f"postgresql+psycopg://postgres@/{name}?host={directory}" for name in databases}
    finally:
        process.send_signal(FAST_SHUTDOWN)
        process.wait(STOP_SECONDS)


def _wait_until_ready(directory: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            return _run("pg_isready", "--host", directory)
        except BenchError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _run(program: str, *arguments: object) -> None:
    command = [str(BINARIES / program), *map(str, arguments)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        user=OWNER,
        group=OWNER,
        extra_groups=[] if OWNER else None,
    )
    if done.returncode != 0:
        raise BenchError(f"{program} failed: {done.stderr.strip() or done.stdout.strip()}")
