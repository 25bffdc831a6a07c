"""The databases tests run on."""

from __future__ import annotations

from sqlalchemy import text

from holdfast.db.engine import Database


def test_every_test_gets_an_empty_database_of_its_own(database_url: str) -> None:
    db = Database(database_url)
    with db.write() as connection:
        connection.execute(text("CREATE TABLE mine (id INTEGER)"))
        connection.execute(text("INSERT INTO mine VALUES (1)"))
    with db.read() as connection:
        assert connection.execute(text("SELECT id FROM mine")).all() == [(1,)]
    db.close()
