"""kill -9 at every point of every flow: after a restart all is as if nothing had happened.

The matrix runs flows without HTTP, to be able to afford every point. What follows it kills real `holdfast
serve` processes at a sample of points, and on PostgreSQL lets a second server take over.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from holdfast.flows.faults import VARIABLE
from tests.flows.scenarios import SCENARIOS, Scenario
from tests.service import Service, serving

pytestmark = pytest.mark.crash

FAULT = VARIABLE.removeprefix("HOLDFAST_").lower()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[s.name for s in SCENARIOS])
def test_a_flow_killed_at_any_point_ends_as_if_it_had_not_been(
    scenario: Scenario, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    command = [sys.executable, "-m", "tests.crash.matrix", str(tmp_path / "matrix"), scenario.name]
    result = subprocess.run(command, capture_output=True, text=True, timeout=290, check=False)
    assert result.returncode == 0, result.stdout + result.stderr[-4000:]
    told = re.search(r"^(\d+) kill points, 0 broken$", result.stdout, re.MULTILINE)
    assert told is not None, result.stdout
    assert int(told[1]) >= 3 * len(scenario.flow.steps)
    record_property("kill points", int(told[1]))


# (the kill, the state of the node before, what is asked for, the state of the node in the end)
SERVED: list[tuple[str, str, str, str]] = [
    ("manage_node.begin.do.after", "enroll", "manage", "manageable"),
    ("clean_node.clean.do.inside", "manageable", "provide", "available"),
    ("deploy_node.deploy.do.inside", "available", "active", "active"),
    ("deploy_node.finish.do.before", "available", "active", "active"),
    ("tear_down_node.then.do.after", "active", "deleted", "available"),
]
every_kill = pytest.mark.parametrize(("point", "before", "verb", "final"), SERVED, ids=[kill[0] for kill in SERVED])


@every_kill
def test_a_server_killed_at_work_finishes_it_after_a_restart(
    point: str, before: str, verb: str, final: str, tmp_path: Path
) -> None:
    state_dir = tmp_path / "state"
    with serving(state_dir) as service:
        (node,) = service.enrol(state=before)
        assert service.stop() == 0
    with serving(state_dir, **{FAULT: f"{point}=kill"}) as service:
        ask_and_be_cut_off(service, node, verb)
    with serving(state_dir) as service:
        settled = service.settle(node, final)
        assert settled["last_error"] is None
        assert not service.request("GET", "/flows?state=stuck").json()["flows"]
    assert doctor(state_dir) == "All promises hold."


@pytest.mark.real
@every_kill
def test_another_server_takes_over_from_a_killed_one(
    point: str, before: str, verb: str, final: str, tmp_path: Path, postgres_url: str
) -> None:
    shared = {
        "database": postgres_url,
        "fake__state_file": str(tmp_path / "machines.sqlite"),
        "conductor__heartbeat_interval": "1",
    }
    with (
        serving(tmp_path / "survivor", **shared) as survivor,
        serving(tmp_path / "victim", **shared, **{FAULT: f"{point}=kill"}) as victim,
    ):
        (node,) = survivor.enrol(state=before)
        ask_and_be_cut_off(victim, node, verb)
        settled = survivor.settle(node, final)
        assert settled["last_error"] is None
        assert not survivor.request("GET", "/flows?state=stuck").json()["flows"]
        assert doctor(tmp_path / "survivor", **shared) == "All promises hold."


def ask_and_be_cut_off(service: Service, node: str, verb: str) -> None:
    """Asks for something that kills the server on its way, and waits until it did."""
    path = f"/baremetal/v1/nodes/{node}/states/provision"
    try:
        service.request("PUT", path, {"target": verb})
    except requests.ConnectionError:
        pass  # The answer died with the server.
    assert service.process.wait(60) == -signal.SIGKILL


def doctor(state_dir: Path, **settings: Any) -> str:
    import os

    environment = dict(os.environ)
    for name, value in settings.items():
        environment["HOLDFAST_DATABASE__CONNECTION" if name == "database" else f"HOLDFAST_{name.upper()}"] = value
    command = [sys.executable, "-m", "holdfast", "doctor", "--state-dir", str(state_dir)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
    return result.stdout.strip()
