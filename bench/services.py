"""The services under test: how each is installed, started, asked and stopped.

What differs between the two is data (`Settings`, made by `ironic` and `holdfast`); everything else
is done to both in the same way (`Service`). Both run at their defaults except where `IRONIC_CONF`
says otherwise, and never listen beyond 127.0.0.1.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench import ROOT, SCRATCH, BenchError, process_tree
from bench.load import Job, Request

HOLDFAST_BIN = ROOT / ".venv" / "bin"
IRONIC_VENV = SCRATCH / "ironic-venv"
IRONIC_REQUIREMENTS = "ironic==39.* psycopg[binary]"

# What differs from the defaults, in both: no periodic power sync, which would add to whatever is being measured;
# no cleaning, which would hide the deploys behind it; and ramdisks may call in every state, so that any node will do.
# In Ironic that also takes `fast_track`: without it, it throws away what a ramdisk says that nothing waits for.
# Ironic runs as one process with everything in it, as its guide for standalone use has it.
IRONIC_CONF = """\
[DEFAULT]
host = bench
auth_strategy = noauth
rpc_transport = none
enabled_hardware_types = fake-hardware
enabled_bios_interfaces = fake
enabled_boot_interfaces = fake
enabled_console_interfaces = fake
enabled_deploy_interfaces = fake, direct
enabled_firmware_interfaces = fake
enabled_inspect_interfaces = fake
enabled_management_interfaces = fake
enabled_network_interfaces = noop
enabled_power_interfaces = fake
enabled_raid_interfaces = fake
enabled_rescue_interfaces = fake
enabled_storage_interfaces = noop
enabled_vendor_interfaces = fake

[api]
host_ip = 127.0.0.1
port = {port}
restrict_lookup = false

[conductor]
sync_power_state_interval = 0
automated_clean = false

[deploy]
fast_track = true

