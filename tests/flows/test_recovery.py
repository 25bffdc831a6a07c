"""Who counts as dead, and who takes over."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from dbos import DBOS, SetWorkflowID
from sqlalchemy import select

from holdfast.db.engine import now
from holdfast.db.tables import flows, processes
from holdfast.flows.engine import Engine
from holdfast.flows.recovery import Recovery, pid_started, place
from tests.flows.test_run import rows
from tests.flows.toy import BUILD, Thing, World, launched, make_engine, settle, wait_for

TIMEOUT = 30


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def engine(database_url: str, journal_url: str) -> Iterator[Engine]:
    """An engine that does nothing about others by itself."""
    with launched(make_engine(database_url, journal_url, exclusive=False, heartbeat_interval=3600)) as engine:
        yield engine


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watcher(engine: Engine, clock: Clock) -> Iterator[Recovery]:
    """A second process of the installation, as far as the database can tell."""
    watcher = Recovery(
        engine.db, "watcher", interval=1, timeout=TIMEOUT, exclusive=False, lost=lambda: None, clock=clock
    )
    # Our own engine shares the watcher's pid, and must not be taken for an earlier life of it.
    watcher._place = "elsewhere"
    watcher.join()
    yield watcher
    watcher.leave()


def known(engine: Engine) -> dict[str, Any]:
    return {row.executor: row for row in rows(engine, processes)}


def add(engine: Engine, executor: str, **fields: Any) -> None:
    values = {"hostname": "far", "pid": 1, "started_at": now(), "beat_at": now(), **fields}
    with engine.db.write() as connection:
        connection.execute(processes.insert().values(executor=executor, **values))


def test_a_process_is_dead_when_its_beat_has_not_changed_for_the_timeout(
    engine: Engine, watcher: Recovery, clock: Clock
) -> None:
    add(engine, "far")
    watcher.sweep()
    clock.time += TIMEOUT - 1
    watcher.beat()
    watcher.sweep()
    assert "far" in known(engine)
    clock.time += 2
    watcher.sweep()
    assert "far" not in known(engine)


def test_a_process_that_beats_is_alive_however_wrong_its_clock_is(
    engine: Engine, watcher: Recovery, clock: Clock
) -> None:
    add(engine, "far", beat_at="1999-01-01T00:00:00.000000+00:00")
    for minute in range(10):
        watcher.sweep()
        clock.time += TIMEOUT - 1
        with engine.db.write() as connection:
            beat = f"1999-01-01T00:0{minute}:30.000000+00:00"
            connection.execute(processes.update().where(processes.c.executor == "far").values(beat_at=beat))
    watcher.sweep()
    assert known(engine)["far"].dead_at is None


def test_a_process_that_lived_here_and_is_gone_is_dead_at_once(engine: Engine, watcher: Recovery) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    add(engine, "gone", pid=gone.pid, place="elsewhere", pid_started="1")
    watcher.sweep()
    assert "gone" not in known(engine)


def test_a_pid_that_somebody_else_has_now_is_dead(engine: Engine, watcher: Recovery) -> None:
    sleeper = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    add(engine, "sleeper", pid=sleeper.pid, place="elsewhere", pid_started=pid_started(sleeper.pid))
    add(engine, "before", pid=sleeper.pid, place="elsewhere", pid_started="1")
    watcher.sweep()
    assert "sleeper" in known(engine)
    assert "before" not in known(engine)
    sleeper.communicate()


def test_a_dead_process_nobody_waited_for_is_no_living_one() -> None:
    zombie = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert zombie.stdout is not None
    zombie.stdout.read()
    while pid_started(zombie.pid) is not None:
        pass
    zombie.wait()
    zombie.stdout.close()


def test_this_place_has_a_name() -> None:
    assert place() == place() != ""


def test_the_claim_of_a_living_process_is_respected(engine: Engine, watcher: Recovery) -> None:
    add(engine, "claimer")
    add(engine, "dead", dead_at=now(), claimed_by="claimer")
    watcher.sweep()
    assert known(engine)["dead"].claimed_by == "claimer"


@pytest.mark.parametrize("claimer", ["dead", "gone"])
def test_the_claim_of_a_dead_process_is_taken_over(engine: Engine, watcher: Recovery, claimer: str) -> None:
    if claimer == "dead":
        add(engine, "dead", dead_at=now())
    add(engine, "first", dead_at=now(), claimed_by=claimer)
    watcher.sweep()
    assert not {"first", "dead"} & set(known(engine))


def test_a_takeover_raises_the_generation_and_carries_the_flow_on(
    engine: Engine, world: World, watcher: Recovery
) -> None:
    flow_id = engine.start(BUILD, Thing(world=str(world.path), wait_at="look.do"))
    wait_for(world.path / "waiting")
    # The engine is declared dead, as if its beats had stopped.
    with engine.db.write() as connection:
        connection.execute(processes.update().where(processes.c.executor != "watcher").values(dead_at=now()))
    watcher.sweep()
    (row,) = rows(engine)
    assert row.generation > 1
    assert row.executor == "watcher"
    (world.path / "go").touch()
    # Nobody else runs flows here: the engine itself comes back under another name and carries it on.
    engine._rejoin()
    assert settle(engine) == {flow_id: "done"}
    generations = [int(call.partition(":")[2]) for call in world.calls()]
    # The old execution stopped at its next boundary: nothing of it comes after the takeover.
    assert generations == sorted(generations)
    assert generations.count(1) == 2


def test_a_process_taken_for_dead_comes_back_under_another_name(engine: Engine, world: World) -> None:
    (before,) = known(engine)
    with engine.db.write() as connection:
        connection.execute(processes.delete())
    recovery = engine._recovery
    assert recovery is not None
    assert not recovery.beat()
    engine._rejoin()
    (after,) = known(engine)
    assert after != before
    assert engine.run(BUILD, Thing(world=str(world.path)))


def test_a_buried_process_cannot_start_anything(engine: Engine, world: World) -> None:
    with engine.db.write() as connection:
        connection.execute(processes.update().values(dead_at=now()))
    with pytest.raises(Exception, match="carried on elsewhere"):
        engine.start(BUILD, Thing(world=str(world.path)))
    assert world.calls() == []
    assert rows(engine) == []


def test_work_of_a_process_nobody_knows_is_adopted(engine: Engine, world: World, watcher: Recovery) -> None:
    with engine.db.write() as connection:
        connection.execute(processes.update().where(processes.c.executor != "watcher").values(dead_at=now()))
    with pytest.raises(Exception, match="carried on elsewhere"):
        engine.start(BUILD, Thing(world=str(world.path)))
    with engine.db.write() as connection:
        connection.execute(processes.delete().where(processes.c.executor != "watcher"))
    engine._rejoin()
    settle(engine)
    assert [row.state for row in rows(engine)] == ["done"]


def test_a_stop_lets_the_running_step_end_and_the_next_start_carries_on(
    database_url: str, journal_url: str, world: World
) -> None:
    import threading

    first = make_engine(database_url, journal_url)
    first.launch()
    flow_id = first.start(BUILD, Thing(world=str(world.path), wait_at="look.do"))
    wait_for(world.path / "waiting")
    closing = threading.Thread(target=first.close)
    closing.start()
    while first.is_running:
        pass
    (world.path / "go").touch()
    closing.join()
    assert world.calls() == ["ground.do:1", "look.do:1"]
    assert rows(first)[0].state == "running"
    first.db.close()
    with launched(make_engine(database_url, journal_url)) as second:
        assert settle(second) == {flow_id: "done"}
    # The step that ended was recorded: it did not run again.
    assert [call.partition(":")[0] for call in world.calls()] == [
        "ground.do",
        "look.do",
        "walls.do",
        "roof.do",
        "paint.do",
    ]


def test_a_flow_of_a_kind_that_is_gone_ends_stuck_with_the_reason(engine: Engine, world: World) -> None:
    with SetWorkflowID("lost"):
        assert engine._process is not None
        handle = DBOS.start_workflow(engine._process.workflow, "lost", "gone", "{}", 1, None, False)
    with engine.db.write() as connection:
        connection.execute(
            flows.insert().values(
                id="lost", kind="gone", state="running", executor="x", created_at=now(), updated_at=now()
            )
        )
    handle.get_result()
    with SetWorkflowID("lost-again"):
        DBOS.start_workflow(engine._process.workflow, "lost", "gone", "{}", 1, None, False).get_result()
    with engine.db.read() as connection:
        row = connection.execute(select(flows)).one()
    assert row.state == "stuck"
    assert "KeyError" in row.error
