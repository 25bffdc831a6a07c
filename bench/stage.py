"""One stage of a run: one kind of database, one size of fleet, the services measured on it in turns."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from bench import SCRATCH, multiply, postgresql
from bench.floor import Floor, measure_floor
from bench.measure import Figures, Upkeep, cold_start, differences, measure, rows_of, watch_idle
from bench.services import SERVICES, Service
from bench.workloads import Batch, Workload, render

MINOR = 46
FEWEST = 4
GENERATOR_LIMIT = 0.8
WITH_FLOOR = ("list_detail", "list_traits")

Samples = dict[tuple[str, int, str], list[Figures]]


@dataclass(frozen=True)
class Plan:
    """How much is measured. After the first round, one that would end after the stage's time is left out.

    `batch_seconds` is about how long a batch of requests may take, one after the other.
    """

    name: str
    rounds: int
    batch_seconds: float
    cold_starts: int


FULL = Plan("full", rounds=4, batch_seconds=2.0, cold_starts=3)
QUICK = Plan("quick", rounds=3, batch_seconds=0.5, cold_starts=2)


@dataclass(frozen=True)
class Stage:
    """What is to be measured, in about `seconds`."""

    database: str
    nodes: int
    services: tuple[str, ...]
    seconds: float

    @property
    def title(self) -> str:
        return f"{postgresql.TITLES[self.database]}, {self.nodes:,} nodes"


@dataclass(frozen=True)
class Line:
    """One workload at one level of concurrency: the best figures of each service that can do it.

    `rows` is how many items one request answers with.
    """

    workload: str
    title: str
    concurrency: int
    rows: int
    best: dict[str, Figures]


@dataclass
class Results:
    """What came of a stage."""

    stage: Stage
    versions: dict[str, str] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    upkeep: dict[str, Upkeep] = field(default_factory=dict)
    floors: dict[str, Floor] = field(default_factory=dict)
    rounds: int = 0
    notes: list[str] = field(default_factory=list)

    def line(self, workload: str, concurrency: int) -> Line | None:
        found = (line for line in self.lines if (line.workload, line.concurrency) == (workload, concurrency))
        return next(found, None)


@contextlib.contextmanager
def housed(database: str, names: tuple[str, ...]) -> Iterator[list[Service]]:
    """The services with empty databases, not started; none of their processes is left in the end."""
    directory = SCRATCH / "run"
    shutil.rmtree(directory, ignore_errors=True)
    with contextlib.ExitStack() as stack:
        connections: dict[str, str] = {}
        if database == "postgresql":
            connections = stack.enter_context(postgresql.server(directory / "postgresql", list(names)))
        services = []
        for name in names:
            service = stack.enter_context(Service(SERVICES[name](directory / name, connections.get(name))))
            service.speak(MINOR)
            services.append(service)
        stack.enter_context(uninterrupted_at_the_end())
        yield services
    shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def uninterrupted_at_the_end() -> Iterator[None]:
    """Entered last, left first: stopping what was started must not be interrupted."""
    try:
        yield
    finally:
        handlers = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
        if sys.exc_info()[0] is None:
            for number, handler in handlers.items():
                signal.signal(number, handler)


def run_stage(stage: Stage, plan: Plan, workloads: list[Workload]) -> Results:
    """Settle the fleet in, then measure every workload."""
    began = time.monotonic()
    results = Results(stage)
    with housed(stage.database, stage.services) as services:
        results.versions = {service.name: service.settings.version for service in services}
        for service in services:
            progress(f"{stage.title}: settle {service.name} in")
            service.start()
            multiply.settle(service, stage.nodes, looked_up=True)
            results.upkeep[service.name] = Upkeep(cold_start(service, plan.cold_starts))
        for service in services:
            watch_idle(service, results.upkeep[service.name])
        results.lines = measure_in_turns(services, workloads, plan, results, began)
        for service in services:
            results.upkeep[service.name].bytes_after = service.resident_bytes()
        measure_floors(services, workloads, results)
    results.notes += failures(results.lines) + limited_by_generator(results.lines)
    return results


def measure_in_turns(
    services: list[Service], workloads: list[Workload], plan: Plan, results: Results, began: float
) -> list[Line]:
    """All workloads in each round, each at every level, on one service after the other.

    Whatever else happens on the machine then falls on both, and on different workloads.
    """
    stage = results.stage
    serials = itertools.count(1)
    samples: Samples = defaultdict(list)
    rows, paces = {}, {}
    for workload in workloads:
        progress(f"{stage.title}: try {workload.name}")
        able = [service for service in services if workload.is_for(service.name)]
        trial = render(workload, 2, stage.nodes, serials)
        if workload.call.method == "GET" and able and not workload.before:
            results.notes += differences(able, workload, trial.measured[0])
            rows[workload.name] = rows_of(able[-1], workload, trial.measured[0])
        for service in able:
            paces[workload.name, service.name] = measure(service, workload, trial, 1).p50_ms / 1000
    listings = [workload.name for workload in workloads if workload.lists]
    turn = services
    for number in range(plan.rounds):
        round_began = time.monotonic()
        for workload in workloads:
            progress(f"{stage.title}: round {number + 1}: {workload.name}")
            for level in workload.levels:
                batch = render(workload, min(stage.nodes, workload.requests), stage.nodes, serials)
                for service in turn:
                    if workload.is_for(service.name):
                        part = _fitting(batch, plan, level, paces[workload.name, service.name])
                        samples[workload.name, level, service.name].append(measure(service, workload, part, level))
            if number == 0 and workload.name in listings[-1:]:
                for service in services:
                    results.upkeep[service.name].bytes_after_listing = service.resident_bytes()
        turn = turn[::-1]
        results.rounds = number + 1
        now = time.monotonic()
        if now - began + now - round_began > stage.seconds:
            break
    return best_lines(samples, workloads, rows, results.stage.services)


def _fitting(batch: Batch, plan: Plan, level: int, pace: float) -> Batch:
    """As many requests as fit into the plan's time, but enough to keep all connections busy."""
    return batch.first(max(level, FEWEST, int(plan.batch_seconds / pace)))


def measure_floors(services: list[Service], workloads: list[Workload], results: Results) -> None:
    for workload in workloads:
        for service in services:
            if workload.name in WITH_FLOOR and service.name == "holdfast":
                (request,) = render(workload, 1, results.stage.nodes, itertools.count(1)).measured
                results.floors[workload.name] = measure_floor(service, request)


def best_lines(
    samples: Samples, workloads: list[Workload], rows: dict[str, int], services: tuple[str, ...]
) -> list[Line]:
    lines = []
    for workload in workloads:
        for level in workload.levels:
            best = {
                service: Figures.best(samples[workload.name, level, service])
                for service in services
                if workload.is_for(service)
            }
            if best:
                lines.append(Line(workload.name, workload.title, level, rows.get(workload.name, 0), best))
    return lines


def failures(lines: list[Line]) -> list[str]:
    """A note for every figure that failed requests are part of."""
    return [
        f"{line.workload}, {line.concurrency} at once: {figures.failed} of {figures.requests} requests"
        f" failed in {service}, the first: {figures.first_error}"
        for line in lines
        for service, figures in line.best.items()
        if figures.failed
    ]


def limited_by_generator(lines: list[Line]) -> list[str]:
    return [
        f"{line.workload}, {line.concurrency} at once: the load generator was busy"
        f" {figures.generator_busy:.0%} of the time; {service} could have served more"
        for line in lines
        for service, figures in line.best.items()
        if figures.generator_busy > GENERATOR_LIMIT
    ]


def progress(message: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {message}", file=sys.stderr, flush=True)
