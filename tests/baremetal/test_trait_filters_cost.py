"""What lists filtered by traits cost: the query plans of every shape, and work that does not grow with the fleet.

Work is counted, not timed: steps of SQLite's virtual machine, rows met by PostgreSQL's executor.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event

from holdfast.db.engine import Database
from tests import bulk
from tests.application import Application, running
from tests.postgres import Cluster

SMALL, BIG = 4_000, 20_000
PAGE = 100


def traits_of(number: int) -> Iterator[str]:
    yield "CUSTOM_ALL"
    yield "CUSTOM_ODD" if number % 2 else "CUSTOM_EVEN"
    yield f"CUSTOM_NOISE_{number % 37}"
    yield f"CUSTOM_NOISE_{number % 41}"
    if number % 3 == 0:
        yield "CUSTOM_THIRD"
    if number in (17, 500, 3_900):
        yield "CUSTOM_RARE"


FOUND = [
    "traits=CUSTOM_ALL",
    "traits=CUSTOM_RARE",
    "traits=CUSTOM_NOBODY",
    "traits=CUSTOM_ALL,CUSTOM_THIRD",
    "traits=CUSTOM_ALL,CUSTOM_RARE",
    "traits=CUSTOM_ALL,CUSTOM_NOBODY",
    "traits-any=CUSTOM_ALL,CUSTOM_ODD",
    "traits-any=CUSTOM_RARE,CUSTOM_THIRD",
    "traits-any=CUSTOM_RARE,CUSTOM_NOBODY",
    "traits=CUSTOM_ALL&traits-any=CUSTOM_RARE,CUSTOM_NOBODY",
    "traits=CUSTOM_THIRD&traits-any=CUSTOM_ODD,CUSTOM_EVEN&not-traits=CUSTOM_ALL,CUSTOM_ODD",
    "traits=CUSTOM_EVEN&not-traits-any=CUSTOM_THIRD,CUSTOM_RARE",
    "traits=CUSTOM_ALL&provision_state=available",
    "traits=CUSTOM_ALL&maintenance=false&driver=fake-hardware",
    "traits-any=CUSTOM_ODD,CUSTOM_THIRD&provision_state=active",
    "traits=CUSTOM_ALL&sort_dir=desc",
    "traits=CUSTOM_RARE&sort_key=name",
    "traits=CUSTOM_RARE&sort_key=updated_at&sort_dir=desc",
    "traits-any=CUSTOM_RARE,CUSTOM_NOBODY&sort_key=name&sort_dir=desc",
]
# These walk the nodes in the order of the list, as an unfiltered list does, until the page is full.
WALKED = [
    "not-traits=CUSTOM_THIRD",
    "not-traits=CUSTOM_ALL,CUSTOM_ODD",
    "not-traits-any=CUSTOM_THIRD",
    "not-traits-any=CUSTOM_THIRD,CUSTOM_NOBODY",
    "not-traits=CUSTOM_THIRD&not-traits-any=CUSTOM_RARE",
    "not-traits-any=CUSTOM_RARE&sort_key=name",
    "traits=CUSTOM_ALL&sort_key=name",
    "traits-any=CUSTOM_ODD,CUSTOM_THIRD&sort_key=name&sort_dir=desc",
    "traits=CUSTOM_THIRD&not-traits-any=CUSTOM_ODD&sort_key=uuid",
]
SHAPES = [*FOUND, *WALKED]


def path(query: str) -> str:
    return f"/v1/nodes?fields=uuid,traits&limit={PAGE}&{query}"


def following(page: dict[str, Any]) -> str | None:
    """The path of the next page."""
    return page["next"].split("/baremetal")[1] if "next" in page else None


@contextmanager
def statements(db: Database) -> Iterator[list[tuple[str, Any]]]:
    """Collects what the database is sent, with the arguments."""
    sent: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        sent.append((statement, parameters))

    event.listen(db.reader, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(db.reader, "before_cursor_execute", note)


# SQLite


@pytest.fixture(scope="module")
def growing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Application, dict[str, list[int]]]]:
    """A big fleet, and the work each shape took when it was small."""
    with running(tmp_path_factory.mktemp("fleet")) as api:
        bulk.load(api.services.db, SMALL, traits_of)
        small = {query: steps(api, query) for query in SHAPES}
        assert any(any(taken) for taken in small.values()), "Nothing was counted."
        bulk.load(api.services.db, BIG, traits_of, first=SMALL)
        yield api, small


def steps(api: Application, query: str) -> list[int]:
    """How many steps SQLite's virtual machine takes for the first and the second page, in hundreds."""
    taken = []

    def count() -> int:
        taken[-1] += 1
        return 0

    def watch(_connection: Any, cursor: Any, *_: Any) -> None:
        cursor.connection.set_progress_handler(count, 100)

    event.listen(api.services.db.reader, "before_cursor_execute", watch)
    try:
        target: str | None = path(query)
        while target and len(taken) < 2:
            taken.append(0)
            target = following(api.send("GET", target))
    finally:
        event.remove(api.services.db.reader, "before_cursor_execute", watch)
    return taken


