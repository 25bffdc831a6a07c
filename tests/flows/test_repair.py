"""Repair: carry a stuck flow on, or give it up."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select

from holdfast import errors
from holdfast.db.tables import flows
from holdfast.flows.engine import Engine
from holdfast.flows.flow import Flow, Registry, Step, Work
from tests.flows.test_run import ALL, rows
from tests.flows.toy import BUILD, Thing, World, do, launched, make_engine, settle, undo, wait_for


def stuck(engine: Engine, world: World, at: str = "paint.do") -> str:
    with pytest.raises(errors.DriverFailed):
        engine.run(BUILD, Thing(world=str(world.path), at=at, how="fail"))
    (row,) = rows(engine)
    assert row.state == "stuck"
    return str(row.id)


def mend(world: World) -> None:
    (world.path / "mended").touch()


def test_a_retry_carries_on_where_it_got_stuck(engine: Engine, world: World) -> None:
    flow_id = stuck(engine, world)
    before = world.calls()
    mend(world)
    engine.retry(flow_id)
    assert settle(engine) == {flow_id: "done"}
    (row,) = rows(engine)
    assert (row.runs, row.error, row.generation) == (2, None, 2)
    assert world.calls()[len(before) :] == ["paint.do:2"]
    assert world.files() == ALL


def test_a_retry_that_fails_again_is_stuck_again_and_may_be_retried_again(engine: Engine, world: World) -> None:
    flow_id = stuck(engine, world)
    engine.retry(flow_id)
    assert settle(engine) == {flow_id: "stuck"}
    mend(world)
    engine.retry(flow_id)
    assert settle(engine) == {flow_id: "done"}
    assert rows(engine)[0].runs == 3


def test_a_retried_step_sees_the_results_of_the_steps_before(database_url: str, journal_url: str, world: World) -> None:
    seen: list[Any] = []

    def look(work: Work, params: Thing) -> None:
        seen.append(dict(work.results))
        if len(seen) == 1:
            raise errors.Conflict("Not yet.")

    registry = Registry()
    flow = registry.register(
        Flow("pair", Thing, [Step("pay", do("pay"), undo=undo("pay")), Step("look", look, pivot=True)],
             subject=lambda p: p.name, summary=""),
    )  # fmt: skip
    with launched(make_engine(database_url, journal_url, registry=registry)) as engine:
        with pytest.raises(errors.Conflict):
            engine.run(flow, Thing(world=str(world.path)))
        engine.retry(rows(engine)[0].id)
        settle(engine)
    assert seen[0] == seen[1]
    assert seen[1]["pay"]["made"] == "pay"


def test_a_flow_stuck_while_unwinding_goes_on_unwinding(database_url: str, journal_url: str, world: World) -> None:
    told: list[str | None] = []

    def fail(work: Work, params: Thing) -> None:
        raise errors.Conflict("No.")

    def undo_first(work: Work, params: Thing) -> None:
        told.append(work.error)
        if not (world.path / "mended").exists():
            raise errors.DriverFailed("Cannot undo.")

    registry = Registry()
    steps = [Step("a", do("a"), undo=undo("a")), Step("b", do("b"), undo=undo_first), Step("c", fail, undo=undo("c"))]
    flow = registry.register(Flow("back", Thing, steps, subject=lambda p: p.name, summary=""))
    with launched(make_engine(database_url, journal_url, registry=registry)) as engine:
        with pytest.raises(errors.Conflict, match="No"):
            engine.run(flow, Thing(world=str(world.path)))
        (row,) = rows(engine)
        assert row.state == "stuck"
        mend(world)
        engine.retry(row.id)
        assert settle(engine) == {row.id: "unwound"}
        (row,) = rows(engine)
    assert row.error == "No."
    assert set(told) == {"No."}
    assert world.calls()[-1] == "a.undo:2"
    assert "a.do:2" not in world.calls()


def test_only_a_stuck_flow_can_be_retried(engine: Engine, world: World) -> None:
    flow_id = engine.start(BUILD, Thing(world=str(world.path)))
    settle(engine)
    with pytest.raises(errors.Conflict, match="done"):
        engine.retry(flow_id)
    with pytest.raises(errors.NotFound):
        engine.retry("00000000-0000-0000-0000-000000000000")


def test_two_retries_at_once_are_one_retry(engine: Engine, world: World) -> None:
    flow_id = stuck(engine, world)
    engine.retry(flow_id)
    try:
        engine.retry(flow_id)
    except errors.Conflict:
        pass
    settle(engine)
    assert len([call for call in world.calls() if call.startswith("ground.do")]) == 1


def test_abandoning_a_stuck_flow_releases_what_it_holds(engine: Engine, world: World) -> None:
    flow_id = stuck(engine, world)
    engine.abandon(flow_id, "the site is closed, password=hunter2")
    (row,) = rows(engine)
    assert row.state == "abandoned"
    assert row.reason == "the site is closed, password=******"
    assert row.finished_at is not None
    assert world.files() == []
    assert world.calls()[-1] == f"abandoned:build/{flow_id}"
    with pytest.raises(errors.Conflict, match="abandoned"):
        engine.retry(flow_id)
    with pytest.raises(errors.Conflict, match="abandoned"):
        engine.abandon(flow_id, "again")


def test_abandoning_a_running_flow_stops_it_at_the_next_step(engine: Engine, world: World) -> None:
    flow_id = engine.start(BUILD, Thing(world=str(world.path), wait_at="look.do"))
    wait_for(world.path / "waiting")
    engine.abandon(flow_id, "wrong house")
    (world.path / "go").touch()
    assert settle(engine) == {flow_id: "abandoned"}
    assert not any(call.startswith("walls") for call in world.calls())


def test_an_abandon_that_fails_leaves_the_flow_stuck(database_url: str, journal_url: str, world: World) -> None:
    def broken(work: Work, params: Thing) -> None:
        assert "given up" in str(work.error)
        if not (world.path / "mended").exists():
            raise errors.DriverFailed("It does not let go.")

    registry = Registry()
    flow = registry.register(
        Flow("cling", Thing, list(BUILD.steps), subject=lambda p: p.name, summary="", abandon=broken)
    )
    with launched(make_engine(database_url, journal_url, registry=registry)) as engine:
        flow_id = engine.start(flow, Thing(world=str(world.path), wait_at="look.do"))
        with pytest.raises(errors.DriverFailed):
            engine.abandon(flow_id, "given up")
        assert rows(engine)[0].state == "stuck"
        (world.path / "go").touch()
        mend(world)
        engine.abandon(flow_id, "given up")
        assert rows(engine)[0].state == "abandoned"


def test_a_flow_of_an_unknown_kind_cannot_be_repaired(engine: Engine, world: World) -> None:
    flow_id = stuck(engine, world)
    with engine.db.write() as connection:
        connection.execute(flows.update().values(kind="gone"))
    with pytest.raises(errors.Conflict, match="does not know"):
        engine.retry(flow_id)
    with pytest.raises(errors.Conflict, match="does not know"):
        engine.abandon(flow_id, "x")
    with engine.db.read() as connection:
        assert connection.execute(select(flows.c.state)).scalar() == "stuck"