[database]
connection = {connection}
"""

HOLDFAST_ENVIRONMENT = {
    "HOLDFAST_API__RESTRICT_LOOKUP": "false",
    "HOLDFAST_CONDUCTOR__SYNC_POWER_STATE_INTERVAL": "0",
    "HOLDFAST_CONDUCTOR__AUTOMATED_CLEAN": "false",
}

VERSION_HEADER = "X-OpenStack-Ironic-API-Version"
# The versions with which ironic-python-agent calls.
RAMDISK_LOOKUP = {VERSION_HEADER: "1.62"}
RAMDISK_HEARTBEAT = {VERSION_HEADER: "1.68"}
FIRST_REQUEST = "/v1/nodes?limit=1"
START_SECONDS = 60
STOP_SECONDS = 15
# Quiet: less than this share of one core over all samples. Busy: more than that share in one.
SAMPLES, SAMPLE_SECONDS = 6, 0.05
QUIET_SHARE, BUSY_SHARE = 0.04, 0.25
SETTLE_SECONDS = 60


@dataclass(frozen=True)
class Settings:
    """How to run one service.

    `ready_path`, below the host, answers 200 once it can take work.
    """

    name: str
    version: str
    command: list[str]
    directory: Path
    port: int
    root: str
    ready_path: str
    database_url: str
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """An answer to `Service.get`."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Service:
    """A service that can be started and stopped any number of times; leaving the context stops it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.name = settings.name
        self.url = f"http://127.0.0.1:{settings.port}{settings.root}"
        self.headers: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> float:
        """Start, and wait until it can take work; returns the seconds to the first answered request."""
        began = time.perf_counter()
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self.settings.command,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**_clean_environment(), **self.settings.environment},
                cwd=self.settings.directory,
                start_new_session=True,
            )
        deadline = began + START_SECONDS
        self._wait_for(self.settings.root + FIRST_REQUEST, deadline)
        answered = time.perf_counter() - began
        self._wait_for(self.settings.ready_path, deadline)
        return answered

    def stop(self) -> None:
        """Ask it to end, then make it; nothing that it started stays behind. May be called twice."""
        if self._process is None:
            return
        tree = process_tree.members(self._process.pid)
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_SECONDS)
        process_tree.kill_remaining(tree)
        self._process.wait()
        self._process = None

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        """GET below the root of the API."""
        return self._ask("GET", self.settings.root + path, headers)

    def get_beside(self, path: str) -> Answer:
        """GET below the host, beside the API."""
        return self._ask("GET", path)

    def put(self, path: str, body: object) -> Answer:
        """PUT below the root of the API."""
        return self._ask("PUT", self.settings.root + path, {"Content-Type": "application/json"}, json.dumps(body))

    def job(self, requests: list[Request], concurrency: int = 1, follows_next: bool = False) -> Job:
        """A job for the load generator, addressed to this service."""
        return Job(self.url, self.headers, requests, concurrency, follows_next)

    def speak(self, minor: int) -> None:
        """Use this API version from now on."""
        self.headers = {VERSION_HEADER: f"1.{minor}"}

    def cpu_seconds(self) -> float:
        return process_tree.cpu_seconds(self._pid)

    def resident_bytes(self) -> int:
        return process_tree.resident_bytes(self._pid)

    def wait_until_quiet(self) -> float:
        """Wait until it uses almost no CPU: nothing that it was asked to do is left to do.

        Returns when it was last busy, by `time.perf_counter`.
        """
        deadline = time.monotonic() + SETTLE_SECONDS
        busy_until = time.perf_counter()
        samples = deque([(busy_until, self.cpu_seconds())], maxlen=SAMPLES + 1)
        while time.monotonic() < deadline:
            time.sleep(SAMPLE_SECONDS)
            earlier, before = samples[-1]
            now, cpu = time.perf_counter(), self.cpu_seconds()
            samples.append((now, cpu))
            if cpu - before > BUSY_SHARE * (now - earlier):
                busy_until = now
            since, at_first = samples[0]
            if len(samples) > SAMPLES and cpu - at_first < QUIET_SHARE * (now - since):
                return busy_until
        raise BenchError(f"{self.name} is still busy {SETTLE_SECONDS} s after its last request")

    @property
    def _pid(self) -> int:
        if self._process is None or self._process.poll() is not None:
            raise BenchError(f"{self.name} is not running; its log is {self._log_path}")
        return self._process.pid

    @property
    def _log_path(self) -> Path:
        return self.settings.directory / "service.log"

    def _wait_for(self, path: str, deadline: float) -> None:
        while self._pid:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self._ask("GET", path).status == 200:
                    return
            if time.perf_counter() > deadline:
                raise BenchError(f"{self.name} does not answer {path}; its log is {self._log_path}")
            time.sleep(0.01)

    def _ask(self, method: str, path: str, more: Mapping[str, str] | None = None, body: str | None = None) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.settings.port, timeout=60)
        with contextlib.closing(connection):
            headers = {"Accept": "application/json", **self.headers, **(more or {})}
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): value for k, value in answer.getheaders()}, answer.read())


def ironic(directory: Path, connection: str | None) -> Settings:
    """A real Ironic with an empty database: SQLite in `directory`, or what `connection` names."""
    install_ironic()
    directory.mkdir(parents=True)
    port = free_port()
    url = connection or f"sqlite:///{directory / 'ironic.sqlite'}"
    configuration = directory / "ironic.conf"
    configuration.write_text(IRONIC_CONF.format(port=port, connection=url))
    arguments = ["--config-file", str(configuration)]
    run([IRONIC_VENV / "bin" / "ironic-dbsync", *arguments, "create_schema"])
    return Settings(
        name="ironic",
        version=installed_version(IRONIC_VENV / "bin", "ironic"),
        command=[str(IRONIC_VENV / "bin" / "ironic"), *arguments],
        directory=directory,
        port=port,
        root="",
        ready_path="/v1/drivers/fake-hardware",
        database_url=url,
    )


def holdfast(directory: Path, connection: str | None) -> Settings:
    """Holdfast from this tree's virtual environment, with an empty database likewise."""
    program = HOLDFAST_BIN / "holdfast"
    if not program.exists():
        raise BenchError(f"{program} is missing: install Holdfast there first")
    directory.mkdir(parents=True)
    port = free_port()
    return Settings(
        name="holdfast",
        version=installed_version(HOLDFAST_BIN, "holdfast"),
        command=[
            str(program),
            "serve",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--state-dir",
            str(directory),
        ],
        directory=directory,
        port=port,
        root="/baremetal",
        ready_path="/readyz",
        database_url=connection or f"sqlite:///{directory / 'holdfast.sqlite'}",
        environment=HOLDFAST_ENVIRONMENT | ({"HOLDFAST_DATABASE__CONNECTION": connection} if connection else {}),
    )


SERVICES = {"ironic": ironic, "holdfast": holdfast}


def install_ironic() -> None:
    """Make Ironic's virtual environment, unless a complete one with these requirements is there."""
    complete = IRONIC_VENV / "complete"
    if complete.exists() and complete.read_text() == IRONIC_REQUIREMENTS:
        return
    print("Installing Ironic from PyPI, once …", file=sys.stderr)
    shutil.rmtree(IRONIC_VENV, ignore_errors=True)
    run([sys.executable, "-m", "venv", IRONIC_VENV])
    run([IRONIC_VENV / "bin" / "pip", "install", "--quiet", *IRONIC_REQUIREMENTS.split()])
    complete.write_text(IRONIC_REQUIREMENTS)


def installed_version(binaries: Path, distribution: str) -> str:
    """The version of a distribution in a virtual environment, and of the Python that runs it."""
    script = (
        "import importlib.metadata, platform;"
        f"print(importlib.metadata.version({distribution!r}), 'on Python', platform.python_version())"
    )
    return run([binaries / "python", "-c", script]).strip()


def run(command: list[str | Path]) -> str:
    """Run a command to its end; its output, or an error that quotes it."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"{command[0]} failed:\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


def _clean_environment() -> dict[str, str]:
    """The caller's environment without settings meant for some other Holdfast, or for Python: pip has compiled
    Ironic when it installed it, and Holdfast, which runs from its source, must be allowed to keep its bytecode."""
    meant_for_others = ("HOLDFAST_", "PYTHON")
    return {name: value for name, value in os.environ.items() if not name.startswith(meant_for_others)}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
