"""One workload on one service, and the best of several rounds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench import BenchError
from bench.load import LoadGenerator, Request, fire
from bench.services import Service
from bench.workloads import Batch, Workload

IDLE_SECONDS = 5


@dataclass(frozen=True)
class Figures:
    """What one service did with one workload at one level of concurrency.

    `cpu_ms` is CPU time of the whole process tree per request, `failed` the requests whose answer
    was not 2xx; they count in `cpu_ms` but have no latency. `generator_busy` is the share of the
    time that the load generator was on a CPU itself: near 1 it limits `per_second`.
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


@dataclass(frozen=True)
class Enrolment:
    """What it cost to give a service the whole fleet: seconds on the clock, and of CPU time."""

    seconds: float
    cpu_seconds: float


@dataclass
class Upkeep:
    """What a service costs beside its requests. Memory is proportional set size, in bytes.

    `enrolment` is None if the service started from a database that an earlier run had filled.
    """

    enrolment: Enrolment | None
    cold_start_seconds: float
    idle_bytes: int = 0
    idle_cpu_ms_per_second: float = 0.0
    bytes_after: int = 0


def enrol(service: Service, requests: list[Request]) -> Enrolment:
    """Give the fleet to an empty service, in order, one request after the other."""
    before = service.cpu_seconds()
    burst = fire(service.job(requests))
    return Enrolment(burst.seconds, service.cpu_seconds() - before)


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
    if batch.before:
        fire(service.job(batch.before))
        service.wait_until_quiet()
    with LoadGenerator(service.job(batch.measured, concurrency, workload.follows_next)) as generator:
        before = service.cpu_seconds()
        burst = generator.fire()
        if workload.proof:
            service.wait_until_quiet()
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
        per_second=len(burst.latencies) / burst.seconds,
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
        answer = service.get(proof.path).json()
        shown = {name: answer[name] for name in workload.proof.shows}
        if shown != workload.proof.shows:
            raise BenchError(f"{service.name} was quiet before {workload.name} was done: {proof.path} {shown}")


def differences(services: Sequence[Service], workload: Workload, request: Request) -> list[str]:
    """A note for each service whose answer to a GET differs in kind from that of the first."""
    first, *others = services
    expected = _shape(first.get(request.path).json())
    notes = []
    for other in others:
        found = _shape(other.get(request.path).json())
        if found != expected:
            lacks, adds = ", ".join(sorted(expected - found)), ", ".join(sorted(found - expected))
            notes.append(f"{workload.name}: of what {first.name} answers {other.name} lacks {lacks}; it adds {adds}")
    return notes


def _shape(document: dict[str, object]) -> set[str]:
    """The keys of an object; of a collection, its length and the keys of its first item."""
    for name, value in document.items():
        if isinstance(value, list) and set(document) <= {name, "next"}:
            return {f"{len(value)} {name}", *(value[0] if value else ())}
    return set(document)
