"""The result of a run as tables, as JSON and as a section of `RESULTS.md`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

from bench import ROOT
from bench.chart import ratio_chart
from bench.measure import Figures, Upkeep
from bench.postgresql import TITLES
from bench.stage import Line, Results
from bench.tables import Table, as_markdown, as_text, number
from bench.targets import FLAT, OURS, REFERENCE, Verdict, cost_per_row, least_cpu

RESULTS = ROOT / "bench" / "RESULTS.md"
LATEST_JSON = ROOT / "bench" / "results" / "latest.json"
LATEST_SVG = ROOT / "bench" / "results" / "latest.svg"

PREAMBLE = """\
# Results

Written by `python -m bench`, newest last. [README.md](README.md) says what the figures mean.
"""
HOW_TO_READ = "× is how many times less CPU, time or memory Holdfast takes, or how many times more it serves."

MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Part:
    """Something else that was measured: a heading, its table, and what to know about it."""

    title: str
    table: Table
    notes: list[str] = field(default_factory=list)


@dataclass
class Report:
    """A whole run. `about` is what a reader needs to judge or repeat it."""

    about: dict[str, str]
    stages: list[Results] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    profiles: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Metric:
    """One figure per service, and their ratio turned so that above 1 is better for Holdfast."""

    title: str
    of: Callable[[Figures], float]
    ratio: bool = True
    more_is_better: bool = False


METRICS = (
    Metric("CPU ms", lambda figures: figures.cpu_ms),
    Metric("req/s", lambda figures: figures.per_second, more_is_better=True),
    Metric("p50 ms", lambda figures: figures.p50_ms, ratio=False),
    Metric("p99 ms", lambda figures: figures.p99_ms, ratio=False),
)

UPKEEP: tuple[tuple[str, Callable[[Upkeep], float]], ...] = (
    ("cold start to first answer, s", lambda upkeep: upkeep.cold_start_seconds),
    ("idle, CPU ms per s", lambda upkeep: upkeep.idle_cpu_ms_per_second),
    ("memory idle, MiB", lambda upkeep: upkeep.idle_bytes / MEBIBYTE),
    ("memory after listing, MiB", lambda upkeep: upkeep.bytes_after_listing / MEBIBYTE),
    ("memory after the run, MiB", lambda upkeep: upkeep.bytes_after / MEBIBYTE),
)


def requests_table(results: Results) -> Table:
    """Each workload at each level of concurrency. Heads may have two lines."""
    services = results.stage.services
    header = ["request", "at once"]
    for metric in METRICS:
        header += _heads(metric.title, services, metric.ratio)
    return [header, *(_row(line, services) for line in results.lines)]


def upkeep_table(results: Results) -> Table:
    """What the services cost beside their requests."""
    services = results.stage.services
    rows = [["service", *_heads("", services, ratio=True)]]
    for title, of in UPKEEP:
        values = [of(results.upkeep[name]) for name in services]
        rows.append([title, *_cells(values, ratio=True, more_is_better=False)])
    return rows


def floors_table(stages: Sequence[Results]) -> Table:
    """The pages that have a floor."""
    rows = [["page", "nodes", "database", "SELECT ms", "copy ms", "floor ms", "Holdfast ms", "× floor"]]
    for results in stages:
        for workload, floor in results.floors.items():
            cost = least_cpu(results, workload, OURS)
            ratio = cost and cost / floor.cpu_ms
            figures = map(number, (floor.select_ms, floor.copy_ms, floor.cpu_ms, cost, ratio))
            rows.append([workload, f"{results.stage.nodes:,}", results.stage.database, *figures])
    return rows


def per_row_table(stages: Sequence[Results]) -> Table:
    """CPU microseconds per row of a list, by size of the fleet."""
    header = ["Holdfast, CPU µs a row", *(f"{results.stage.database}\n{results.stage.nodes:,}" for results in stages)]
    costs = {workload: [cost_per_row(results, workload) for results in stages] for workload in FLAT}
    return [header, *([workload, *map(number, row)] for workload, row in costs.items() if any(row))]


def verdicts_table(verdicts: Sequence[Verdict]) -> Table:
    rows = [[v.target, v.where, v.wanted, v.measured, "yes" if v.met else "NO"] for v in verdicts]
    return [["target", "where", "wanted", "measured", "met?"], *rows]


def sections(report: Report) -> list[tuple[str, Table, list[str]]]:
    """The whole report, in order: heading, table, notes."""
    found: list[tuple[str, Table, list[str]]] = []
    if report.verdicts:
        met = sum(verdict.met for verdict in report.verdicts)
        found.append((f"Targets: {met} of {len(report.verdicts)} met", verdicts_table(report.verdicts), []))
    for results in report.stages:
        title = f"{results.stage.title} (best of {results.rounds})"
        found.append((title, requests_table(results), results.notes))
        found.append((f"{results.stage.title}: beside requests", upkeep_table(results), []))
    if any(results.floors for results in report.stages):
        found.append(("The floor", floors_table(report.stages), []))
    if len(per_row_table(report.stages)) > 1:
        found.append(("Cost per row", per_row_table(report.stages), []))
    return found + [(part.title, part.table, part.notes) for part in report.parts]


def printed(report: Report) -> str:
    """What the command prints at its end: the targets last, where they are seen."""
    blocks = []
    for title, table, notes in [*sections(report)[1:], *sections(report)[:1]]:
        blocks += [f"== {title}", as_text(table), *notes]
    blocks += [f"== Profile of {name}\n{text}" for name, text in report.profiles.items()]
    return "\n\n".join([*blocks, HOW_TO_READ, *report.notes])


def publish(report: Report) -> None:
    """Write `results/latest.json` and `results/latest.svg`, and append to `RESULTS.md`."""
    LATEST_JSON.parent.mkdir(exist_ok=True)
    LATEST_JSON.write_text(json.dumps(asdict(report), indent=2) + "\n")
    if rows := chart_rows(report):
        nodes = max(results.stage.nodes for results in report.stages if REFERENCE in results.stage.services)
        LATEST_SVG.write_text(ratio_chart(f"CPU time per request, times less than Ironic ({nodes:,} nodes)", rows))
    if not RESULTS.exists():
        RESULTS.write_text(PREAMBLE)
    with RESULTS.open("a") as results:
        results.write(section(report))


def section(report: Report) -> str:
    """One run in Markdown."""
    parts = [
        f"## {report.about['date']}",
        "\n".join(f"- {name}: {value}" for name, value in report.about.items() if name != "date"),
        HOW_TO_READ,
    ]
    for title, table, notes in sections(report):
        parts += [f"### {title}", as_markdown(table), "\n".join(f"- {note}" for note in notes)]
    for name, text in report.profiles.items():
        parts += [f"### Where the time of {name} goes", f"```\n{text}\n```"]
    parts.append("\n".join(f"- {note}" for note in report.notes))
    return "\n" + "\n\n".join(part for part in parts if part) + "\n"


def chart_rows(report: Report) -> list[tuple[str, float, str]]:
    """A bar for each workload that both can do, on each database with the largest fleet that both have."""
    largest = {results.stage.database: results for results in report.stages if REFERENCE in results.stage.services}
    rows = []
    for results in largest.values():
        for name, title in {line.workload: line.title for line in results.lines}.items():
            theirs, ours = (least_cpu(results, name, service) for service in (REFERENCE, OURS))
            if theirs is not None and ours is not None:
                label = f"{title}, {TITLES[results.stage.database]}"
                rows.append((label, theirs / ours, f"{number(theirs)} → {number(ours)} ms"))
    return rows


def _heads(title: str, services: Sequence[str], ratio: bool) -> list[str]:
    heads = [f"{title}\n{name}".strip() for name in services]
    return [*heads, "×"] if ratio and len(services) > 1 else heads


def _row(line: Line, services: Sequence[str]) -> list[str]:
    """A `!` marks a line of which some requests failed; the notes say which."""
    failed = any(figures.failed for figures in line.best.values())
    row = [line.title + (" !" if failed else ""), str(line.concurrency)]
    for metric in METRICS:
        values = [metric.of(line.best[name]) if name in line.best else None for name in services]
        row += _cells(values, metric.ratio, metric.more_is_better)
    return row


def _cells(values: Sequence[float | None], ratio: bool, more_is_better: bool) -> list[str]:
    cells = [number(value) for value in values]
    if not ratio or len(values) < 2:
        return cells
    reference, ours = values
    better, worse = (ours, reference) if more_is_better else (reference, ours)
    return [*cells, number(better / worse if better is not None and worse else None)]
