"""python-ironicclient, unmodified, against a running service: the `baremetal` command and `openstack baremetal`.

Most commands run inside the test process through the executable's own entry point, for a start takes a
second; one of each kind runs as the executable it is.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.compat.baremetal_commands import GROUPS, Row, matches
from tests.service import Service
from tests.web.targets import mac

# Warnings of the client's own libraries are theirs.
pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore")]

BIN = Path(sys.executable).parent


@pytest.fixture
def names(tmp_path: Path) -> dict[str, str]:
    """What the rows of a group call things."""
    drive = tmp_path / "drive"
    drive.write_text("H4sIAAAA")
    kinds = ("uuid", "port", "group", "chassis", "connector", "target", "vif")
    made = {kind: str(uuid4()) for kind in kinds}
    suffix = made["uuid"][:8]
    return {
        **made,
        "drive": str(drive),
        "node": f"node-{suffix}",
        "other": f"other-{suffix}",
        "mac": mac(),
        "other_mac": mac(),
        "iqn": f"iqn.2026-01.test:{suffix}",
    }


@pytest.fixture
def quick_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--wait` looks every two to ten seconds; our machines are faster."""
    from ironicclient.v1 import utils

    for action in utils.PROVISION_ACTIONS.values():
        if action is not None:
            monkeypatch.setitem(action, "poll_interval", 0.05)


def run(service: Service, command: str) -> tuple[int, str, str]:
    """Exit code, output and error of a `baremetal` command line."""
    from ironicclient.shell import main

    out, err = io.StringIO(), io.StringIO()
    arguments = ["--os-endpoint", service.baremetal, "--max-retries", "0", *shlex.split(command)]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(arguments)
        except SystemExit as leaving:
            code = int(leaving.code or 0)
    return int(code or 0), out.getvalue(), err.getvalue()


def check(service: Service, row: Row, names: Mapping[str, str]) -> None:
    command = row.command.format(**names)
    if command.startswith("until node "):
        node, _, wanted = command.removeprefix("until node ").partition(" is ")
        until(service, node, wanted)
        return
    if command.startswith("node create") and row.code == 0:
        command = f"{command} --uuid {names['uuid']}"
    code, out, err = run(service, f"{command} -f json" if row.shows is not None else command)
    told = f"baremetal {command}\n{out}\n{err}"
    assert code == row.code, told
    assert row.says.format(**names) in out + err, told
    if row.shows is not None:
        shown, expected = json.loads(out), fill(row.shows, names)
        assert matches(shown, expected), f"{told}\nexpected {expected}"


def until(service: Service, node: str, wanted: str) -> None:
    """Waits until the node rests in a provision or power state."""
    for _ in range(1000):
        found = service.settle(node)
        if wanted in (found["provision_state"], found["power_state"]):
            return
        time.sleep(0.02)
    raise AssertionError(f"{node} is not {wanted}: {found}")


def fill(expected: Any, names: Mapping[str, str]) -> Any:
    """The expectation with the names in it."""
    if isinstance(expected, str):
        return expected.format(**names)
    if isinstance(expected, list):
        return type(expected)(fill(item, names) for item in expected)
    if isinstance(expected, dict):
        return {key: fill(value, names) for key, value in expected.items()}
    return expected


@pytest.mark.parametrize("group", GROUPS)
def test_commands_do_and_show_what_they_should(
    service: Service, names: dict[str, str], quick_waits: None, group: str
) -> None:
    for row in GROUPS[group]:
        check(service, row, names)


# -- as executables


def executed(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
    return subprocess.run(
        [str(BIN / arguments[0]), *arguments[1:]],
        env={**clean, "PYTHONWARNINGS": "ignore", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_baremetal_with_an_endpoint(service: Service) -> None:
    done = executed("baremetal", "--os-endpoint", service.baremetal, "node", "list", "-f", "json")
    assert done.returncode == 0, done.stderr
    assert isinstance(json.loads(done.stdout), list)


@pytest.mark.parametrize("program", [("baremetal",), ("openstack", "baremetal")], ids=" ".join)
def test_with_the_clouds_file_the_service_wrote(service: Service, program: tuple[str, ...]) -> None:
    cloud = {"OS_CLIENT_CONFIG_FILE": str(service.clouds), "OS_CLOUD": "holdfast"}
    name = f"cloudy-{uuid4()}"
    created = executed(*program, "node", "create", "--driver", "fake-hardware", "--name", name, "-f", "json", **cloud)
    assert created.returncode == 0, created.stderr
    assert json.loads(created.stdout)["name"] == name
    assert executed(*program, "node", "manage", name, "--wait", **cloud).returncode == 0
    shown = executed(*program, "node", "show", name, "-f", "value", "--fields", "provision_state", **cloud)
    assert shown.stdout.strip() == "manageable"
    refused = executed(*program, "node", "rebuild", name, **cloud)
    assert refused.returncode == 1
    assert "can not be performed" in refused.stderr
    assert executed(*program, "node", "delete", name, **cloud).returncode == 0


def test_a_conflict_is_retried_by_the_client_and_then_shown(service: Service) -> None:
    (uuid,) = service.enrol(name=f"twice-{uuid4()}")
    name = service.send("GET", f"/v1/nodes/{uuid}")["name"]
    command = ["node", "create", "--driver", "fake-hardware", "--name", name]
    done = executed(
        "baremetal", "--os-endpoint", service.baremetal, "--max-retries", "1", "--retry-interval", "0", *command
    )
    assert done.returncode == 1
    assert f"A node with name {name} already exists. (HTTP 409)" in done.stderr


def test_openstackclient_lists_what_it_can_without_an_identity_service(service: Service) -> None:
    cloud = {"OS_CLIENT_CONFIG_FILE": str(service.clouds), "OS_CLOUD": "holdfast"}
    done = executed("openstack", "baremetal", "driver", "list", "-f", "json", **cloud)
    assert done.returncode == 0, done.stderr
    assert "fake-hardware" in {row["name"] for row in json.loads(done.stdout)}
