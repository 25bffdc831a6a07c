"""The database: SQLite embedded, PostgreSQL at scale, behind two context managers.

`Database.read()` gives a connection for SELECTs, `Database.write()` one transaction. Neither may be
held across a call to hardware or network. On SQLite there is one writer connection, taken with
BEGIN IMMEDIATE under a process lock so that writers queue up instead of failing with
"database is locked"; readers have connections of their own and are never blocked (WAL).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Select, create_engine, event, make_url
from sqlalchemy.pool import QueuePool, StaticPool

SQLITE_PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    # FULL: an acknowledged write survives power loss; NORMAL in WAL mode may lose the last ones.
    "PRAGMA synchronous=FULL",
    "PRAGMA foreign_keys=ON",
    "PRAGMA busy_timeout=30000",
    "PRAGMA cache_size=-2000",
)


def now() -> str:
    """The present time in the form every table keeps."""
    return timestamp(datetime.now(UTC))


def timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def ago(seconds: float) -> str:
    """The time that many seconds ago (negative: ahead)."""
    return timestamp(datetime.now(UTC) - timedelta(seconds=seconds))


def fetch(connection: Connection, statement: Select[Any], size: int) -> Iterator[Sequence[Any]]:
    """The rows in parts, as the driver gives them: making SQLAlchemy's rows of them would cost a quarter of the
    query. On SQLite booleans are numbers."""
    result = connection.execute(statement)
    while rows := result.cursor.fetchmany(size):
        yield rows
    result.close()


class Database:
    """One database of either kind."""

    def __init__(self, url: str, *, pool_size: int = 16) -> None:
        self.url = make_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._writer_lock = threading.Lock()
        if self.is_sqlite:
            if self.url.database:
                Path(self.url.database).parent.mkdir(parents=True, exist_ok=True)
            self.reader = _sqlite(url, poolclass=QueuePool, pool_size=pool_size, max_overflow=16)
            self.writer = _sqlite(url, poolclass=StaticPool)
            event.listen(self.writer, "begin", lambda c: c.exec_driver_sql("BEGIN IMMEDIATE"))
        else:
            self.reader = self.writer = create_engine(
                url, pool_size=pool_size, max_overflow=16, pool_pre_ping=True, hide_parameters=True
            )

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection to read with; sees one consistent snapshot per statement."""
        with self.reader.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """One transaction, committed at the end, rolled back on any exception."""
        if self.is_sqlite:
            with self._writer_lock, self.writer.begin() as connection:
                yield connection
        else:
            with self.writer.begin() as connection:
                yield connection

    def close(self) -> None:
        self.reader.dispose()
        if self.writer is not self.reader:
            self.writer.dispose()


def _sqlite(url: str, **kwargs: Any) -> Engine:
    # Errors without the values of the statement: they end up in logs, and the values may be secret.
    engine = create_engine(
        url, connect_args={"check_same_thread": False, "timeout": 30}, hide_parameters=True, **kwargs
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        # The driver's own transaction handling would start DEFERRED transactions behind our back.
        connection.isolation_level = None
        for pragma in SQLITE_PRAGMAS:
            connection.execute(pragma)

    return engine
