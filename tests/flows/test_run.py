"""How a flow runs: forward to the end, or back to a clean slate."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest
from sqlalchemy import select
from sqlalchemy.exc import OperationalError

from holdfast import errors
from holdfast.db.tables import flow_steps, flows
from holdfast.flows import runner
from holdfast.flows.engine import Engine
from holdfast.flows.flow import NOTHING, Flow, Next, Registry, Step, Work
from tests.flows.toy import BUILD, CHAIN, Thing, World, do, launched, make_engine, settle, wait_for

ALL = ["thing.ground.made", "thing.look.made", "thing.paint.made", "thing.roof.made", "thing.walls.made"]


def rows(engine: Engine, table: Any = flows) -> list[Any]:
    with engine.db.read() as connection:
        return list(connection.execute(select(table)).all())


def steps(engine: Engine) -> list[tuple[str, str]]:
    with engine.db.read() as connection:
        query = select(flow_steps).order_by(flow_steps.c.position)
        return [(row.name, row.direction) for row in connection.execute(query)]


def test_a_flow_runs_its_steps_in_order_and_returns_their_results(engine: Engine, world: World) -> None:
    results = engine.run(BUILD, Thing(world=str(world.path)), request_id="req-1")
    names = ["ground", "look", "walls", "roof", "paint"]
    assert [results[name]["made"] for name in names] == names
    assert world.files() == ALL
    assert world.calls() == [f"{name}.do:1" for name in names]
    (row,) = rows(engine)
    assert (row.state, row.kind, row.subject, row.request_id) == ("done", "build", "thing", "req-1")
    assert row.finished_at is not None
    assert row.step is None
    assert results["ground"]["lock"] == f"build/{row.id}"
    assert steps(engine) == [(name, "do") for name in names]
    assert all(row.finished_at and row.attempts == 1 for row in rows(engine, flow_steps))


def test_start_returns_when_the_first_step_is_durable(engine: Engine, world: World) -> None:
    flow_id = engine.start(BUILD, Thing(world=str(world.path), wait_at="look.do"))
    (row,) = rows(engine)
    assert (row.id, row.state) == (flow_id, "running")
    assert "thing.ground.made" in world.files()
    assert "thing.walls.made" not in world.files()
    (world.path / "go").touch()
    assert settle(engine) == {flow_id: "done"}


@pytest.mark.parametrize("how", ["start", "run"])
def test_a_refused_request_raises_its_own_error_and_leaves_nothing(engine: Engine, world: World, how: str) -> None:
    with pytest.raises(errors.NodeLocked, match="Thing is locked"):
        getattr(engine, how)(BUILD, Thing(world=str(world.path), at="ground.do", how="refuse"))
    assert rows(engine) == []
    assert rows(engine, flow_steps) == []
    assert world.calls() == ["ground.do:1", "ground.undo:1"]


def test_a_failure_before_the_pivot_undoes_everything_in_reverse(engine: Engine, world: World) -> None:
    with pytest.raises(errors.DriverFailed):
        engine.run(BUILD, Thing(world=str(world.path), at="walls.do", how="fail"))
    assert world.files() == []
    # The step that failed may have half happened: its undo runs too.
    assert world.calls() == [
        "ground.do:1",
        "look.do:1",
        "walls.do:1",
        "walls.do:1",
        "walls.undo:1",
        "look.undo:1",
        "ground.undo:1",
    ]
    (row,) = rows(engine)
    assert row.state == "unwound"
    assert "does not answer" in row.error
    failed = next(row for row in rows(engine, flow_steps) if row.name == "walls" and row.direction == "do")
    assert failed.attempts == 2
    assert "does not answer" in failed.error


def test_a_refusal_is_not_tried_again(engine: Engine, world: World) -> None:
    with pytest.raises(errors.NodeLocked):
        engine.run(BUILD, Thing(world=str(world.path), at="walls.do", how="refuse"))
    assert world.calls().count("walls.do:1") == 1


def test_an_unexpected_error_is_tried_again_and_shown_without_its_text(
    engine: Engine, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(errors.HoldfastError) as caught:
        engine.run(BUILD, Thing(world=str(world.path), at="walls.do", how="crash"), request_id="req-7")
    assert world.calls().count("walls.do:1") == 2
    assert caught.value.status == 500
    assert "RuntimeError" in caught.value.public
    assert "req-7" in caught.value.public
    assert "sesame" not in caught.value.public
    # The log has the traceback, without the secret in it.
    assert "Traceback" in caplog.text
    assert "token=******" in caplog.text
    assert "sesame" not in caplog.text


@pytest.mark.parametrize("step", ["roof", "paint"])
def test_a_failure_at_or_behind_the_pivot_goes_stuck_and_undoes_nothing(
    engine: Engine, world: World, step: str
) -> None:
    with pytest.raises(errors.DriverFailed):
        engine.run(BUILD, Thing(world=str(world.path), at=f"{step}.do", how="fail"))
    (row,) = rows(engine)
    assert (row.state, row.step) == ("stuck", step)
    assert row.finished_at is None
    assert "thing.ground.made" in world.files()
    assert not any(".undo" in call for call in world.calls())


def test_a_failing_undo_goes_stuck_and_tells_both_reasons(engine: Engine, world: World) -> None:
    registry = Registry()

    def fail(work: Work, params: Thing) -> None:
        raise errors.DriverFailed("The wall fell down.")

    def cannot(work: Work, params: Thing) -> None:
        assert work.error == "The wall fell down."
        raise errors.DriverFailed("The rubble is too heavy.")

    flow = registry.register(
        Flow(
            "fall",
            Thing,
            [Step("look", lambda w, p: 1, undo=NOTHING), Step("wall", fail, undo=cannot)],
            subject=lambda p: p.name,
            summary="",
        )
    )
    engine.registry = registry
    engine.close()
    engine.launch()
    with pytest.raises(errors.DriverFailed, match="The wall fell down"):
        engine.run(flow, Thing(world=str(world.path)))
    (row,) = rows(engine)
    assert row.state == "stuck"
    assert "rubble is too heavy" in row.error
    assert "The wall fell down" in row.error


def test_what_is_stored_of_an_error_has_no_secret_in_it(engine: Engine, world: World) -> None:
    with pytest.raises(errors.DriverFailed):
        engine.run(BUILD, Thing(world=str(world.path), at="walls.do", how="fail"))
    for row in [*rows(engine), *rows(engine, flow_steps)]:
        assert "hunter2" not in str(row)
    assert "admin:******@bmc" in rows(engine)[0].error


def test_a_chained_flow_starts_when_the_first_is_done(engine: Engine, world: World) -> None:
    first = engine.start(CHAIN, Thing(world=str(world.path)))
    assert set(settle(engine).values()) == {"done"}
    chained = next(row for row in rows(engine) if row.kind == "build")
    assert chained.id == Work(first, "buy", 1, None).next_id  # type: ignore[arg-type]
    assert len(rows(engine)) == 2
    order = [call.partition(":")[0] for call in world.calls()]
    assert order.index("sign.do") < order.index("ground.do")


def test_a_chained_flow_that_is_refused_stays_visible(engine: Engine, world: World) -> None:
    engine.run(CHAIN, Thing(world=str(world.path), at="ground.do", how="refuse"))
    states = settle(engine)
    assert sorted(states.values()) == ["done", "unwound"]


def test_a_step_may_have_its_own_number_of_attempts(database_url: str, journal_url: str) -> None:
    tries: list[int] = []

    def fail(work: Work, params: Thing) -> None:
        tries.append(1)
        raise errors.Unavailable("Not now.")

    registry = Registry()
    flow = Flow("patient", Thing, [Step("a", fail, undo=NOTHING, attempts=4)], subject=str, summary="")
    registry.register(flow)
    engine = make_engine(database_url, journal_url, registry=registry)
    with launched(engine), pytest.raises(errors.Unavailable):
        engine.run(flow, Thing(world=""))
    assert len(tries) == 4


def test_a_result_that_is_no_json_fails_the_step(database_url: str, journal_url: str) -> None:
    registry = Registry()
    flow = Flow("odd", Thing, [Step("a", lambda w, p: object(), undo=NOTHING)], subject=str, summary="")
    registry.register(flow)
    engine = make_engine(database_url, journal_url, registry=registry)
    with launched(engine), pytest.raises(errors.HoldfastError, match="TypeError"):
        engine.run(flow, Thing(world=""))


def test_a_run_that_takes_too_long_says_which_flow_goes_on(engine: Engine, world: World) -> None:
    with pytest.raises(errors.Unavailable) as caught:
        engine.run(BUILD, Thing(world=str(world.path), wait_at="look.do"), timeout=0.01)
    wait_for(world.path / "waiting")
    assert rows(engine)[0].id in caught.value.public
    (world.path / "go").touch()
    assert list(settle(engine).values()) == ["done"]


def test_only_registered_flows_run(engine: Engine, world: World) -> None:
    stranger = Flow("build", Thing, list(BUILD.steps), subject=str, summary="")
    with pytest.raises(ValueError, match="not the registered one"):
        engine.start(stranger, Thing(world=str(world.path)))


def test_a_next_flow_under_another_id_is_refused(database_url: str, journal_url: str) -> None:
    registry = Registry()

    class Empty(msgspec.Struct):
        pass

    def wrong(work: Work, params: Empty) -> Next:
        return Next(flow, params, "another")

    flow = Flow("loop", Empty, [Step("a", lambda w, p: 1, undo=NOTHING)], subject=str, summary="", then=wrong)
    registry.register(flow)
    engine = make_engine(database_url, journal_url, registry=registry)
    with launched(engine):
        with pytest.raises(errors.HoldfastError, match="ValueError"):
            engine.run(flow, Empty())
        (row,) = rows(engine)
        assert (row.state, row.step) == ("stuck", "then")


def test_an_engine_that_is_not_launched_says_try_again(database_url: str, journal_url: str) -> None:
    engine = make_engine(database_url, journal_url)
    with pytest.raises(errors.Unavailable):
        engine.start(BUILD, Thing(world=""))
    engine.db.close()


def test_many_flows_at_once_all_come_to_their_end(engine: Engine, world: World) -> None:
    with ThreadPoolExecutor(8) as pool:
        things = [Thing(world=str(world.path), name=f"n{i}") for i in range(40)]
        started = list(pool.map(lambda thing: engine.start(BUILD, thing), things))
    assert settle(engine) == dict.fromkeys(started, "done")
    assert len(world.files()) == 40 * 5


def test_a_database_that_does_not_answer_delays_a_flow_and_does_not_fail_it(
    engine: Engine, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "DATABASE_DELAY", 0.01)
    flow_id = engine.start(BUILD, Thing(world=str(world.path), wait_at="look.do"))
    wait_for(world.path / "waiting")
    write, failures = engine.db.write, iter(range(5))

    def broken() -> Any:
        if next(failures, None) is not None:
            raise OperationalError("SELECT 1", {}, Exception("gone"))
        return write()

    monkeypatch.setattr(engine.db, "write", broken)
    (world.path / "go").touch()
    assert settle(engine) == {flow_id: "done"}
    assert next(failures, None) is None
    # Not one step ran twice for it.
    assert len(world.calls()) == len(set(world.calls())) == 5


def test_a_chain_that_got_stuck_is_started_by_a_retry(database_url: str, journal_url: str, world: World) -> None:
    registry = Registry()

    def choose(work: Work, params: Thing) -> Next:
        if not (world.path / "mended").exists():
            raise errors.Conflict("Not yet.")
        return Next(second, params, work.next_id)

    second = registry.register(
        Flow("second", Thing, [Step("b", do("b"), undo=NOTHING)], subject=lambda p: p.name, summary="")
    )
    first = registry.register(
        Flow("first", Thing, [Step("a", do("a"), undo=NOTHING)], subject=lambda p: p.name, summary="", then=choose)
    )
    with launched(make_engine(database_url, journal_url, registry=registry)) as engine:
        with pytest.raises(errors.Conflict):
            engine.run(first, Thing(world=str(world.path)))
        (row,) = rows(engine)
        assert (row.state, row.step) == ("stuck", "then")
        (world.path / "mended").touch()
        engine.retry(row.id)
        assert sorted(settle(engine).values()) == ["done", "done"]
    assert [call.partition(":")[0] for call in world.calls()] == ["a.do", "b.do"]
