"""The least a page can cost: what the database driver and the copying of the answer's bytes take, and nothing else.

In one process without a server: the rows of the page are read through the driver's own cursor (sqlite3, or psycopg
with its C part), the same columns as the answer shows and, where it shows traits, one SELECT of those. Then as many
bytes as the answer has are joined from 1,000 parts and sent through a socket on the loopback interface to a process
that throws them away. CPU time of the sending process; the best of several.
"""

from __future__ import annotations

import contextlib
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import make_url

from bench.load import Request
from bench.services import Service

ROUNDS = 25
PARTS = 1000

SINK = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as source:
    while source.recv(1 << 18):
        pass
"""


@dataclass(frozen=True)
class Floor:
    """CPU milliseconds of one page: its SELECTs, and the copying and sending of its bytes."""

    select_ms: float
    copy_ms: float
    rows: int
    bytes_each: int

    @property
    def cpu_ms(self) -> float:
        return self.select_ms + self.copy_ms


def measure_floor(service: Service, request: Request) -> Floor:
    """The floor of a page of nodes that the service answers with."""
    answer = service.get(request.path)
    nodes = answer.json()["nodes"]
    select = _select(service.settings.database_url, list(nodes[0]), len(nodes))
    with _loopback() as sender:
        return Floor(
            select_ms=_best(select) * 1000,
            copy_ms=_best(_copying(sender, answer.body)) * 1000,
            rows=len(nodes),
            bytes_each=len(answer.body),
        )


def _best(work: Callable[[], None]) -> float:
    """CPU seconds of this process; the receiving end is another's."""
    costs = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        costs.append(time.process_time() - began)
    return min(costs)


def _select(url: str, shown: list[str], count: int) -> Callable[[], None]:
    connection = _connect(url)
    cursor = connection.cursor()
    cursor.execute("SELECT * FROM nodes LIMIT 0")
    columns = ", ".join(column[0] for column in cursor.description if column[0] in shown)
    mark = "?" if isinstance(connection, sqlite3.Connection) else "%s"
    page = f"SELECT id, {columns} FROM nodes ORDER BY id LIMIT {count}"  # noqa: S608
    traits = f"SELECT node_id, trait FROM node_traits WHERE node_id BETWEEN {mark} AND {mark}"  # noqa: S608

    def select() -> None:
        cursor.execute(page)
        rows = cursor.fetchall()
        if "traits" in shown:
            cursor.execute(traits, (rows[0][0], rows[-1][0]))
            cursor.fetchall()
        connection.rollback()

    return select


def _connect(url: str) -> Any:
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return sqlite3.connect(parsed.database or "")
    import psycopg

    return psycopg.connect(parsed.set(drivername="postgresql").render_as_string(hide_password=False))


def _copying(sender: socket.socket, body: bytes) -> Callable[[], None]:
    size = -(-len(body) // PARTS)
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    return lambda: sender.sendall(b"".join(parts))


@contextlib.contextmanager
def _loopback() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with subprocess.Popen([sys.executable, "-c", SINK, str(port)]):
            sender, _ = listener.accept()
            with sender:
                yield sender
