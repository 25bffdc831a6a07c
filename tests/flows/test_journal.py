"""What is in the journal: JSON only, no pickles, no secrets."""

from __future__ import annotations

import base64
import json
import pickle
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from dbos import DBOS
from sqlalchemy import create_engine, inspect, text

from holdfast import errors
from holdfast.flows import recovery
from holdfast.flows.engine import Engine
from holdfast.flows.journal import JournalledError, JsonSerializer
from tests.flows.toy import BUILD, CHAIN, Thing, World, settle

# Columns in which DBOS keeps what programs give it.
PAYLOADS = ("inputs", "output", "error", "value", "message", "context")


def journal_cells(engine: Engine) -> list[tuple[str, str, Any]]:
    """Every value of every row of the journal, as (table, column, value)."""
    journal = create_engine(engine.journal_url)
    schema = None if engine.db.is_sqlite else "dbos"
    found: list[tuple[str, str, Any]] = []
    with journal.connect() as connection:
        for table in inspect(connection).get_table_names(schema=schema):
            name = f'"{schema}"."{table}"' if schema else f'"{table}"'
            for row in connection.execute(text(f"SELECT * FROM {name}")).mappings():
                found += [(table, column, value) for column, value in row.items()]
    journal.dispose()
    return found


def is_pickle(value: Any) -> bool:
    if not isinstance(value, (str, bytes)):
        return False
    try:
        pickle.loads(base64.b64decode(value, validate=True))  # noqa: S301
    except Exception:
        return False
    return True


def make_a_bit_of_everything(engine: Engine, world: World) -> None:
    engine.run(CHAIN, Thing(world=str(world.path)))
    for at, how in (("ground.do", "refuse"), ("walls.do", "fail"), ("walls.do", "crash"), ("paint.do", "fail")):
        with pytest.raises(errors.HoldfastError):
            engine.run(BUILD, Thing(world=str(world.path), at=at, how=how))
    settle(engine)


def test_no_row_of_the_journal_is_a_pickle(engine: Engine, world: World) -> None:
    make_a_bit_of_everything(engine, world)
    cells = journal_cells(engine)
    assert not [cell for cell in cells if is_pickle(cell[2])]
    payloads = [value for _table, column, value in cells if column in PAYLOADS and value is not None]
    assert len(payloads) > 20
    for payload in payloads:
        json.loads(payload)


def test_the_test_for_pickles_finds_pickles() -> None:
    assert is_pickle(base64.b64encode(pickle.dumps({"a": 1})).decode())
    assert not is_pickle('{"a":1}')


def test_no_secret_from_an_error_is_in_the_journal(engine: Engine, world: World) -> None:
    make_a_bit_of_everything(engine, world)
    text_of_all = " ".join(str(value) for _table, _column, value in journal_cells(engine))
    assert "does not answer" in text_of_all
    assert "hunter2" not in text_of_all
    assert "sesame" not in text_of_all


def test_exceptions_are_journalled_by_type_only() -> None:
    serializer = JsonSerializer()
    stored = serializer.serialize(RuntimeError("token=sesame"))
    assert "sesame" not in stored
    assert isinstance(serializer.deserialize(stored), JournalledError)
    assert serializer.deserialize(serializer.serialize({"args": [1, "a"], "kwargs": {}})) == {
        "args": [1, "a"],
        "kwargs": {},
    }


def test_the_embedded_journal_survives_power_loss_and_does_not_lock_readers_out(
    engine: Engine, world: World, tmp_path: Path
) -> None:
    if not engine.db.is_sqlite:
        pytest.skip("PostgreSQL does this by itself")
    engine.run(BUILD, Thing(world=str(world.path)))
    journal = sqlite3.connect(tmp_path / "journal.sqlite")
    assert journal.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    journal.close()
    assert engine._journal is not None
    with engine._journal.connect() as connection:
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 2


def test_what_dbos_logs_goes_through_our_logging(engine: Engine, capfd: pytest.CaptureFixture[str]) -> None:
    import logging

    logger = logging.getLogger("dbos")
    assert logger.propagate
    assert all(isinstance(handler, logging.NullHandler) for handler in logger.handlers)
    assert capfd.readouterr() == ("", "")


def test_finished_work_leaves_the_journal_and_stays_visible(
    engine: Engine, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_a_bit_of_everything(engine, world)
    running = engine.start(BUILD, Thing(world=str(world.path), wait_at="look.do"))
    monkeypatch.setattr(recovery, "KEEP_JOURNAL", -60)
    recovery.tidy_journal()
    left = DBOS.list_workflows(load_input=False, load_output=False)
    assert [workflow.workflow_id for workflow in left] == [running]
    (world.path / "go").touch()
    assert set(settle(engine).values()) == {"done", "unwound", "stuck"}
