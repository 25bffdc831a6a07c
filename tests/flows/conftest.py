"""Engines with toy flows on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.flows.engine import Engine
from tests.flows.toy import World, launched, make_engine


@pytest.fixture
def journal_url(database_url: str, tmp_path: Path) -> str:
    """Where the journal of `database_url` belongs: its own file, or the same PostgreSQL database."""
    if database_url.startswith("sqlite"):
        return f"sqlite:///{tmp_path / 'journal.sqlite'}"
    return database_url


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "world")


@pytest.fixture
def engine(database_url: str, journal_url: str) -> Iterator[Engine]:
    with launched(make_engine(database_url, journal_url)) as engine:
        yield engine
