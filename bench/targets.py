"""What Holdfast is to reach, as a table, and whether a run shows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.stage import Line, Results

REFERENCE, OURS = "ironic", "holdfast"
AT_ONCE = 16

# workload: how many times less CPU, and more requests a second at 16 at once, than Ironic
TIMES = {
    "list_detail": 40,
    "list_traits": 40,
    "show": 20,
    "lookup": 20,
    "heartbeat": 20,
    "put_traits": 12,
    "patch_node": 12,
    "create_node": 12,
    "create_port": 12,
    "create_connector": 12,
}
# How many times the floor a page may cost.
FLOOR = 3.0
# Figures of upkeep: the most that Holdfast may take of what Ironic takes.
UPKEEP = (
    ("memory idle", "idle_bytes", 1 / 2),
    ("memory after listing", "bytes_after_listing", 1 / 3),
    ("cold start", "cold_start_seconds", 1 / 2),
)
# Lists as long in every fleet (walks apart): their cost per row may not grow with it, or hardly.
FLAT = (
    "list_detail",
    "list_traits",
    "walk",
    "walk_100",
    "trait_half",
    "trait_rack",
    "trait_two",
    "trait_any",
    "trait_not",
    "trait_none",
)
FLAT_GROWTH = 1.25


@dataclass(frozen=True)
class Verdict:
    """One target in one place; `workload` on `database` is what to profile if it is missed."""

    target: str
    where: str
    wanted: str
    measured: str
    met: bool
    workload: str = ""
    database: str = ""


def verdicts(stages: Sequence[Results]) -> list[Verdict]:
    """Every target that these stages can tell something about."""
    found: list[Verdict] = []
    for results in stages:
        found += [*_ratios(results), *_floors(results), *_upkeep(results)]
    for database in dict.fromkeys(results.stage.database for results in stages):
        found += _flatness([results for results in stages if results.stage.database == database])
    return found


def least_cpu(results: Results, workload: str, service: str) -> float | None:
    """CPU milliseconds of one request, at whichever concurrency it took least."""
    costs = [line.best[service].cpu_ms for line in results.lines if line.workload == workload and service in line.best]
    return min(costs, default=None)


def cost_per_row(results: Results, workload: str) -> float | None:
    """CPU microseconds of Holdfast for each item of a list."""
    rows = {line.rows for line in results.lines if line.workload == workload}
    cost = least_cpu(results, workload, OURS)
    return cost * 1000 / max(rows) if cost is not None and any(rows) else None


def _ratios(results: Results) -> Iterator[Verdict]:
    for workload, times in TIMES.items():
        theirs, ours = (least_cpu(results, workload, service) for service in (REFERENCE, OURS))
        line = results.line(workload, AT_ONCE)
        if theirs is None or ours is None or line is None:
            continue
        cpu, served = theirs / ours, line.best[OURS].per_second / line.best[REFERENCE].per_second
        measured = f"{cpu:.1f} × CPU, {served:.1f} × req/s"
        met = cpu >= times and served >= times
        where = results.stage
        yield Verdict(line.title, where.title, f"≥ {times} ×", measured, met, workload, where.database)


def _floors(results: Results) -> Iterator[Verdict]:
    for workload, floor in results.floors.items():
        cost, line = least_cpu(results, workload, OURS), _any_line(results, workload)
        if cost is not None and line is not None:
            ratio = cost / floor.cpu_ms
            measured = f"{ratio:.1f} × ({cost:.1f} of {floor.cpu_ms:.1f} ms)"
            where, title = results.stage, f"{line.title}, over the floor"
            met = ratio <= FLOOR
            yield Verdict(title, where.title, f"≤ {FLOOR:g} ×", measured, met, workload, where.database)


def _upkeep(results: Results) -> Iterator[Verdict]:
    if {REFERENCE, OURS} <= set(results.upkeep):
        for title, name, most in UPKEEP:
            theirs, ours = (getattr(results.upkeep[service], name) for service in (REFERENCE, OURS))
            if theirs and ours:
                share = ours / theirs
                yield Verdict(title, results.stage.title, f"≤ {most:.2f} of Ironic's", f"{share:.2f}", share <= most)


def _flatness(sizes: Sequence[Results]) -> Iterator[Verdict]:
    """From the smallest to the largest fleet on one database."""
    ordered = sorted(sizes, key=lambda results: results.stage.nodes)
    if len(ordered) < 2:
        return
    first, last = ordered[0], ordered[-1]
    where = f"{first.stage.title} to {last.stage.nodes:,}"
    for workload in FLAT:
        small, large, line = cost_per_row(first, workload), cost_per_row(last, workload), _any_line(last, workload)
        if small and large and line:
            measured = f"{small:.1f} → {large:.1f} µs a row"
            met = large <= small * FLAT_GROWTH
            wanted = f"≤ {FLAT_GROWTH:g} × from end to end"
            yield Verdict(f"{line.title}, flat", where, wanted, measured, met, workload, first.stage.database)


def _any_line(results: Results, workload: str) -> Line | None:
    return next((line for line in results.lines if line.workload == workload), None)
