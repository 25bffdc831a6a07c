"""The database: SQLite embedded, PostgreSQL at scale, behind two context managers.

`Database.read()` gives a connection for SELECTs, `Database.write()` one transaction. Neither may be
held across a call to hardware or network. On SQLite there is one writer connection, taken with
BEGIN IMMEDIATE under a process lock so that writers queue up instead of failing with
"database is locked"; readers have connections of their own and are never blocked (WAL).
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Select, create_engine, event, make_url
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.pool import QueuePool, StaticPool

SQLITE_PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    # FULL: an acknowledged write survives power loss; NORMAL in WAL mode may lose the last ones.
    "PRAGMA synchronous=FULL",
    "PRAGMA foreign_keys=ON",
    "PRAGMA busy_timeout=30000",
    "PRAGMA cache_size=-2000",
)


# Seconds after which a connection to PostgreSQL is asked whether it still stands.
RESTED = 0.5
# Connections for reading that stay at hand.
KEPT = 4
# Seconds that a reader of SQLite waits for another one.
COURTESY = 0.02


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
        self._turn = threading.RLock()
        self._kept: list[tuple[Connection, float]] = []
        if self.is_sqlite:
            if self.url.database:
                Path(self.url.database).parent.mkdir(parents=True, exist_ok=True)
            self.reader = _sqlite(url, poolclass=QueuePool, pool_size=pool_size, max_overflow=16)
            self.writer = _sqlite(url, poolclass=StaticPool)
            event.listen(self.writer, "begin", lambda c: c.exec_driver_sql("BEGIN IMMEDIATE"))
        else:
            self.writer = _postgresql(url, pool_size=pool_size, max_overflow=16)
            # The same connections, without a transaction around each read: that would be two more round trips.
            self.reader = self.writer.execution_options(isolation_level="AUTOCOMMIT")

    @contextmanager
    def read(self, *, at_length: bool = False) -> Iterator[Connection]:
        """A connection to read with; sees one consistent snapshot per statement. `at_length`: for long, so that
        others need not wait."""
        # A courtesy on SQLite, not a guard: its driver lets go of Python's lock at every step, and readers at the same
        # time would pass it to and fro at twice the cost. Whoever has waited long enough goes on as well.
        in_turn = self.is_sqlite and not at_length and self._turn.acquire(timeout=COURTESY)
        try:
            connection = self._at_hand() or self.reader.connect()
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
            self._put_back(connection)
        finally:
            if in_turn:
                self._turn.release()

    def _put_back(self, connection: Connection) -> None:
        if connection.in_transaction():
            connection.rollback()
        if len(self._kept) < KEPT and not connection.invalidated:
            self._kept.append((connection, time.monotonic()))
        else:
            connection.close()

    def _at_hand(self) -> Connection | None:
        """A connection that somebody has just used, and nobody since: taking one from the pool and giving it back
        costs more than finding a row."""
        try:
            connection, since = self._kept.pop()
        except IndexError:
            return None
        if time.monotonic() - since < RESTED:
            return connection
        connection.info["resting_since"] = since
        connection.close()
        return None

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
        while self._kept:
            self._kept.pop()[0].close()
        self.reader.dispose()
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


def _postgresql(url: str, **kwargs: Any) -> Engine:
    engine = create_engine(url, hide_parameters=True, **kwargs)

    @event.listens_for(engine, "checkin")
    def rest(_connection: Any, record: Any) -> None:
        record.info.setdefault("resting_since", time.monotonic())

    # SQLAlchemy's own `pool_pre_ping` would ask before every use: one more round trip for each request.
    @event.listens_for(engine, "checkout")
    def probe(connection: Any, record: Any, _proxy: Any) -> None:
        """A server that was restarted is found out before somebody's work fails on it."""
        if time.monotonic() - record.info.pop("resting_since", math.inf) > RESTED:
            try:
                engine.dialect.do_ping(connection)
            except engine.dialect.loaded_dbapi.Error as error:
                raise InvalidatePoolError from error

    return engine
