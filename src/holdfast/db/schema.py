"""Brings a database to the schema this version needs (Alembic, both databases, up from empty)."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from holdfast.db.engine import Database

MIGRATIONS = Path(__file__).parent / "migrations"


def upgrade(db: Database, revision: str = "head") -> None:
    """Applies what is missing. Two processes that start at once wait for each other."""
    configuration = _configuration()
    with db.write() as connection:
        if not db.is_sqlite:
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(4853010)")
        configuration.attributes["connection"] = connection
        command.upgrade(configuration, revision)


def current(db: Database) -> str | None:
    """The revision the database is at; None for an empty one."""
    with db.read() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def newest() -> str:
    """The revision this version needs."""
    head = ScriptDirectory.from_config(_configuration()).get_current_head()
    assert head is not None  # noqa: S101
    return head


def _configuration() -> Config:
    configuration = Config()
    configuration.set_main_option("script_location", str(MIGRATIONS))
    return configuration
