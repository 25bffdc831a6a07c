"""A real PostgreSQL for tests: one private cluster per test session, one fresh database per test.

`postgres_url` is such a database, `database_url` one of either kind: a test that takes it runs on SQLite
and on PostgreSQL. Imported by tests/conftest.py, so every test can use them.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

OWNER = "postgres"
SETTINGS = {
    # The cluster never outlives the session: what it loses in a power cut does not matter.
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "listen_addresses": "127.0.0.1",
}


class Cluster:
    def __init__(self, port: int) -> None:
        self.port = port

    def url(self, database: str) -> str:
        return f"postgresql+psycopg://{OWNER}@127.0.0.1:{self.port}/{database}"

    def create(self) -> str:
        """The name of a new, empty database."""
        name = f"t{uuid4().hex[:16]}"
        self._execute(f'CREATE DATABASE "{name}"')
        return name

    def drop(self, name: str) -> None:
        self._execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def _execute(self, statement: str) -> None:
        with psycopg.connect(
            host="127.0.0.1", port=self.port, user=OWNER, dbname="postgres", autocommit=True
        ) as connection:
            connection.execute(statement)


def binaries() -> Path:
    """Where initdb and postgres are; the newest installed version."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    if on_path is None:
        pytest.fail("PostgreSQL is not installed (Debian: apt-get install postgresql).")
    return Path(on_path).parent


def as_owner(command: list[str]) -> list[str]:
    """PostgreSQL refuses to run as root."""
    return ["runuser", "-u", OWNER, "--", *command] if os.geteuid() == 0 else command


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def postgres_cluster() -> Iterator[Cluster]:
    where = Path(tempfile.mkdtemp(prefix="holdfast-pg-"))
    if os.geteuid() == 0:
        user = pwd.getpwnam(OWNER)
        os.chown(where, user.pw_uid, user.pw_gid)
    data, port = where / "data", free_port()
    run: dict[str, Any] = {"cwd": where, "check": True, "capture_output": True, "timeout": 120}
    control = [str(binaries() / "pg_ctl"), "-D", str(data), "-w", "-l", str(where / "log")]
    try:
        init = ["-D", str(data), "-U", OWNER, "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"]
        subprocess.run(as_owner([str(binaries() / "initdb"), *init]), **run)
        options = " ".join(f"-c {name}={value}" for name, value in SETTINGS.items())
        start = [*control, "-o", f"-p {port} -k {where} {options}", "start"]
        subprocess.run(as_owner(start), **run)
        try:
            yield Cluster(port)
        finally:
            subprocess.run(as_owner([*control, "-m", "immediate", "stop"]), **run)
    finally:
        shutil.rmtree(where, ignore_errors=True)


@pytest.fixture
def postgres_url(postgres_cluster: Cluster) -> Iterator[str]:
    name = postgres_cluster.create()
    yield postgres_cluster.url(name)
    postgres_cluster.drop(name)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.real)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh database of each kind in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'holdfast.sqlite'}"
    url: str = request.getfixturevalue("postgres_url")
    return url
