"""Copying nodes in a database whose tables nobody has described to the copier."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bench import fleet
from bench.multiply import Copier

SCHEMA = """
CREATE TABLE nodes (id INTEGER PRIMARY KEY, uuid TEXT UNIQUE, name TEXT, extra TEXT, driver_internal_info TEXT);
CREATE TABLE ports (id INTEGER PRIMARY KEY, node_id INTEGER REFERENCES nodes (id), address TEXT UNIQUE);
CREATE TABLE node_traits (node_id INTEGER, trait TEXT, PRIMARY KEY (node_id, trait));
CREATE TABLE conductors (id INTEGER PRIMARY KEY, hostname TEXT);
INSERT INTO conductors VALUES (1, 'bench');
"""
SEED = 3
COUNT = 8


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Three nodes, with ids that do not begin at one."""
    path = tmp_path / "service.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCHEMA)
        for number in range(SEED):
            extra = f'{{"asset_tag": "AT-{number:08}", "site": "fra1"}}'
            row = (11 + number, fleet.node_uuid(number), fleet.name(number), extra, f'{{"token": "given-{number}"}}')
            connection.execute("INSERT INTO nodes VALUES (?, ?, ?, ?, ?)", row)
            for nic in range(2):
                connection.execute(
                    "INSERT INTO ports (node_id, address) VALUES (?, ?)", (row[0], fleet.mac(nic, number))
                )
            for trait in fleet.traits(number):
                connection.execute("INSERT INTO node_traits VALUES (?, ?)", (row[0], trait))
        connection.commit()
    return path


def rows(database: Path, statement: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute(statement).fetchall()


def multiply(database: Path) -> None:
    with closing(Copier(f"sqlite:///{database}")) as copier:
        copier.give_tokens([f"given-{number}" for number in range(SEED)])
        copier.multiply([texts(number) for number in range(SEED)], COUNT, texts)


def texts(number: int) -> tuple[str, ...]:
    return (*fleet.texts(number), fleet.token(number))


def test_copies_are_numbered_on_in_the_order_of_the_fleet(database: Path) -> None:
    multiply(database)
    expected = [(11 + n, fleet.node_uuid(n), fleet.name(n)) for n in range(COUNT)]
    assert rows(database, "SELECT id, uuid, name FROM nodes ORDER BY id") == expected


def test_texts_inside_documents_are_those_of_the_copy_and_everything_else_stays(database: Path) -> None:
    multiply(database)
    assert rows(database, "SELECT extra FROM nodes WHERE id = 18") == [
        ('{"asset_tag": "AT-00000007", "site": "fra1"}',)
    ]


def test_a_copy_has_all_that_its_original_has(database: Path) -> None:
    multiply(database)
    ports = rows(database, "SELECT node_id, address FROM ports ORDER BY node_id, id")
    assert ports == [(11 + number, fleet.mac(nic, number)) for number in range(COUNT) for nic in range(2)]
    traits = rows(database, "SELECT node_id, trait FROM node_traits")
    assert set(traits) == {(11 + number, trait) for number in range(COUNT) for trait in fleet.traits(number)}
    assert rows(database, "SELECT id, hostname FROM conductors") == [(1, "bench")]


def test_every_node_has_the_token_that_its_ramdisk_will_send(database: Path) -> None:
    multiply(database)
    expected = [(f'{{"token": "{fleet.token(n)}"}}',) for n in range(COUNT)]
    assert rows(database, "SELECT driver_internal_info FROM nodes ORDER BY id") == expected
