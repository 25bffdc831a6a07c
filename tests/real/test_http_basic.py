"""Passwords, with the real service, the real commands and clients that know nothing of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service import Service, serving

pytestmark = pytest.mark.real

BIN = Path(sys.executable).parent


def passwd(file: Path, user: str, password: str) -> None:
    command = [sys.executable, "-m", "holdfast", "passwd", str(file), user]
    subprocess.run(command, input=password + "\n", text=True, check=True, timeout=60)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    directory = tmp_path_factory.mktemp("guarded")
    passwd(directory / "users", "alice", "her password")
    settings = {
        "default__auth_strategy": "http_basic",
        "default__http_basic_auth_user_file": str(directory / "users"),
    }
    with serving(directory / "state", **settings) as service:
        yield service


def baremetal(service: Service, password: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "OS_AUTH_TYPE": "http_basic",
        "OS_ENDPOINT": service.baremetal,
        "OS_USERNAME": "alice",
        "OS_PASSWORD": password,
    }
    return subprocess.run(
        [BIN / "baremetal", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_baremetal_command_logs_in_with_a_password(guarded: Service) -> None:
    created = baremetal(
        guarded, "her password", "node", "create", "--driver", "fake-hardware", "--name", "n", "-f", "value"
    )
    assert created.returncode == 0, created.stderr
    listed = baremetal(guarded, "her password", "node", "list", "-f", "value", "-c", "Name")
    assert listed.stdout.split() == ["n"], listed.stderr


def test_the_baremetal_command_is_refused_with_a_wrong_password(guarded: Service) -> None:
    refused = baremetal(guarded, "wrong", "node", "list")
    assert refused.returncode != 0
    assert "401" in refused.stderr


def test_a_user_added_while_the_service_runs_gets_in(guarded: Service) -> None:
    assert guarded.request("GET", "/baremetal/v1/nodes", auth=("bob", "his")).status_code == 401
    passwd(guarded.state_dir.parent / "users", "bob", "his")
    assert guarded.request("GET", "/baremetal/v1/nodes", auth=("bob", "his")).status_code == 200


def test_public_paths_stay_open(guarded: Service) -> None:
    for path in ("/baremetal", "/baremetal/v1", "/healthz", "/readyz"):
        assert guarded.request("GET", path).status_code == 200


def test_no_password_is_in_the_log_of_the_service(guarded: Service) -> None:
    guarded.request("GET", "/baremetal/v1/nodes", auth=("alice", "canary-password"))
    assert "canary-password" not in guarded.log
    assert "her password" not in guarded.log


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"HOLDFAST_API__HOST": "0.0.0.0"}, "noauth"),
        (
            {"HOLDFAST_DEFAULT__AUTH_STRATEGY": "http_basic", "HOLDFAST_DEFAULT__HTTP_BASIC_AUTH_USER_FILE": "/none"},
            "/none",
        ),
        ({"HOLDFAST_DEFAULT__AUTH_STRATEGY": "keystone"}, "keystone_authtoken"),
    ],
    ids=["open to the network", "no file of users", "no way to Keystone"],
)
def test_the_service_does_not_start_when_everybody_or_nobody_could_get_in(
    tmp_path: Path, settings: dict[str, str], reason: str
) -> None:
    command = [sys.executable, "-m", "holdfast", "serve", "--state-dir", str(tmp_path / "state")]
    done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert reason in done.stderr
    assert "Traceback" not in done.stderr
