"""Big fleets, written straight into the tables: a hundred thousand nodes in seconds instead of an hour."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from sqlalchemy import Connection, insert

from holdfast.db.engine import Database, now
from holdfast.db.tables import node_traits, nodes

NAMESPACE = uuid.UUID("b4f1b5a4-7f55-4f5c-8a56-3a7b9e1f0c2d")
BATCH = 5000


def load(
    db: Database,
    count: int,
    traits_of: Callable[[int], Iterable[str]] = lambda _number: (),
    columns_of: Callable[[int], dict[str, Any]] = lambda _number: {},
    *,
    first: int = 0,
) -> None:
    """Adds nodes numbered from `first` to count-1, which everything about them follows from. There are no
    others: a node's id is its number plus one. `columns_of` gives every node the same columns."""
    moment = now()
    with db.write() as connection:
        for start in range(first, count, BATCH):
            numbers = range(start, min(start + BATCH, count))
            connection.execute(insert(nodes), [{**_node(number, moment), **columns_of(number)} for number in numbers])
        _load_traits(
            db, connection, ((number + 1, name) for number in range(first, count) for name in set(traits_of(number)))
        )
        if not db.is_sqlite:
            connection.exec_driver_sql(f"SELECT setval(pg_get_serial_sequence('nodes', 'id'), {max(count, 1)})")
    with db.writer.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        if not db.is_sqlite:
            connection.exec_driver_sql("VACUUM ANALYZE nodes, node_traits")


def node_uuid(number: int) -> str:
    return str(uuid.uuid5(NAMESPACE, str(number)))


def node_name(number: int) -> str:
    """Names do not sort as the nodes were enrolled."""
    return f"server-{(number * 7919) % 1_000_003:07}"


def _node(number: int, moment: str) -> dict[str, Any]:
    return {
        "id": number + 1,
        "uuid": node_uuid(number),
        "name": node_name(number),
        "driver": "fake-hardware",
        "provision_state": ("available", "active", "manageable")[number // 7 % 3],
        "power_state": "power off",
        "maintenance": number % 50 == 0,
        "resource_class": "baremetal.large",
        "properties": '{"cpus": 64, "memory_mb": 262144, "local_gb": 1788, "cpu_arch": "x86_64"}',
        "driver_info": f'{{"redfish_address": "https://bmc-{number}.example.com", "redfish_username": "ops"}}',
        "extra": f'{{"rack": "r{number // 40:04}", "unit": {number % 40}}}',
        "created_at": moment,
    }


def _load_traits(db: Database, connection: Connection, rows: Iterator[tuple[int, str]]) -> None:
    cursor = connection.connection.cursor()
    if db.is_sqlite:
        cursor.executemany(f"INSERT INTO {node_traits.name} (node_id, trait) VALUES (?, ?)", rows)
    else:
        with cursor.copy(f"COPY {node_traits.name} (node_id, trait) FROM STDIN") as copy:  # type: ignore[attr-defined]
            for row in rows:
                copy.write_row(row)
    cursor.close()
