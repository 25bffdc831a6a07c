"""The floor of a page, from a small database."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bench.floor import Floor, measure_floor
from bench.load import Request
from bench.services import Answer


def test_the_floor_reads_as_many_rows_as_the_page_and_copies_as_many_bytes(tmp_path: Path) -> None:
    path = tmp_path / "service.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE nodes (id INTEGER PRIMARY KEY, uuid TEXT, secret TEXT)")
        connection.execute("CREATE TABLE node_traits (node_id INTEGER, trait TEXT)")
        connection.executemany("INSERT INTO nodes (uuid) VALUES (?)", [(str(number),) for number in range(50)])
        connection.commit()
    page = json.dumps({"nodes": [{"uuid": str(number), "traits": [], "links": []} for number in range(20)]}).encode()
    service: Any = SimpleNamespace(
        settings=SimpleNamespace(database_url=f"sqlite:///{path}"), get=lambda _path: Answer(200, {}, page)
    )
    floor = measure_floor(service, Request("GET", "/v1/nodes?limit=20"))
    assert (floor.rows, floor.bytes_each) == (20, len(page))
    assert floor.select_ms > 0
    assert floor.copy_ms > 0
    assert Floor(1.0, 0.5, 1, 1).cpu_ms == 1.5
