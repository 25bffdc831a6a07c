"""Migrations lead from an empty database to the tables the code uses, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from holdfast.db import schema
from holdfast.db.engine import Database, ago, now
from holdfast.db.tables import metadata


@pytest.fixture
def db(database_url: str) -> Iterator[Database]:
    database = Database(database_url)
    yield database
    database.close()


def test_an_empty_database_is_brought_to_the_newest_schema(db: Database) -> None:
    assert schema.current(db) is None
    schema.upgrade(db)
    assert schema.current(db) == schema.newest()


def test_upgrading_again_changes_nothing(db: Database) -> None:
    schema.upgrade(db)
    schema.upgrade(db)
    assert schema.current(db) == schema.newest()


def test_migrations_and_tables_agree(db: Database) -> None:
    schema.upgrade(db)
    with db.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_times_sort_as_text(tmp_path: Path) -> None:
    moments = [ago(100), ago(10), now(), ago(-10)]
    assert moments == sorted(moments)
    assert {len(moment) for moment in moments} == {32}
