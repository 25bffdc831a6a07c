"""Keeping and restoring an enrolled database."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bench import kept_fleet
from bench.kept_fleet import KeptFleet
from bench.load import Request


def write(database: Path, name: str) -> sqlite3.Connection:
    """Add a row in the write-ahead log; the connection keeps it from being moved into the file."""
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE IF NOT EXISTS nodes (name TEXT)")
    connection.execute("INSERT INTO nodes VALUES (?)", (name,))
    connection.commit()
    return connection


def names(database: Path) -> list[str]:
    with closing(sqlite3.connect(database)) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM nodes")]


def test_what_lies_in_the_write_ahead_log_is_kept_and_what_was_there_before_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_fleet, "SCRATCH", tmp_path)
    kept = KeptFleet("39.0.0", [Request("POST", "/v1/nodes", "{}")])
    with closing(write(tmp_path / "filled.sqlite", "enrolled")):
        kept.keep(tmp_path / "filled.sqlite")
    with closing(write(tmp_path / "other.sqlite", "stale")):
        kept.restore(tmp_path / "other.sqlite")
    assert names(tmp_path / "other.sqlite") == ["enrolled"]


def test_a_different_version_or_fleet_is_kept_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_fleet, "SCRATCH", tmp_path)
    requests = [Request("POST", "/v1/nodes", "{}")]
    with closing(write(tmp_path / "filled.sqlite", "enrolled")):
        KeptFleet("39.0.0", requests).keep(tmp_path / "filled.sqlite")
    assert KeptFleet("39.0.0", requests).exists()
    assert not KeptFleet("39.0.1", requests).exists()
    assert not KeptFleet("39.0.0", requests * 2).exists()
