"""Brings a database to the schema this version needs (Alembic, both databases, up from empty)."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import inspect, text

from holdfast.db.engine import Database

MIGRATIONS = Path(__file__).parent / "migrations"


def upgrade(db: Database, revision: str = "head") -> None:
    """Applies what is missing. Two processes that start at once wait for each other."""
    if current(db) == newest():
        return
    # Here, not above: a service that has nothing to apply starts sooner and stays smaller without it.
    from alembic import command
    from alembic.config import Config

    configuration = Config()
    configuration.set_main_option("script_location", str(MIGRATIONS))
    with db.write() as connection:
        if not db.is_sqlite:
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(4853010)")
        configuration.attributes["connection"] = connection
        command.upgrade(configuration, revision)


def current(db: Database) -> str | None:
    """The revision the database is at; None for an empty one."""
    with db.read() as connection:
        if not inspect(connection).has_table("alembic_version"):
            return None
        found: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
        return found


def newest() -> str:
    """The revision this version needs. Migrations are numbered in the order in which they are applied."""
    return max(path.name.partition("_")[0] for path in (MIGRATIONS / "versions").glob("[0-9]*_*.py"))
