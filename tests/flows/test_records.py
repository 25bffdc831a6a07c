"""What operators see of flows."""

from __future__ import annotations

import pytest
from sqlalchemy import update

from holdfast import errors
from holdfast.db.engine import ago
from holdfast.db.tables import flows
from holdfast.flows import records
from holdfast.flows.engine import Engine
from tests.flows.toy import BUILD, CHAIN, Thing, World, settle


def test_flows_are_listed_newest_first_page_by_page(engine: Engine, world: World) -> None:
    ids = [engine.start(BUILD, Thing(world=str(world.path), name=f"n{i}")) for i in range(5)]
    settle(engine)
    with engine.db.read() as connection:
        first = records.listing(connection, limit=2)
        second = records.listing(connection, limit=2, marker=first[-1]["id"])
        third = records.listing(connection, limit=2, marker=second[-1]["id"])
    assert [flow["id"] for flow in [*first, *second, *third]] == ids[::-1]


def test_flows_are_filtered_by_state_kind_and_subject(engine: Engine, world: World) -> None:
    engine.run(CHAIN, Thing(world=str(world.path), name="n1"))
    with pytest.raises(errors.DriverFailed):
        engine.run(BUILD, Thing(world=str(world.path), name="n2", at="paint.do", how="fail"))
    settle(engine)
    with engine.db.read() as connection:
        assert [flow["subject"] for flow in records.listing(connection, state="stuck")] == ["n2"]
        assert [flow["subject"] for flow in records.listing(connection, kind="buy")] == ["n1"]
        assert {flow["kind"] for flow in records.listing(connection, subject="n1")} == {"buy", "build"}
        with pytest.raises(errors.BadRequest):
            records.listing(connection, marker="unknown")


def test_a_flow_is_shown_with_its_timeline_and_what_to_do_next(engine: Engine, world: World) -> None:
    with pytest.raises(errors.DriverFailed):
        engine.run(BUILD, Thing(world=str(world.path), at="paint.do", how="fail"), request_id="req-3")
    with engine.db.read() as connection:
        flow_id = records.listing(connection)[0]["id"]
        shown = records.show(connection, flow_id)
    assert shown["state"] == "stuck"
    assert shown["request_id"] == "req-3"
    assert f"holdfast flow retry {flow_id}" in shown["next_action"]
    assert shown["params"]["at"] == "paint.do"
    assert [step["name"] for step in shown["steps"]] == ["ground", "look", "walls", "roof", "paint"]
    last = shown["steps"][-1]
    assert (last["direction"], last["attempts"]) == ("do", 2)
    assert "does not answer" in last["error"]
    assert shown["steps"][0]["error"] is None
    assert all(step["started_at"] <= step["finished_at"] for step in shown["steps"])


def test_every_state_has_a_next_action() -> None:
    assert set(records.NEXT_ACTIONS) == set(records.STATES)


def test_a_flow_that_is_not_there_is_not_found(engine: Engine) -> None:
    with engine.db.read() as connection, pytest.raises(errors.NotFound):
        records.show(connection, "unknown")


def test_purging_forgets_old_finished_flows_and_keeps_what_needs_care(engine: Engine, world: World) -> None:
    for _ in range(3):
        engine.run(BUILD, Thing(world=str(world.path)))
    with pytest.raises(errors.DriverFailed):
        engine.run(BUILD, Thing(world=str(world.path), at="paint.do", how="fail"))
    with engine.db.write() as connection:
        connection.execute(update(flows).values(created_at=ago(864000)))
        connection.execute(update(flows).where(flows.c.state == "done").values(finished_at=ago(864000)))
    engine.run(BUILD, Thing(world=str(world.path)))
    assert records.purge(engine.db, 7) == 3
    with engine.db.read() as connection:
        assert sorted(flow["state"] for flow in records.listing(connection)) == ["done", "stuck"]
    assert records.purge(engine.db, 7) == 0
