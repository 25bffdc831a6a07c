"""`holdfast db`: prepare or look at the database."""

from __future__ import annotations

import argparse
from typing import Any

from holdfast import config
from holdfast.cli import options as shared
from holdfast.db import schema
from holdfast.db.engine import Database


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("db", help="prepare or look at the database")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, about, action in (
        ("upgrade", "bring the database to the schema this version needs", upgrade),
        ("version", "print the schema the database has and the one this version needs", version),
    ):
        child = actions.add_parser(name, help=about, description=about.capitalize() + ".")
        shared.add_configuration(child)
        child.set_defaults(run=action)


def upgrade(options: argparse.Namespace) -> int:
    db = Database(config.database_url(shared.load(options)), pool_size=1)
    schema.upgrade(db)
    print(schema.current(db))
    db.close()
    return 0


def version(options: argparse.Namespace) -> int:
    db = Database(config.database_url(shared.load(options)), pool_size=1)
    current, newest = schema.current(db), schema.newest()
    db.close()
    print(f"database {current or 'empty'}, needed {newest}")
    return 0 if current == newest else 1
