"""A real Nova for tests: installed from PyPI into a venv of its own, its database on SQLite, no daemon.

    python -m tests.nova            installs it (once; the fixture does the same when it is missing)

What runs is Nova's ironic driver inside one process (tests/compat/nova_compute.py), which does in the driver what
nova-compute does; tests call it by name and look at the bare-metal service meanwhile.
The venv is `.venv-nova` in the project, or where HOLDFAST_NOVA_VENV points.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import venvs

REQUIREMENT = "nova>=34,<35"
VENV = Path(os.environ.get("HOLDFAST_NOVA_VENV") or Path(__file__).parent.parent / ".venv-nova")
COMPUTE = Path(__file__).parent / "compat" / "nova_compute.py"


class Refused(Exception):
    """The driver raised: the name of Nova's exception and its message."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


@dataclass
class Compute:
    """The process with the driver. `call("spawn", instance=…)` runs that function of nova_compute.py."""

    process: subprocess.Popen[str]
    log: Path

    def call(self, name: str, **arguments: Any) -> Any:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps([name, arguments]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"The process ended in {name}:\n{self.log.read_text()[-8000:]}"
        answer = json.loads(line)
        if "error" in answer:
            raise Refused(answer["error"], answer["message"])
        return answer["result"]


def install() -> None:
    venvs.install(VENV, REQUIREMENT)


@contextmanager
def computing(directory: Path, *, neutron: str = "", cinder: str = "", **ironic: str) -> Iterator[Compute]:
    """Nova's driver; `ironic` are the options of its section `[ironic]`.

    Config drives need the URL of a Neutron, volumes that of a Cinder.
    """
    install()
    directory.mkdir(parents=True, exist_ok=True)
    config = directory / "nova.conf"
    config.write_text(_config(directory, neutron, cinder, ironic))
    log = directory / "nova.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [VENV / "bin/python", COMPUTE, config],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
        )
    try:
        yield Compute(process, log)
    finally:
        process.kill()
        process.communicate()


def _config(directory: Path, neutron: str, cinder: str, ironic: dict[str, str]) -> str:
    section = "".join(f"{name} = {value}\n" for name, value in ironic.items())
    return f"""
[DEFAULT]
host = compute-1
compute_driver = ironic.IronicDriver
state_path = {directory}
transport_url = fake://
use_stderr = true
debug = true
[database]
connection = sqlite:///{directory}/nova.db
[api_database]
connection = sqlite:///{directory}/nova_api.db
[oslo_concurrency]
lock_path = {directory}
[neutron]
auth_type = none
endpoint_override = {neutron}
[cinder]
endpoint_template = {cinder}
[ironic]
api_retry_interval = 1
{section}"""


if __name__ == "__main__":
    install()
    sys.exit(0)
