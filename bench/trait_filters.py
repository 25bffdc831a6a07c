"""`python -m bench.trait_filters`: a page of 100 nodes found by trait, in fleets of 1,000, 10,000 and 100,000 nodes.

Holdfast only: Ironic has no such filters. CPU time of one request inside the process, the best of several; it
should not grow with the fleet. The fleets are written straight into the tables.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from holdfast import app, config
from holdfast.db import schema
from holdfast.services import Services
from tests import bulk

SIZES = (1_000, 10_000, 100_000)
QUICK = (1_000, 10_000)
ROUNDS = 7
PAGE = 100

# what is asked for: the query
SHAPES = {
    "one trait of every second node": "traits=CUSTOM_HALF",
    "one trait of one node in a hundred": "traits=CUSTOM_RARE",
    "a trait nobody has": "traits=CUSTOM_NOBODY",
    "two traits at once": "traits=CUSTOM_HALF,CUSTOM_THIRD",
    "any of two": "traits-any=CUSTOM_RARE,CUSTOM_THIRD",
    "not all of two": "not-traits=CUSTOM_HALF,CUSTOM_THIRD",
    "none of two": "not-traits-any=CUSTOM_HALF,CUSTOM_THIRD",
    "has one, lacks another": "traits=CUSTOM_THIRD&not-traits=CUSTOM_HALF",
    "with another filter": "traits=CUSTOM_HALF&provision_state=available",
    "sorted by name": "traits=CUSTOM_HALF&sort_key=name",
}


def traits_of(number: int) -> Iterator[str]:
    """Up to 40 traits a node: a few that are asked for, and many that are not."""
    for name, step in (("CUSTOM_HALF", 2), ("CUSTOM_THIRD", 3), ("CUSTOM_RARE", 100)):
        if number % step == 0:
            yield name
    for filler in range(number % 38):
        yield f"CUSTOM_FILLER_{filler}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.trait_filters", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="leave out the largest fleet")
    sizes = QUICK if parser.parse_args().quick else SIZES
    table: dict[str, list[float]] = {shape: [] for shape in SHAPES}
    for size in sizes:
        with TemporaryDirectory() as directory:
            services = _fleet(Path(directory), size)
            for shape, query in SHAPES.items():
                table[shape].append(_cost(services, query))
            services.db.close()
    print(f"CPU ms of a page of {PAGE} nodes, best of {ROUNDS}, SQLite")
    print(f"{'nodes in the fleet':36}" + "".join(f"{size:>10,}" for size in sizes))
    for shape, costs in table.items():
        print(f"{shape:36}" + "".join(f"{cost:10.2f}" for cost in costs))
    return 0


def _fleet(directory: Path, size: int) -> Services:
    services = app.build_services(config.load(overrides={("DEFAULT", "state_dir"): str(directory)}))
    schema.upgrade(services.db)
    bulk.load(services.db, size, traits_of)
    return services


def _cost(services: Services, query: str) -> float:
    wsgi: Any = app.build_wsgi(services)
    environment = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": "/baremetal/v1/nodes",
        "QUERY_STRING": f"limit={PAGE}&{query}",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "6385",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": "127.0.0.1:6385",
        "HTTP_X_OPENSTACK_IRONIC_API_VERSION": "latest",
        "wsgi.url_scheme": "http",
        "wsgi.input": sys.stdin.buffer,
        "wsgi.errors": sys.stderr,
    }
    best = float("inf")
    status: list[str] = []
    for _ in range(ROUNDS):
        status.clear()
        began = time.process_time()
        content = b"".join(wsgi(dict(environment), lambda line, _headers, *_: status.append(line)))
        best = min(best, time.process_time() - began)
        if not status[0].startswith("200"):
            raise RuntimeError(f"{query}: {status[0]} {content[:200]!r}")
    return best * 1000


if __name__ == "__main__":
    sys.exit(main())