@pytest.mark.parametrize("query", SHAPES)
def test_sqlite_takes_no_more_steps_in_a_bigger_fleet(
    growing: tuple[Application, dict[str, list[int]]], query: str
) -> None:
    api, small = growing
    for before, now in zip(small[query], steps(api, query), strict=False):
        assert now <= 1.3 * before + 10


def sqlite_plan(api: Application, target: str) -> list[str]:
    with statements(api.services.db) as sent:
        api.send("GET", target)
    plan = []
    with api.services.db.read() as connection:
        for statement, parameters in sent:
            rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plan += [str(row[3]) for row in rows]
    return plan


@pytest.mark.parametrize("query", FOUND)
def test_sqlite_finds_pages_through_indexes(growing: tuple[Application, Any], query: str) -> None:
    plan = sqlite_plan(growing[0], path(query))
    assert any("ix_node_traits_trait (trait=?" in line for line in plan), plan
    assert [line for line in plan if line.startswith(("SCAN nodes", "SCAN node_traits"))] == []


@pytest.mark.parametrize("query", WALKED)
def test_sqlite_walks_nodes_in_order_and_probes_the_key(growing: tuple[Application, Any], query: str) -> None:
    plan = sqlite_plan(growing[0], path(query))
    assert any("SEARCH node_traits USING PRIMARY KEY (node_id=? AND trait=?)" in line for line in plan), plan
    assert not any("SCAN node_traits" in line for line in plan), plan
    assert not any("ORDER BY" in line for line in plan), plan


# PostgreSQL


@pytest.fixture(scope="module")
def postgres_fleet(postgres_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    name = postgres_cluster.create()
    with running(tmp_path_factory.mktemp("postgres"), database=postgres_cluster.url(name)) as api:
        bulk.load(api.services.db, BIG, traits_of)
        yield api
    postgres_cluster.drop(name)


@pytest.mark.real
@pytest.mark.parametrize("query", SHAPES)
def test_postgresql_meets_few_rows(postgres_fleet: Application, query: str) -> None:
    api = postgres_fleet
    with statements(api.services.db) as sent:
        target = following(api.send("GET", path(query)))
        if target:
            api.send("GET", target)
    parts = [part for statement in sent for part in postgres_plan(api, *statement)]
    assert [part["Node Type"] for part in parts if part["Node Type"] == "Seq Scan"] == []
    met = max(rows_met(part) for part in parts)
    assert met <= BIG / 10, [(part["Node Type"], part.get("Index Name"), rows_met(part)) for part in parts]


def postgres_plan(api: Application, statement: str, parameters: Any) -> list[dict[str, Any]]:
    """The parts of the plan, with what each did."""

    def parts(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield plan
        for child in plan.get("Plans", []):
            yield from parts(child)

    with api.services.db.read() as connection:
        explained = connection.exec_driver_sql(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", parameters)
        return list(parts(explained.scalar_one()[0]["Plan"]))


def rows_met(part: dict[str, Any]) -> int:
    removed = sum(value for key, value in part.items() if key.startswith("Rows Removed"))
    return int((part["Actual Rows"] + removed) * part["Actual Loops"])
