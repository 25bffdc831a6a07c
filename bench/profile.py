"""`python -m bench.profile WORKLOAD…`: where Holdfast's CPU time goes in one of the workloads.

The application runs inside this process, without HTTP server and load generator, on a fleet of its own. First it is
timed as it is; then the same number of requests runs under cProfile, which slows calls of Python functions down
more than what happens inside them: the shares are rough, their order is not.
"""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import itertools
import pstats
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import ROOT, SCRATCH, BenchError, fleet, multiply, postgresql
from bench.load import Request
from bench.services import VERSION_HEADER
from bench.stage import MINOR
from bench.workloads import WORKLOADS, Workload, render
from tests.application import Application, running

LINES = 12
SECONDS = 1.0


@contextlib.contextmanager
def application(database: str, nodes: int) -> Iterator[Application]:
    """Holdfast inside this process, with a fleet."""
    SCRATCH.mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory(dir=SCRATCH, prefix="profile-")))
        directory.chmod(0o755)  # the database server may be another user's
        url = f"sqlite:///{directory / 'state' / 'holdfast.sqlite'}"
        if database == "postgresql":
            url = stack.enter_context(postgresql.server(directory / "postgresql", ["holdfast"]))["holdfast"]
        app = stack.enter_context(
            running(
                directory / "state",
                database=url,
                api__restrict_lookup=False,
                conductor__automated_clean=False,
                conductor__sync_power_state_interval=0,
            )
        )
        settle(app, url, nodes)
        yield app


def settle(app: Application, url: str, nodes: int) -> None:
    """As `multiply.settle` does to a service."""
    for request in (request for number in range(fleet.RACK) for request in fleet.enrolment(number)):
        call(app, request)
    lookups = (f"/v1/lookup?addresses={fleet.mac(0, number)}" for number in range(fleet.RACK))
    tokens = [app.request("GET", path).json["config"]["agent_token"] for path in lookups]

    def texts(number: int) -> tuple[str, ...]:
        return (*fleet.texts(number), fleet.token(number))

    with contextlib.closing(multiply.Copier(url)) as copier:
        copier.give_tokens(tokens)
        copier.multiply([texts(number) for number in range(fleet.RACK)], nodes, texts)
        copier.gather_statistics()


def call(app: Application, request: Request) -> None:
    body = None if request.body is None else request.body.encode()
    headers = {VERSION_HEADER: f"1.{MINOR}", **request.headers}
    answer = app.call(request.method, "/baremetal" + request.path, body, headers)
    if answer.status >= 300:
        raise BenchError(f"{request.method} {request.path}: {answer.status} {answer.content[:300]!r}")


def profiled(app: Application, workload: Workload, nodes: int) -> str:
    """CPU time of a request, and the functions that take most of it."""
    serials = itertools.count(1)
    trial = _timed(app, workload, 2, nodes, serials)
    count = max(4, min(workload.requests, nodes, int(SECONDS / trial)))
    plain = _timed(app, workload, count, nodes, serials)
    profiler = cProfile.Profile(time.thread_time)
    _timed(app, workload, count, nodes, serials, profiler)
    lines = [f"{plain * 1000:.2f} ms of CPU a request, without HTTP; under the profiler:"]
    lines += ["   own   of all    calls  function"]
    return "\n".join([*lines, *_top(pstats.Stats(profiler), count)])


def _timed(
    app: Application,
    workload: Workload,
    count: int,
    nodes: int,
    serials: Iterator[int],
    profiler: cProfile.Profile | None = None,
) -> float:
    """CPU seconds of one request in this thread. Pages are asked for one by one: walks are their first page."""
    batch = render(workload, count, nodes, serials)
    for request in itertools.chain(*batch.before):
        call(app, request)
    began = time.thread_time()
    with profiler or contextlib.nullcontext():
        for request in batch.measured:
            call(app, request)
    spent = (time.thread_time() - began) / count
    for request in batch.after:
        call(app, request)
    return spent


def _top(stats: pstats.Stats, count: int) -> Iterator[str]:
    """Own milliseconds, share and calls of each function, for one request."""
    table = stats.stats  # type: ignore[attr-defined]
    functions = [
        (own, calls, where)
        for where, (_, calls, own, _, _) in table.items()
        if not where[0].startswith((str(ROOT / "tests"), __file__))
    ]
    total = sum(own for own, _, _ in functions)
    for own, calls, (file, line, name) in sorted(functions, reverse=True)[:LINES]:
        yield f"{own * 1000 / count:6.2f}  {own / total:6.1%}  {calls / count:7.1f}  {_place(file, line)}{name}"


def _place(file: str, line: int) -> str:
    """Below the package that a reader knows; nothing for what is built in."""
    for root in ("site-packages/", "/src/", "/lib/python3."):
        if root in file:
            return f"{file.rpartition(root)[2]}:{line} "
    return ""


def main() -> int:
    known = {workload.name: workload for workload in WORKLOADS if workload.proof is None}
    parser = argparse.ArgumentParser(prog="python -m bench.profile", description=__doc__)
    parser.add_argument("workloads", nargs="+", choices=known, metavar="WORKLOAD", help=", ".join(known))
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--database", choices=postgresql.TITLES, default="sqlite")
    given = parser.parse_args()
    with application(given.database, given.nodes) as app:
        for name in given.workloads:
            print(f"{known[name].title}: {profiled(app, known[name], given.nodes)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
