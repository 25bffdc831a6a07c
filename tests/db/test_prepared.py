"""Statements on the driver's own cursor behave as SQLAlchemy's do, on both databases."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from sqlalchemy import bindparam, insert, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from holdfast.db import engine, schema
from holdfast.db.engine import Database, now
from holdfast.db.prepared import Prepared
from holdfast.db.tables import nodes

UUID = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"
BY_UUID = Prepared(select(nodes).where(nodes.c.uuid == bindparam("given")))


@pytest.fixture
def db(database_url: str) -> Iterator[Database]:
    database = Database(database_url)
    schema.upgrade(database)
    with database.write() as connection:
        connection.execute(
            insert(nodes).values(
                uuid=UUID,
                name="one",
                driver="fake-hardware",
                provision_state="enroll",
                created_at=now(),
                protected=True,
            )
        )
    yield database
    database.close()


def test_rows_read_like_those_of_sqlalchemy(db: Database) -> None:
    with db.read() as connection:
        (row,) = BY_UUID.all(connection, given=UUID)
        plain = connection.execute(select(nodes)).one()
    assert row._asdict() == plain._asdict()
    assert (row.protected, row.retired, row.automated_clean) == (True, False, None)


def test_nothing_found_is_none(db: Database) -> None:
    with db.read() as connection:
        assert BY_UUID.first(connection, given="nobody") is None


def test_a_change_tells_how_many_rows_it_changed(db: Database) -> None:
    rename = Prepared(update(nodes).where(nodes.c.uuid == bindparam("given")).values(name=bindparam("new")))
    with db.write() as connection:
        assert rename.change(connection, given=UUID, new="two") == 1
        assert rename.change(connection, given="nobody", new="three") == 0
    with db.read() as connection:
        found = BY_UUID.first(connection, given=UUID)
    assert found is not None
    assert found.name == "two"


def test_errors_of_the_driver_are_told_as_sqlalchemy_tells_them_without_values(db: Database) -> None:
    blank = Prepared(update(nodes).where(nodes.c.uuid == UUID).values(driver=bindparam("new")))
    with pytest.raises(IntegrityError) as told, db.write() as connection:
        blank.change(connection, new=None)
    assert "driver" in str(told.value)
    assert "parameters" not in str(told.value)


@pytest.mark.real
class TestPostgresqlThatDropsItsConnections:
    @pytest.fixture
    def db(self, postgres_url: str) -> Iterator[Database]:
        database = Database(postgres_url, pool_size=2)
        yield database
        database.close()

    @staticmethod
    def drop_all(db: Database) -> None:
        """As a restart of the server does, seen from here."""
        other = Database(db.url.render_as_string(hide_password=False), pool_size=1)
        with other.read() as connection:
            connection.exec_driver_sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        other.close()

    def test_after_a_rest_nobody_notices(self, db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = time.monotonic()
        monkeypatch.setattr(engine, "time", SimpleNamespace(monotonic=lambda: clock))
        with db.read() as one, db.read() as another:
            assert one.exec_driver_sql("SELECT 1").scalar() == another.exec_driver_sql("SELECT 1").scalar() == 1
        self.drop_all(db)
        clock += 2 * engine.RESTED
        with db.read() as one, db.write() as another:
            assert one.exec_driver_sql("SELECT 1").scalar() == another.exec_driver_sql("SELECT 1").scalar() == 1

    def test_in_the_middle_of_work_it_is_an_error_once(self, db: Database) -> None:
        ask = Prepared(select(bindparam("given", 1)))
        with db.read() as connection:
            assert ask(connection, given=1) == [(1,)]
            self.drop_all(db)
            with pytest.raises(DBAPIError) as told:
                ask(connection, given=1)
        assert told.value.connection_invalidated
        with db.read() as connection:
            assert ask(connection, given=1) == [(1,)]
