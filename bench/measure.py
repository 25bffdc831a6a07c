"""One workload on one service, and the best of several rounds."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench import BenchError
from bench.load import LoadGenerator, Request, fire
from bench.services import Service
from bench.workloads import Batch, Workload

IDLE_SECONDS = 5
WARM_UP = 16


@dataclass(frozen=True)
class Figures:
    """What one service did with one workload at one level of concurrency.

    `cpu_ms` is CPU time of the whole process tree per request, `failed` the requests whose answer
    was not 2xx; they count in `cpu_ms` but have no latency. `generator_busy` is the share of the
    time that the load generator was on a CPU itself: near 1 it limits `per_second`. Of work that goes on
    after its answer, `cpu_ms` and `per_second` count until it is done.
    """

    cpu_ms: float
    per_second: float
    p50_ms: float
    p99_ms: float
    bytes_each: int
    generator_busy: float
    requests: int
    failed: int
    first_error: str

    @classmethod
    def best(cls, rounds: Sequence[Figures]) -> Figures:
        """The best of each figure, whichever round it comes from; requests and failures add up."""
        return cls(
            cpu_ms=min(figures.cpu_ms for figures in rounds),
            per_second=max(figures.per_second for figures in rounds),
            p50_ms=min(figures.p50_ms for figures in rounds),
            p99_ms=min(figures.p99_ms for figures in rounds),
            bytes_each=max(figures.bytes_each for figures in rounds),
            generator_busy=max(figures.generator_busy for figures in rounds),
            requests=sum(figures.requests for figures in rounds),
            failed=sum(figures.failed for figures in rounds),
            first_error=next((figures.first_error for figures in rounds if figures.first_error), ""),
        )


@dataclass
class Upkeep:
    """What a service costs beside its requests. Memory is proportional set size, in bytes."""

    cold_start_seconds: float = 0.0
    idle_bytes: int = 0
    idle_cpu_ms_per_second: float = 0.0
    bytes_after_listing: int = 0
    bytes_after: int = 0


def cold_start(service: Service, times: int) -> float:
    """Start the enrolled service anew; seconds to its first answer, the best of several."""
    seconds = []
    for _ in range(times):
        service.stop()
        seconds.append(service.start())
    return min(seconds)


def watch_idle(service: Service, upkeep: Upkeep) -> None:
    """Note memory and CPU of a service that nobody asks for anything."""
    service.wait_until_quiet()
    before = service.cpu_seconds()
    time.sleep(IDLE_SECONDS)
    upkeep.idle_cpu_ms_per_second = (service.cpu_seconds() - before) / IDLE_SECONDS * 1000
    upkeep.idle_bytes = service.resident_bytes()


def measure(service: Service, workload: Workload, batch: Batch, concurrency: int) -> Figures:
    """Send a batch and read the service's CPU clock around it."""
    if workload.fresh_process:
        service.stop()
        service.start()
        fire(service.job(batch.measured[:WARM_UP], WARM_UP), tolerant=True)
        service.wait_until_quiet()
    for requests in batch.before:
        fire(service.job(requests))
    if batch.before:
        service.wait_until_quiet()
    with LoadGenerator(service.job(batch.measured, concurrency, workload.follows_next)) as generator:
        before = service.cpu_seconds()
        began = time.perf_counter()
        burst = generator.fire()
        ended = max(began + burst.seconds, service.wait_until_quiet()) if workload.goes_on else began + burst.seconds
        cpu = service.cpu_seconds() - before
    if not burst.latencies:
        raise BenchError(f"{service.name}: every request of {workload.name} failed: {burst.first_error}")
    if not burst.errors:
        check(service, workload, batch.proofs)
    if batch.after:
        fire(service.job(batch.after), tolerant=bool(burst.errors))
    count = len(batch.measured)
    return Figures(
        cpu_ms=cpu / count * 1000,
        per_second=len(burst.latencies) / (ended - began),
        p50_ms=burst.percentile(50) * 1000,
        p99_ms=burst.percentile(99) * 1000,
        bytes_each=burst.received_bytes // count,
        generator_busy=burst.own_cpu_seconds / burst.seconds,
        requests=count,
        failed=sum(burst.errors.values()),
        first_error=burst.first_error,
    )


def check(service: Service, workload: Workload, proofs: Sequence[Request]) -> None:
    """Every request must have had its effect by now, or its CPU time was not all counted."""
    for proof in proofs:
        assert workload.proof is not None
        answer = service.get(proof.path, proof.headers).json()
        shown = {name: answer[name] for name in workload.proof.shows}
        if shown != workload.proof.shows:
            raise BenchError(f"{service.name} was quiet before {workload.name} was done: {proof.path} {shown}")


def differences(services: Sequence[Service], workload: Workload, request: Request) -> list[str]:
    """A note for each service whose answer to a GET differs in kind from that of the first."""
    if not services:
        return []
    first, *others = services
    expected = _shape(first.get(request.path, request.headers).json())
    notes = []
    for other in others:
        found = _shape(other.get(request.path, request.headers).json())
        if found != expected:
            lacks, adds = ", ".join(sorted(expected - found)), ", ".join(sorted(found - expected))
            notes.append(
                f"{workload.name}: of what {first.name} answers {other.name} lacks {lacks or 'nothing'};"
                f" it adds {adds or 'nothing'}"
            )
    return notes


def rows_of(service: Service, workload: Workload, request: Request) -> int:
    """How many items one request of a workload answers with; 0 if it is no list."""
    if not workload.lists_nodes:
        return 0
    burst = fire(service.job([request], follows_next=workload.follows_next), keeps_bodies=True)
    lists = [value for page in burst.bodies for value in json.loads(page).values() if isinstance(value, list)]
    return sum(map(len, lists))


def _shape(document: dict[str, object]) -> set[str]:
    """The keys of an object; of a collection, its length and the keys of its first item."""
    for name, value in document.items():
        if isinstance(value, list) and set(document) <= {name, "next"}:
            return {f"{len(value)} {name}", *(value[0] if value else ())}
    return set(document)
