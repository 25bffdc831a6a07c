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

from sqlalchemy import make_url

from bench import BenchError

TITLES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
PACKAGES = Path("/usr/lib/postgresql")
READY_SECONDS = 30
STOP_SECONDS = 30
FAST_SHUTDOWN = signal.SIGINT
IMMEDIATE_SHUTDOWN = signal.SIGQUIT

# The server refuses to run as root: root hands it to the user that Debian's package made for it.
OWNER = "postgres" if os.geteuid() == 0 else None


@contextmanager
def server(directory: Path, databases: list[str]) -> Iterator[dict[str, str]]:
    """Run a server with empty `databases` in `directory`; gives each one's SQLAlchemy URL."""
    binaries = _newest_binaries()
    directory.mkdir(mode=0o700, parents=True)
    if OWNER:
        shutil.chown(directory, OWNER, OWNER)
    data = directory / "data"
    _run(binaries / "initdb", "--pgdata", data, "--username", "postgres", "--auth", "trust", "--encoding", "UTF8")
    with (directory / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [binaries / "postgres", "-D", data, "-c", "listen_addresses=", "-k", directory],
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            user=OWNER,
            group=OWNER,
            extra_groups=[] if OWNER else None,
        )
    try:
        _wait_until_ready(binaries, directory)
        for name in databases:
            _run(binaries / "createdb", "--host", directory, "--username", "postgres", name)
        yield {name: f"postgresql+psycopg://postgres@/{name}?host={directory}" for name in databases}
    finally:
        _stop(process)


def pid(url: str) -> int:
    """The process id of the server behind one of those URLs; its helpers are its children."""
    directory = Path(str(make_url(url).query["host"]))
    return int((directory / "data" / "postmaster.pid").read_text().split("\n", 1)[0])


def _wait_until_ready(binaries: Path, directory: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            return _run(binaries / "pg_isready", "--host", directory)
        except BenchError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(FAST_SHUTDOWN)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.send_signal(IMMEDIATE_SHUTDOWN)
        process.wait()


def _newest_binaries() -> Path:
    """Where Debian puts the programs of the newest major version that is installed."""
    versions = [int(entry.name) for entry in PACKAGES.glob("[0-9]*") if (entry / "bin" / "postgres").exists()]
    if not versions:
        raise BenchError(f"PostgreSQL is not installed: {PACKAGES} has no server")
    return PACKAGES / str(max(versions)) / "bin"


def _run(program: Path, *arguments: object) -> None:
    command = [str(program), *map(str, arguments)]
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
        raise BenchError(f"{program.name} failed: {done.stderr.strip() or done.stdout.strip()}")
