"""Migrations lead from an empty database to the tables the code uses, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import select

from holdfast.db import schema, tables
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


def test_a_database_of_the_first_schema_keeps_its_nodes_and_ports(db: Database) -> None:
    schema.upgrade(db, "0001")
    uuid = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"
    with db.write() as connection:
        connection.exec_driver_sql(
            "INSERT INTO nodes (uuid, name, driver, provision_state, instance_info, created_at) "
            f"VALUES ('{uuid}', 'old', 'fake-hardware', 'active', '{{\"a\": 1}}', '2026-01-01')"
        )
        connection.exec_driver_sql(
            "INSERT INTO ports (uuid, node_id, address, created_at) "
            f"SELECT '{uuid}', id, '52:54:00:00:00:01', '2026-01-01' FROM nodes"
        )
        connection.exec_driver_sql(
            "INSERT INTO processes (executor, hostname, pid, started_at, beat_at) "
            "VALUES ('a', 'host', 1, '2026-01-01', '2026-01-01')"
        )
    schema.upgrade(db)
    with db.read() as connection:
        node = connection.execute(select(tables.nodes)).one()
        port = connection.execute(select(tables.ports)).one()
        process = connection.execute(select(tables.processes)).one()
    assert (node.uuid, node.name, node.instance_info) == (uuid, "old", '{"a": 1}')
    assert (node.owner, node.lessee, node.automated_clean, node.network_data) == (None, None, None, "{}")
    assert (node.protected, node.retired, port.is_smartnic, port.node_id) == (False, False, False, node.id)
    assert (process.hostname, process.drivers) == ("host", "[]")
