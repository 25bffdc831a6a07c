"""The settings of DBOS, the durable-execution engine underneath.

Its journal is a file next to the embedded database, or the schema `dbos` in PostgreSQL. Everything in
it is JSON: a pickle in a database is code that runs when it is read.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import msgspec
from dbos import DBOSConfig, Serializer
from sqlalchemy import Engine, create_engine, event, make_url
from sqlalchemy.pool import QueuePool

# Raised only when the list of steps of a flow changes so that running ones cannot be carried on.
APPLICATION_VERSION = "1"
SCHEMA = "dbos"
THREADS = 256
# Seconds a flow waits for a connection: giving up would leave it half recorded.
PATIENCE = 600


class JournalledError(Exception):
    """What a journalled exception reads back as. Ours never are: steps record failures as data."""


class JsonSerializer(Serializer):
    def serialize(self, data: Any) -> str:
        if isinstance(data, BaseException):
            # Only the type: the text may hold anything.
            data = {"exception": type(data).__name__}
        return msgspec.json.encode(data).decode()

    def deserialize(self, serialized_data: str) -> Any:
        data = msgspec.json.decode(serialized_data)
        if isinstance(data, dict) and data.keys() == {"exception"}:
            return JournalledError(data["exception"])
        return data

    def name(self) -> str:
        return "json"


def config(url: str, connections: Engine, executor: str) -> DBOSConfig:
    """What DBOS is started with."""
    quiet()
    return DBOSConfig(
        name="holdfast",
        system_database_url=url,
        system_database_engine=connections,
        dbos_system_schema=SCHEMA,
        serializer=JsonSerializer(),
        application_version=APPLICATION_VERSION,
        executor_id=executor,
        log_level="WARNING",
        max_executor_threads=THREADS,
        # We use none of its notifications; the interval only bounds how long a stop takes.
        use_listen_notify=False,
        notification_listener_polling_interval_sec=0.25,
    )


def quiet() -> None:
    """Sends what DBOS logs through our handlers; it would add its own to the console otherwise."""
    logger = logging.getLogger("dbos")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    logger.propagate = True
    logger.setLevel(logging.WARNING)


def engine(url: str) -> Engine:
    """The connections to the journal; DBOS does not close the ones it is given."""
    if make_url(url).get_backend_name() != "sqlite":
        return create_engine(
            url, pool_size=8, max_overflow=8, pool_timeout=PATIENCE, pool_pre_ping=True, hide_parameters=True
        )
    Path(make_url(url).database or "").parent.mkdir(parents=True, exist_ok=True)
    # One connection: writers queue up here instead of running into "database is locked".
    connections = create_engine(
        url,
        poolclass=QueuePool,
        pool_size=1,
        max_overflow=0,
        pool_timeout=PATIENCE,
        connect_args={"check_same_thread": False, "timeout": 30},
        hide_parameters=True,
    )

    @event.listens_for(connections, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=30000"):
            connection.execute(f"PRAGMA {pragma}")
        # DBOS relies on the driver to begin its transactions, and to take the write lock when it does.
        connection.isolation_level = "IMMEDIATE"

    return connections
