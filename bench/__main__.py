"""`python -m bench`: Holdfast and a real Ironic, measured side by side."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import signal
import sys
from collections.abc import Iterator

from bench import SCRATCH, BenchError, report
from bench.comparison import PARTS, SIZES, Options, compare, usual
from bench.postgresql import TITLES
from bench.services import SERVICES
from bench.stage import FULL, QUICK
from bench.workloads import LEVELS, WORKLOADS


def main() -> int:
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        with exclusive():
            finished = compare(options)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    print(report.printed(finished))
    if options.is_whole:
        report.publish(finished)
    else:
        print("\nOnly part of the comparison was asked for: nothing written.")
    return 0


def parse() -> Options:
    names = [workload.name for workload in WORKLOADS]
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one rough table in five minutes: SQLite, 1,000 nodes")
    parser.add_argument("--nodes", type=int, nargs="+", metavar="N", help=f"sizes of the fleet (default: {[*SIZES]})")
    parser.add_argument("--database", nargs="+", choices=TITLES, help="kinds of database (default: both)")
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--services", nargs="+", choices=SERVICES, default=list(SERVICES))
    parser.add_argument("--parts", nargs="+", choices=PARTS, help=f"what to measure (default: {' '.join(PARTS)})")
    given = parser.parse_args()
    databases, sizes, parts = usual(given.quick)
    sizes = given.nodes or sizes
    if min(sizes) < max(LEVELS):
        parser.error(f"--nodes must be at least {max(LEVELS)}")
    return Options(
        plan=QUICK if given.quick else FULL,
        databases=given.database or databases,
        sizes=sizes,
        workloads=[workload for workload in WORKLOADS if workload.name in given.only],
        services=[name for name in SERVICES if name in given.services],
        parts=[part for part in PARTS if part in (given.parts or parts)],
    )


@contextlib.contextmanager
def exclusive() -> Iterator[None]:
    """Two runs at once would measure each other."""
    SCRATCH.mkdir(exist_ok=True)
    with (SCRATCH / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BenchError("another run is under way in this tree") from None
        yield


if __name__ == "__main__":
    sys.exit(main())
