"""The commands around the service: what they print, and how they refuse."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli.main import COMMANDS
from holdfast.config import OPTIONS
from tests.postgres import free_port
from tests.service import Service, serving


def holdfast(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "holdfast", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
    )


def test_help_lists_every_command() -> None:
    shown = holdfast("--help")
    assert shown.returncode == 0
    for command in COMMANDS:
        assert command in shown.stdout


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - {"baremetal"}))
def test_every_command_explains_itself(command: str) -> None:
    assert holdfast(command, "--help").returncode == 0


def test_the_sample_configuration_names_every_option_and_passes_its_own_check(tmp_path: Path) -> None:
    sample = holdfast("config", "sample").stdout
    for section, options in OPTIONS.items():
        assert f"[{section}]" in sample
        for option in options:
            assert f"#{option.dest} = " in sample
    file = tmp_path / "holdfast.conf"
    file.write_text(sample)
    assert holdfast("config", "check", "--config-file", str(file)).returncode == 0


def test_a_misspelt_option_is_named(tmp_path: Path) -> None:
    file = tmp_path / "holdfast.conf"
    file.write_text("[api]\nprot = 1\n")
    checked = holdfast("config", "check", "--config-file", str(file))
    assert checked.returncode == 1
    assert "[api] prot" in checked.stderr


@pytest.mark.parametrize(
    ("environment", "named"),
    [({"HOLDFAST_API__PORT": "many"}, "port"), ({"HOLDFAST_API__NONSENSE": "1"}, "[api] nonsense")],
)
def test_a_wrong_environment_variable_is_one_clear_line(
    tmp_path: Path, environment: dict[str, str], named: str
) -> None:
    checked = holdfast("config", "check", **environment)
    assert checked.returncode == 2
    assert named in checked.stderr
    assert "Traceback" not in checked.stderr


def test_db_version_and_upgrade(tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    assert holdfast("db", "version", "--state-dir", state).returncode == 1
    assert holdfast("db", "upgrade", "--state-dir", state).returncode == 0
    shown = holdfast("db", "version", "--state-dir", state)
    assert shown.returncode == 0
    assert "empty" not in shown.stdout


def test_doctor_asks_for_an_upgrade_first(tmp_path: Path) -> None:
    asked = holdfast("doctor", "--state-dir", str(tmp_path))
    assert asked.returncode == 1
    assert "holdfast db upgrade" in asked.stdout


def test_states_draws_the_machine_in_both_formats() -> None:
    assert "wait_call_back --> deploying: resume" in holdfast("states").stdout
    assert '"enroll" -> "verifying" [label="manage *"]' in holdfast("states", "--format", "dot").stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--host", "0.0.0.0"], "noauth"),
        (["--workers", "2"], "PostgreSQL"),
    ],
)
def test_serve_refuses_what_would_hurt(tmp_path: Path, arguments: list[str], named: str) -> None:
    refused = holdfast("serve", "--state-dir", str(tmp_path), "--port", str(free_port()), *arguments)
    assert refused.returncode == 2
    assert named in refused.stderr
    assert "Traceback" not in refused.stderr


def test_serve_refuses_a_port_or_state_directory_in_use(service: Service, tmp_path: Path) -> None:
    taken = holdfast("serve", "--state-dir", str(tmp_path), "--port", str(service.port))
    assert taken.returncode == 2
    assert f"port {service.port}" in taken.stderr
    shared = holdfast("serve", "--state-dir", str(service.state_dir), "--port", str(free_port()))
    assert shared.returncode == 2
    assert "another service uses" in shared.stderr


def test_serve_prints_endpoints_and_stops_gracefully(tmp_path: Path) -> None:
    with serving(tmp_path / "state") as service:
        assert f"{service.url}/baremetal" in service.log
        assert service.clouds.read_text().count(service.url) == 2
        assert service.stop() == 0
        assert "Traceback" not in service.log


def test_an_acknowledged_write_survives_kill_9(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with serving(state) as service:
        (node,) = service.enrol(name="kept")
        service.kill()
    with serving(state) as service:
        assert service.send("GET", "/v1/nodes/kept")["uuid"] == node


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("holdfast fl", "flow"), ("holdfast flow re", "retry"), ("holdfast flow list --st", "--state")],
)
def test_bash_completes_commands_actions_and_options(typed: str, offered: str) -> None:
    script = holdfast("completion").stdout
    words = " ".join(f"'{word}'" for word in typed.split())
    asked = f"COMP_WORDS=({words}); COMP_CWORD={len(typed.split()) - 1}; _holdfast; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(["bash", "-c", f"{script}\n{asked}"], capture_output=True, text=True)
    assert done.stdout.split() == [offered], done.stderr
