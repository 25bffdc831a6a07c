"""`holdfast doctor`: check that nothing is lost."""

from __future__ import annotations

import argparse
from typing import Any

from holdfast import app, config, invariants
from holdfast.cli import options as shared
from holdfast.db import schema
from holdfast.db.engine import Database


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "doctor",
        help="check that nothing is lost",
        description="Reads the database (the service may be running) and tells every promise that does not hold.",
    )
    shared.add_configuration(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    conf = shared.load(options)
    db = Database(config.database_url(conf), pool_size=1)
    current = schema.current(db)
    db.close()
    if current != schema.newest():
        print(f"The schema is {current or 'empty'}, needed is {schema.newest()}: run `holdfast db upgrade`.")
        return 1
    services = app.build_services(conf)
    problems = invariants.violations(services)
    services.db.close()
    for problem in problems:
        print(problem)
    if not problems:
        print("All promises hold.")
    return 1 if problems else 0
