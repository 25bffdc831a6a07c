"""Toy flows in processes of their own, killed with -9 at every point, and carried on by another process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import select

from holdfast.db.engine import Database
from holdfast.db.tables import flows, processes
from holdfast.flows.faults import VARIABLE, WHERE
from tests.flows.test_run import ALL
from tests.flows.toy import BUILD, CHAIN, Thing, World, wait_for

pytestmark = pytest.mark.crash

BUILT = [step.name for step in BUILD.steps]
UNDONE = [step.name for step in BUILD.steps if step.undo is not None]
FAIL = "build.walls.do.inside=error,"
REFUSE = "build.ground.do.inside=error,"

# (the fault, the kind of flow, the states of all flows afterwards, the files afterwards)
KILLS: list[tuple[str, str, list[str], list[str]]] = [
    *[(f"build.{name}.do.{where}=kill", "build", ["done"], ALL) for name in BUILT for where in WHERE],
    *[(f"{FAIL}build.{name}.undo.{where}=kill", "build", ["unwound"], []) for name in UNDONE for where in WHERE],
    *[(f"{REFUSE}build.ground.undo.{where}=kill", "build", [], []) for where in WHERE],
    *[
        (f"buy.{name}.do.{where}=kill", "buy", ["done", "done"], sorted([*ALL, "thing.pay.made", "thing.sign.made"]))
        for name in [*(step.name for step in CHAIN.steps), "then"]
        for where in WHERE
    ],
]


def toy(command: str, urls: tuple[str, str], world: World, **params: Any) -> list[str]:
    kind = params.pop("kind", "build")
    timeout = params.pop("timeout", 3)
    text = msgspec.json.encode(Thing(world=str(world.path), **params)).decode()
    arguments = [command, *urls, "--kind", kind, "--params", text, "--timeout", str(timeout)]
    return [sys.executable, "-m", "tests.flows.toy", *arguments]


def run(command: list[str], fault: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, VARIABLE: fault}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)


def killed(result: subprocess.CompletedProcess[str]) -> bool:
    return result.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL)


@pytest.mark.parametrize(("fault", "kind", "states", "files"), KILLS, ids=[kill[0] for kill in KILLS])
def test_a_killed_flow_is_carried_on_after_a_restart(
    tmp_path: Path, fault: str, kind: str, states: list[str], files: list[str]
) -> None:
    world = World(tmp_path / "world")
    urls = (f"sqlite:///{tmp_path / 'main.sqlite'}", f"sqlite:///{tmp_path / 'journal.sqlite'}")
    result = run(toy("start", urls, world, kind=kind), fault)
    assert killed(result), result
    result = run(toy("recover", urls, world))
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == states
    assert world.files() == files
    # Nothing that was recorded ran twice; what was under way ran once more at most.
    names = [call.partition(":")[0] for call in world.calls()]
    attempts = 2 if "error" in fault else 1
    assert all(names.count(name) <= attempts + 1 for name in names)
    if fault.endswith("after=kill"):
        assert all(names.count(name) <= attempts for name in names)


@pytest.mark.real
@pytest.mark.parametrize(
    ("fault", "state", "files"),
    [
        ("build.ground.do.before=kill", "done", ALL),
        ("build.walls.do.inside=kill", "done", ALL),
        ("build.roof.do.after=kill", "done", ALL),
        (f"{FAIL}build.look.undo.inside=kill", "unwound", []),
    ],
)
def test_a_survivor_takes_over(postgres_url: str, tmp_path: Path, fault: str, state: str, files: list[str]) -> None:
    urls = (postgres_url, postgres_url)
    other = World(tmp_path / "other")
    survivor = subprocess.Popen(toy("serve", urls, other, timeout=60), stdout=subprocess.PIPE, text=True)
    db = Database(postgres_url, pool_size=1)
    try:
        assert survivor.stdout is not None
        first = survivor.stdout.readline().strip()
        world = World(tmp_path / "world")
        assert killed(run(toy("start", urls, world), fault))
        found = states_of(db, until={"done", state}, number=2)
        assert found.pop(first) == "done"
        assert list(found.values()) == [state]
        assert world.files() == files
    finally:
        survivor.kill()
        survivor.communicate()
        db.close()


@pytest.mark.real
def test_a_frozen_process_that_wakes_up_does_no_harm_and_comes_back(postgres_url: str, tmp_path: Path) -> None:
    urls = (postgres_url, postgres_url)
    world, other = World(tmp_path / "world"), World(tmp_path / "other")
    # Frozen processes are still there: only the missing beats tell. Short, so that the test is.
    frozen = subprocess.Popen(toy("serve", urls, world, wait_at="look.do"), stdout=subprocess.PIPE, text=True)
    survivor = None
    db = Database(postgres_url, pool_size=1)
    try:
        assert frozen.stdout is not None
        flow_id = frozen.stdout.readline().strip()
        wait_for(world.path / "waiting")
        os.kill(frozen.pid, signal.SIGSTOP)
        (world.path / "go").touch()
        survivor = subprocess.Popen(toy("serve", urls, other), stdout=subprocess.PIPE, text=True)
        assert survivor.stdout is not None
        second = survivor.stdout.readline().strip()
        assert states_of(db, until={"done"}, number=2) == {flow_id: "done", second: "done"}
        before = world.calls()
        with db.read() as connection:
            alive = set(connection.execute(select(processes.c.executor)).scalars())
        assert len(alive) == 1
        os.kill(frozen.pid, signal.SIGCONT)
        # It comes back under another name.
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with db.read() as connection:
                now = set(connection.execute(select(processes.c.executor)).scalars())
            if len(now) == 2:
                break
            time.sleep(0.1)
        assert len(now) == 2
        assert alive < now
        # And has done nothing: no step ran after it woke up, nothing changed.
        assert world.calls() == before
        assert [call for call in before if call.endswith(":1")] == ["ground.do:1", "look.do:1"]
        assert world.files() == ALL
        with db.read() as connection:
            row = connection.execute(select(flows).where(flows.c.id == flow_id)).one()
        assert row.state == "done"
        assert row.executor in alive
    finally:
        for process in (frozen, survivor):
            if process is not None:
                process.kill()
                process.communicate()
        db.close()


def states_of(db: Database, *, until: set[str], number: int) -> dict[str, str]:
    """Waits until there are that many flows, all in one of these states."""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        with db.read() as connection:
            found = {row.id: row.state for row in connection.execute(select(flows.c.id, flows.c.state))}
        if len(found) == number and set(found.values()) <= until:
            return found
        time.sleep(0.1)
    raise AssertionError(f"The flows do not come to rest: {found}")
