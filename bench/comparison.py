"""A whole run: start the services, give them the same fleet, measure them in turns."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import math
import shutil
import signal
import sys
import time
from collections import defaultdict
from dataclasses import dataclass

from bench import SCRATCH, fleet, machine, postgresql
from bench.kept_fleet import KeptFleet
from bench.load import Request
from bench.measure import Enrolment, Figures, Upkeep, cold_start, differences, enrol, measure, watch_idle
from bench.report import Line, Report
from bench.services import SERVICES, Service
from bench.workloads import WORKLOADS, Workload, render

NEWEST_MINOR = 46
LEVELS = (1, 16)
FEWEST = 4
GENERATOR_LIMIT = 0.8
BUSY_CORES = 0.2

Samples = dict[tuple[str, int, str], list[Figures]]


@dataclass(frozen=True)
class Plan:
    """How much is measured. After the first round, one that would end after `seconds` is left out."""

    name: str
    rounds: int
    divisor: int
    cold_starts: int
    seconds: float = math.inf
    reuses_fleet: bool = False

    def count(self, workload: Workload, concurrency: int, nodes: int) -> int:
        """Requests in a batch: enough to keep all connections busy, never two for one node."""
        return min(nodes, max(concurrency, FEWEST, workload.requests // self.divisor))


FULL = Plan("full", rounds=5, divisor=1, cold_starts=3)
QUICK = Plan("quick", rounds=3, divisor=8, cold_starts=2, seconds=285, reuses_fleet=True)


@dataclass(frozen=True)
class Options:
    """What was asked for on the command line."""

    plan: Plan
    nodes: int
    database: str
    workloads: list[Workload]
    services: list[str]

    @property
    def is_partial(self) -> bool:
        return len(self.workloads) < len(WORKLOADS) or len(self.services) < len(SERVICES)


def compare(options: Options) -> Report:
    """Run everything; no process that this starts is left when it returns or fails."""
    began = time.monotonic()
    about = {"date": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC", **machine.description()}
    bystanders = machine.Bystanders()
    with contextlib.ExitStack() as stack:
        services = prepare(options, stack)
        for service in services:
            service.start()
        minor = agree_on_version(services)
        upkeep = settle_in(services, options, minor)
        workloads = [workload for workload in options.workloads if workload.since <= minor]
        samples, notes = measure_in_turns(services, workloads, options, began)
        for service in services:
            upkeep[service.name].bytes_after = service.resident_bytes()
        others = bystanders.cores()
    lines = best_lines(samples, workloads, options.services)
    about |= {service.name: service.settings.version for service in services}
    about |= {
        "fleet": f"{options.nodes:,} nodes",
        "database": {"sqlite": "SQLite", "postgresql": "PostgreSQL"}[options.database],
        "API version": f"1.{minor}",
        "other processes": f"{others:.2f} cores busy on average during the run",
        "plan": f"{options.plan.name}; rounds: {max(map(len, samples.values()))}",
    }
    notes += failures(lines) + limited_by_generator(lines)
    if others > BUSY_CORES:
        notes.append(f"other processes kept {others:.1f} cores busy: only CPU times and memory can be relied on")
    return Report(about, lines, upkeep, notes)


def prepare(options: Options, stack: contextlib.ExitStack) -> list[Service]:
    """The services with empty databases, not started; `stack` will stop them."""
    directory = SCRATCH / "run"
    shutil.rmtree(directory, ignore_errors=True)
    connections: dict[str, str] = {}
    if options.database == "postgresql":
        connections = stack.enter_context(postgresql.server(directory / "postgresql", options.services))
    services = []
    for name in options.services:
        progress(f"prepare {name}")
        settings = SERVICES[name](directory / name, connections.get(name))
        services.append(stack.enter_context(Service(settings)))
    stack.callback(ignore_interrupts)  # the first to run at the end: stopping must not be interrupted
    return services


def ignore_interrupts() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def agree_on_version(services: list[Service]) -> int:
    """Make all speak the newest API version that all know; returns its minor number."""
    minor = min(NEWEST_MINOR, *(service.maximum_minor() for service in services))
    for service in services:
        service.speak(minor)
    return minor


def settle_in(services: list[Service], options: Options, minor: int) -> dict[str, Upkeep]:
    """Enrol the fleet, then look at the services before they have any other work."""
    requests = [request for number in range(options.nodes) for request in fleet.enrolment(number, minor)]
    upkeep = {}
    for service in services:
        progress(f"enrol {options.nodes} nodes in {service.name}")
        cost = take_in(service, requests, options.plan.reuses_fleet)
        upkeep[service.name] = Upkeep(cost, cold_start(service, options.plan.cold_starts))
    for service in services:
        watch_idle(service, upkeep[service.name])
    return upkeep


def take_in(service: Service, requests: list[Request], reuse: bool) -> Enrolment | None:
    """Enrol the fleet over HTTP, or restore what an earlier run enrolled. May leave the service stopped."""
    file = service.settings.keeps_fleet_in
    if file is None:
        return enrol(service, requests)
    kept = KeptFleet(service.settings.version, requests)
    if reuse and kept.exists():
        service.stop()
        kept.restore(file)
        return None
    cost = enrol(service, requests)
    service.stop()
    kept.keep(file)
    return cost


def measure_in_turns(
    services: list[Service], workloads: list[Workload], options: Options, began: float
) -> tuple[Samples, list[str]]:
    """All workloads in each round, each at every level, on one service after the other.

    Whatever else happens on the machine then falls on both, and on different workloads. Also
    returns notes on answers that differ in kind.
    """
    nodes = [fleet.node_uuid(number) for number in range(options.nodes)]
    serials = itertools.count(1)
    notes = []
    for workload in workloads:
        if workload.call.method == "GET":
            (request,) = render(workload, 1, nodes, serials).measured
            notes += differences(services, workload, request)
    samples: Samples = defaultdict(list)
    turn = services
    for number in range(options.plan.rounds):
        round_began = time.monotonic()
        for workload, level in itertools.product(workloads, LEVELS):
            progress(f"round {number + 1}: {workload.name}, {level} at once")
            batch = render(workload, options.plan.count(workload, level, options.nodes), nodes, serials)
            for service in turn:
                samples[workload.name, level, service.name].append(measure(service, workload, batch, level))
        turn = turn[::-1]
        now = time.monotonic()
        if now - began + now - round_began > options.plan.seconds:
            break
    return samples, notes


def best_lines(samples: Samples, workloads: list[Workload], services: list[str]) -> list[Line]:
    return [
        Line(
            workload.name,
            workload.title,
            level,
            {service: Figures.best(samples[workload.name, level, service]) for service in services},
        )
        for workload, level in itertools.product(workloads, LEVELS)
    ]


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
