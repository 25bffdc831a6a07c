"""`python -m bench.profile WORKLOAD…`: where Holdfast's CPU time goes in one of the workloads.

The application runs inside this process, without HTTP server and load generator, on a fleet of its own. A timer of the
kernel interrupts it every few milliseconds of CPU time, and the line that it is on is noted. That slows nothing down.
What a line calls in C (the database, the JSON library) counts as that line.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import linecache
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Self

from bench import ROOT, SCRATCH, BenchError, fleet, multiply, postgresql
from bench.load import Request
from bench.services import VERSION_HEADER
from bench.stage import MINOR
from bench.workloads import WORKLOADS, Workload, render
from tests.application import Application, running

LINES = 12
PACKAGES = 5
WIDTH = 80
SECONDS = 3.0
INTERVAL = 0.002
NODES = 1_000
# Without those that go on in another thread.
KNOWN = {workload.name: workload for workload in WORKLOADS if workload.proof is None}


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


class Sampler:
    """Which line of Python the process is on, every few milliseconds of CPU time."""

    def __init__(self) -> None:
        self.samples: Counter[tuple[str, int]] = Counter()

    def __enter__(self) -> Self:
        signal.signal(signal.SIGPROF, self._note)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL, INTERVAL)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)

    def _note(self, _number: int, frame: FrameType | None) -> None:
        if frame is not None and not frame.f_code.co_filename.startswith((str(ROOT / "tests"), __file__)):
            self.samples[frame.f_code.co_filename, frame.f_lineno] += 1


def profiled(app: Application, workload: Workload, nodes: int) -> str:
    """CPU time of a request, and the lines that take most of it."""
    serials = itertools.count(1)
    _timed(app, workload, 2, nodes, serials, Sampler())
    sampler = Sampler()
    count, spent = 0, 0.0
    while spent < SECONDS:
        size = min(workload.requests, nodes)
        spent += _timed(app, workload, size, nodes, serials, sampler)
        count += size
    total = sum(sampler.samples.values())
    packages: Counter[str] = Counter()
    for (file, _), samples in sampler.samples.items():
        packages[_place(file).split("/")[0]] += samples
    shares = ", ".join(f"{name} {samples / total:.0%}" for name, samples in packages.most_common(PACKAGES))
    lines = [f"{spent * 1000 / count:.2f} ms of CPU a request, without HTTP; {shares}. Lines with most of it:"]
    for (file, line), samples in sampler.samples.most_common(LINES):
        source = linecache.getline(file, line).strip()[:WIDTH]
        lines.append(f"{samples / total:6.1%} {_place(file)}:{line}  {source}")
    return "\n".join(lines)


def _timed(
    app: Application, workload: Workload, count: int, nodes: int, serials: Iterator[int], sampler: Sampler
) -> float:
    """CPU seconds of so many requests. Pages are asked for one by one: a walk is its first page."""
    batch = render(workload, count, nodes, serials)
    for request in itertools.chain(*batch.before):
        call(app, request)
    with sampler:
        began = time.thread_time()
        for request in batch.measured:
            call(app, request)
        spent = time.thread_time() - began
    for request in batch.after:
        call(app, request)
    return spent


def _place(file: str) -> str:
    """Below the package that a reader knows."""
    for root in ("site-packages/", "/src/", "/lib/"):
        if root in file:
            return file.rpartition(root)[2]
    return file


def profiles(wanted: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Of each of these pairs of database and workload, as far as there is a profile of it."""
    found = {}
    by_database: dict[str, list[str]] = defaultdict(list)
    for database, name in dict.fromkeys(wanted):
        if name in KNOWN:
            by_database[database].append(name)
    for database, names in by_database.items():
        with application(database, NODES) as app:
            for name in names:
                found[f"{name}, {postgresql.TITLES[database]}"] = profiled(app, KNOWN[name], NODES)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.profile", description=__doc__)
    parser.add_argument("workloads", nargs="+", choices=KNOWN, metavar="WORKLOAD", help=", ".join(KNOWN))
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--database", choices=postgresql.TITLES, default="sqlite")
    given = parser.parse_args()
    with application(given.database, given.nodes) as app:
        for name in given.workloads:
            print(f"{KNOWN[name].title}: {profiled(app, KNOWN[name], given.nodes)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
