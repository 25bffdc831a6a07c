"""Holdfast on PostgreSQL with one worker process and with two: how many times more it serves.

The database server and the load generator need their share of the same cores. So the table also tells how much CPU each
of the three takes for a request, and what follows from it: how many times more two workers could serve at best, with
all cores busy all the time. One worker is limited by one core, whatever the others do.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections import defaultdict
from dataclasses import dataclass

from bench import multiply, postgresql, process_tree
from bench.load import fire
from bench.measure import Figures, measure
from bench.report import Part
from bench.services import Service
from bench.stage import housed, progress
from bench.tables import number
from bench.targets import AT_ONCE, OURS, Verdict
from bench.workloads import WORKLOADS, Batch, Workload, render

NODES = 1_000
WORKERS = (1, 2)
WANTED = 1.6
# workload: requests in a batch
REQUESTS = {"list_detail": 64, "list_traits": 128, "show": 1_000, "put_traits": 400}
HEADER = [
    f"{AT_ONCE} at once",
    "req/s\n1 worker",
    "req/s\n2 workers",
    "\n×",
    "CPU ms\nHoldfast",
    "CPU ms\ndatabase",
    "CPU ms\ngenerator",
    "× at best\non these cores",
]


@dataclass(frozen=True)
class Sample:
    """One batch: its figures, and CPU milliseconds of the database server and of the generator for a request."""

    figures: Figures
    database_ms: float
    generator_ms: float


Samples = dict[tuple[str, int], list[Sample]]


def measure_workers(rounds: int) -> tuple[Part, list[Verdict]]:
    """One and two workers in turns, the best of each."""
    chosen = [workload for workload in WORKLOADS if workload.name in REQUESTS]
    samples: Samples = defaultdict(list)
    serials = itertools.count(1)
    with housed("postgresql", (OURS,)) as (service,):
        progress("one worker and two: settle in")
        service.start()
        multiply.settle(service, NODES, looked_up=True)
        alone = service.settings
        for _, workers in itertools.product(range(rounds), WORKERS):
            progress(f"{workers} workers")
            service.stop()
            service.settings = dataclasses.replace(alone, command=[*alone.command, "--workers", str(workers)])
            service.start()
            for workload in chosen:
                batch = render(workload, REQUESTS[workload.name], NODES, serials)
                fire(service.job(batch.measured[: 4 * AT_ONCE], 2 * AT_ONCE))  # every worker has warmed up
                samples[workload.name, workers].append(_sample(service, workload, batch))
    rows, verdicts = [], []
    for workload in chosen:
        row, verdict = _compared(workload, *(samples[workload.name, workers] for workers in WORKERS))
        rows.append(row)
        verdicts.append(verdict)
    notes = [f"{os.cpu_count()} cores for all three; {NODES:,} nodes"]
    return Part("One worker process and two, PostgreSQL", [HEADER, *rows], notes), verdicts


def _sample(service: Service, workload: Workload, batch: Batch) -> Sample:
    server = postgresql.pid(service.settings.database_url)
    before = process_tree.cpu_seconds(server)
    figures = measure(service, workload, batch, AT_ONCE)
    spent = process_tree.cpu_seconds(server) - before
    return Sample(figures, spent * 1000 / figures.requests, figures.generator_busy * 1000 / figures.per_second)


def _compared(workload: Workload, one: list[Sample], two: list[Sample]) -> tuple[list[str], Verdict]:
    alone, both = (max(sample.figures.per_second for sample in samples) for samples in (one, two))
    ours, theirs, generator = (
        min(costs)
        for costs in (
            [sample.figures.cpu_ms for sample in two],
            [sample.database_ms for sample in two],
            [sample.generator_ms for sample in two],
        )
    )
    most = (os.cpu_count() or 1) * 1000 / (ours + theirs + generator) / alone
    ratio = both / alone
    row = [workload.title, *map(number, (alone, both, ratio, ours, theirs, generator, most))]
    measured = f"{ratio:.2f} × ({most:.2f} × at best on these cores)"
    title = f"two workers: {workload.title}"
    return row, Verdict(title, "PostgreSQL", f"≥ {WANTED} ×", measured, ratio >= WANTED, workload.name, "postgresql")
