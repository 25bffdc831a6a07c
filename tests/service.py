"""A real `holdfast serve` for tests: its own process group, port and state directory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests

from tests import enrolment
from tests.postgres import Cluster, free_port

# A step that fails is tried again at once.
QUICK: dict[str, Any] = {"flows__retry_delay": "0"}


@dataclass
class Service:
    """A service that answers. `request` speaks plain HTTP, `send` the bare-metal API at its newest version."""

    port: int
    state_dir: Path
    process: subprocess.Popen[bytes]
    session: requests.Session = field(default_factory=requests.Session)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def baremetal(self) -> str:
        return f"{self.url}/baremetal"

    @property
    def clouds(self) -> Path:
        """What the service wrote for its clients."""
        return self.state_dir / "clouds.yaml"

    @property
    def log(self) -> str:
        return (self.state_dir / "log").read_text()

    def request(
        self, method: str, path: str, document: Any = None, *, version: str | None = "latest", **more: Any
    ) -> requests.Response:
        headers = {"X-OpenStack-Ironic-API-Version": version} if version else {}
        return self.session.request(method, self.url + path, json=document, headers=headers, timeout=60, **more)

    def send(self, method: str, path: str, document: Any = None) -> Any:
        """The document of a successful answer of the bare-metal API; None if it has no body."""
        answer = self.request(method, f"/baremetal{path}", document)
        assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def enrol(self, count: int = 1, *, state: str = "enroll", **fields: Any) -> list[str]:
        return enrolment.enrol(self.send, count, state=state, **fields)

    def settle(self, node: str, wanted: str | None = None) -> dict[str, Any]:
        return enrolment.settle(self.send, node, wanted=wanted)

    def kill(self) -> None:
        """kill -9 of every process of the service."""
        _signal(self.process, signal.SIGKILL)

    def stop(self) -> int:
        """A graceful stop; its exit code."""
        self.process.terminate()
        return self.process.wait(60)


@contextmanager
def serving(
    state_dir: Path,
    *,
    database: str | None = None,
    workers: int = 1,
    port: int | None = None,
    config_file: Path | None = None,
    **settings: str,
) -> Iterator[Service]:
    """A service that is ready; `settings` are options such as `flows__step_attempts="1"`."""
    state_dir.mkdir(parents=True, exist_ok=True)
    port = port or free_port()
    environment = {**os.environ, **{f"HOLDFAST_{name.upper()}": value for name, value in settings.items()}}
    if database is not None:
        environment["HOLDFAST_DATABASE__CONNECTION"] = database
    command = [sys.executable, "-m", "holdfast", "serve", "--port", str(port), "--workers", str(workers)]
    if config_file is not None:
        command += ["--config-file", str(config_file)]
    with (state_dir / "log").open("ab") as log:
        process = subprocess.Popen(
            [*command, "--state-dir", str(state_dir)],
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )
    service = Service(port, state_dir, process)
    try:
        _wait_until_ready(service)
        yield service
    finally:
        service.session.close()
        _signal(process, signal.SIGKILL)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One service on SQLite for all tests of a module."""
    with serving(tmp_path_factory.mktemp("service") / "state", **QUICK) as running:
        yield running


@pytest.fixture(scope="module")
def postgres_service(tmp_path_factory: pytest.TempPathFactory, postgres_cluster: Cluster) -> Iterator[Service]:
    """The same on PostgreSQL, with two worker processes."""
    database = postgres_cluster.create()
    with serving(
        tmp_path_factory.mktemp("service") / "state", database=postgres_cluster.url(database), workers=2, **QUICK
    ) as running:
        yield running
    postgres_cluster.drop(database)


def _wait_until_ready(service: Service, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if service.process.poll() is not None:
            break
        try:
            if requests.get(f"{service.url}/readyz", timeout=5).ok:
                return
        except requests.ConnectionError:
            time.sleep(0.02)
    raise AssertionError(f"The service is not ready:\n{service.log}")


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        pass
    process.wait(60)
