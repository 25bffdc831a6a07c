"""A fleet of any size from a few enrolled nodes: their rows, copied in the service's own database.

Enrolling ten thousand nodes over HTTP takes Ironic an hour. So one rack is enrolled over HTTP, and every other
node is a copy of the one in the same place of that rack: all its rows in all tables, as the service wrote
them, with the strings replaced that `fleet.texts` lists. That works without knowing a schema: the tables are
`nodes` and whatever has a `node_id`. `verify` then asks the service whether it believes it.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sqlalchemy import Engine, MetaData, Table, create_engine, select

from bench import BenchError, fleet
from bench.load import Request, fire
from bench.services import RAMDISK_LOOKUP, Service

BATCH = 5_000

Row = dict[str, Any]


def settle(service: Service, count: int, *, looked_up: bool) -> None:
    """Give an empty, running service a fleet of `count` nodes; it is stopped and started on the way.

    With `looked_up`, the ramdisk of every node has its token: `fleet.token`. Otherwise none has called yet.
    """
    seed = min(count, fleet.RACK)
    fire(service.job([request for number in range(seed) for request in fleet.enrolment(number)]))
    tokens = [look_up(service, number) for number in range(seed)] if looked_up else []
    service.stop()

    def texts(number: int) -> tuple[str, ...]:
        return (*fleet.texts(number), fleet.token(number)) if looked_up else fleet.texts(number)

    with contextlib.closing(Copier(service.settings.database_url)) as copier:
        copier.give_tokens(tokens)
        copier.multiply([texts(number) for number in range(seed)], count, texts)
        copier.gather_statistics()
    service.start()
    verify(service, count)


def look_up(service: Service, number: int) -> str:
    """The token that a ramdisk is given when it looks its node up."""
    answer = service.get(f"/v1/lookup?addresses={fleet.mac(0, number)}", RAMDISK_LOOKUP)
    if answer.status != 200:
        raise BenchError(f"{service.name} answers {answer.status} to a lookup: {answer.body[:300]!r}")
    return str(answer.json()["config"]["agent_token"])


def verify(service: Service, count: int) -> None:
    """The service must list the whole fleet in order, and show the last node as the copy it is."""
    walk = service.job([Request("GET", "/v1/nodes?fields=uuid&limit=1000")], follows_next=True)
    listed = [node["uuid"] for page in fire(walk, keeps_bodies=True).bodies for node in json.loads(page)["nodes"]]
    if listed != [fleet.node_uuid(number) for number in range(count)]:
        raise BenchError(f"{service.name} lists {len(listed)} nodes, which are not the fleet of {count}")
    copy = count - 1
    original = copy % fleet.RACK
    renamed = _replacer(fleet.texts(original), fleet.texts(copy))
    for path in ("/v1/nodes/{}", "/v1/nodes/{}/ports/detail", "/v1/nodes/{}/volume/connectors"):
        expected = json.loads(renamed(service.get(path.format(fleet.node_uuid(original))).body.decode()))
        found = service.get(path.format(fleet.node_uuid(copy))).json()
        if _unordered(found) != _unordered(expected):
            raise BenchError(f"{service.name} shows {path} of a copied node as {found}, not as {expected}")


class Copier:
    """The database of a stopped service."""

    def __init__(self, url: str) -> None:
        self._engine = create_engine(url)
        metadata = MetaData()
        metadata.reflect(self._engine)
        self._nodes = metadata.tables["nodes"]
        self._belongings = [table for table in metadata.tables.values() if "node_id" in table.c]

    def close(self) -> None:
        self._engine.dispose()

    def give_tokens(self, given: Sequence[str]) -> None:
        """Put `fleet.token` in the place of the tokens that the service gave to the first nodes."""
        info, uuid = self._nodes.c.driver_internal_info, self._nodes.c.uuid
        with self._engine.begin() as connection:
            for number, token in enumerate(given):
                is_node = uuid == fleet.node_uuid(number)
                stored = connection.execute(select(info).where(is_node)).scalar_one()
                if token not in stored:
                    raise BenchError("a token is not where it should be")
                changed = stored.replace(token, fleet.token(number))
                connection.execute(self._nodes.update().where(is_node).values(driver_internal_info=changed))

    def multiply(
        self, originals: Sequence[tuple[str, ...]], count: int, texts: Callable[[int], tuple[str, ...]]
    ) -> None:
        """Copies with the numbers from `len(originals)` to `count` - 1, each of the one in its place of the rack."""
        seed = len(originals)
        nodes = sorted(self._rows(self._nodes), key=lambda row: int(row["id"]))
        belongings = {table: self._by_node(table) for table in self._belongings}
        first_id = nodes[-1]["id"] + 1 - seed
        for start in range(seed, count, BATCH):
            numbers = range(start, min(start + BATCH, count))
            replacers = {n: _replacer(originals[n % seed], texts(n)) for n in numbers}
            copies = ({**_copy(nodes[n % seed], replacers[n]), "id": first_id + n} for n in numbers)
            self._insert(self._nodes, [column.name for column in self._nodes.c], copies)
            for table, by_node in belongings.items():
                columns = [column.name for column in table.c if column.name != "id"]
                owned = (
                    {**_copy(row, replacers[n]), "node_id": first_id + n}
                    for n in numbers
                    for row in by_node[nodes[n % seed]["id"]]
                )
                self._insert(table, columns, owned)

    def gather_statistics(self) -> None:
        """As PostgreSQL does by itself a minute later. SQLite never does, and neither service asks it to."""
        if self._engine.dialect.name == "postgresql":
            with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.exec_driver_sql("SELECT setval(pg_get_serial_sequence('nodes', 'id'), max(id)) FROM nodes")
                connection.exec_driver_sql("VACUUM ANALYZE")

    def _rows(self, table: Table) -> Iterator[Row]:
        """Past SQLAlchemy's types: what is read is written again as it is."""
        with self._engine.connect() as connection:
            for row in connection.exec_driver_sql(f'SELECT * FROM "{table.name}"').mappings():  # noqa: S608
                yield dict(row)

    def _by_node(self, table: Table) -> dict[int, list[Row]]:
        rows: dict[int, list[Row]] = defaultdict(list)
        for row in self._rows(table):
            rows[row["node_id"]].append(row)
        return rows

    def _insert(self, table: Table, columns: list[str], rows: Iterator[Row]) -> None:
        values = ([row[name] for name in columns] for row in rows)
        names = ", ".join(f'"{name}"' for name in columns)
        with _cursor(self._engine) as cursor:
            if self._engine.dialect.name == "sqlite":
                marks = ", ".join("?" * len(columns))
                cursor.executemany(f'INSERT INTO "{table.name}" ({names}) VALUES ({marks})', values)  # noqa: S608
            else:
                with cursor.copy(f'COPY "{table.name}" ({names}) FROM STDIN') as copy:
                    for row in values:
                        copy.write_row(row)


@contextlib.contextmanager
def _cursor(engine: Engine) -> Iterator[Any]:
    """The driver's own cursor, in one transaction."""
    with engine.begin() as connection:
        cursor = connection.connection.cursor()
        yield cursor
        cursor.close()


def _replacer(old: Sequence[str], new: Sequence[str]) -> Callable[[str], str]:
    pairs = dict(zip(old, new, strict=True))
    pattern = re.compile("|".join(map(re.escape, sorted(pairs, key=len, reverse=True))))
    return lambda text: pattern.sub(lambda found: pairs[found[0]], text)


def _copy(row: Row, replaced: Callable[[str], str]) -> Row:
    return {name: replaced(value) if isinstance(value, str) else value for name, value in row.items()}


def _unordered(value: Any) -> Any:
    """Lists without their order: traits and links come in any."""
    if isinstance(value, dict):
        return {key: _unordered(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted((_unordered(item) for item in value), key=repr)
    return value
