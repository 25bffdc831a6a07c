"""The commands of the specs, word for word, against a running service.

Most run inside the test process, through the same entry points as the executables: a start of
openstackclient takes a second, and there are many. One of each kind runs as the executable it is.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat import spec_commands
from tests.service import Service

# Warnings of the clients' own libraries are theirs.
pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def names(service: Service) -> Iterator[dict[str, str]]:
    """Two nodes: off, as commands that change volumes want it, with a port for VIFs."""
    node, other = service.enrol(2, state="manageable")
    service.send("POST", "/v1/ports", {"node_uuid": node, "address": f"52:54:00:{node[:2]}:{node[2:4]}:{node[4:6]}"})
    yield {"node": node, "other": other}
    for uuid in (node, other):
        service.send("DELETE", f"/v1/nodes/{uuid}")


def run(command: str, service: Service, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """Exit code and output of a command line, run in this process."""
    program, *arguments = shlex.split(command)
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(service.clouds))
    monkeypatch.setenv("OS_CLOUD", "holdfast")
    monkeypatch.setattr(sys, "argv", [program, *arguments])
    if program == "ironic":
        from holdfast.cli.ironic import main
    else:
        from openstackclient.shell import main
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            code = main(arguments)
        except SystemExit as leaving:
            code = int(leaving.code or 0)
    return int(code or 0), output.getvalue()


@pytest.mark.parametrize("group", spec_commands.ALL)
def test_every_command_of_the_specs_works(
    group: str, service: Service, names: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for row in spec_commands.ALL[group]:
        command = row.command.format(**names)
        code, output = run(command, service, monkeypatch)
        assert (code != 0) == row.fails, f"{command}\nexit {code}\n{output}"
        assert row.shows.format(**names) in output, f"{command}\n{output}"


@pytest.mark.parametrize(
    "command",
    [
        "ironic volume-connector-list -f json",
        "openstack baremetal node list --trait CUSTOM_NOBODY -f json",
        "holdfast baremetal node list --trait-any CUSTOM_NOBODY CUSTOM_ELSE -f json",
    ],
)
def test_the_executables_work(command: str, service: Service) -> None:
    program, *arguments = shlex.split(command)
    done = subprocess.run(
        [str(Path(sys.executable).parent / program), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "OS_CLIENT_CONFIG_FILE": str(service.clouds), "OS_CLOUD": "holdfast"},
    )
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


def test_without_any_setting_the_local_service_is_meant(service: Service) -> None:
    bare = {k: v for k, v in os.environ.items() if not k.startswith("OS_")}
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "baremetal", "driver", "list", "-f", "value"],
        capture_output=True,
        text=True,
        env={**bare, "HOLDFAST_URL": service.url},
    )
    assert "fake-hardware" in done.stdout, done.stderr


def test_errors_of_the_server_are_shown_whole(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = "99999999-9999-4999-8999-999999999999"
    code, output = run(f"ironic volume-connector-show {unknown}", service, monkeypatch)
    assert code == 1
    assert unknown in output
    assert "could not be found" in output
