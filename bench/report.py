"""The result of a run as a table, as JSON and as a section of `RESULTS.md`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from bench import ROOT
from bench.chart import ratio_chart
from bench.measure import Figures, Upkeep

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
class Line:
    """One workload at one level of concurrency: the best figures of each service."""

    workload: str
    title: str
    concurrency: int
    best: dict[str, Figures]


@dataclass(frozen=True)
class Report:
    """A whole run. `about` is what a reader needs to judge or repeat it."""

    about: dict[str, str]
    lines: list[Line]
    upkeep: dict[str, Upkeep]
    notes: list[str]

    @property
    def services(self) -> list[str]:
        return list(self.upkeep)


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

UPKEEP: tuple[tuple[str, Callable[[Upkeep], float | None]], ...] = (
    ("enrol the fleet, CPU s", lambda upkeep: upkeep.enrolment.cpu_seconds if upkeep.enrolment else None),
    ("enrol the fleet, s", lambda upkeep: upkeep.enrolment.seconds if upkeep.enrolment else None),
    ("cold start to first answer, s", lambda upkeep: upkeep.cold_start_seconds),
    ("idle, CPU ms per s", lambda upkeep: upkeep.idle_cpu_ms_per_second),
    ("memory idle, MiB", lambda upkeep: upkeep.idle_bytes / MEBIBYTE),
    ("memory after the run, MiB", lambda upkeep: upkeep.bytes_after / MEBIBYTE),
)

Table = list[list[str]]


def requests_table(report: Report) -> Table:
    """Header and rows: each workload at each level of concurrency. Heads may have two lines."""
    header = ["request", "at once"]
    for metric in METRICS:
        header += _heads(metric.title, report.services, metric.ratio)
    return [header, *(_row(line, report.services) for line in report.lines)]


def upkeep_table(report: Report) -> Table:
    """Header and rows: what the services cost beside their requests."""
    rows = [["service", *_heads("", report.services, ratio=True)]]
    for title, of in UPKEEP:
        values = [of(report.upkeep[name]) for name in report.services]
        rows.append([title, *_cells(values, ratio=True, more_is_better=False)])
    return rows


def as_text(table: Table) -> str:
    """Columns aligned for a terminal, the first to the left; the header takes two lines."""
    header, *rows = table
    upper, lower = zip(*(cell.rpartition("\n")[::2] for cell in header), strict=True)
    lines = [upper, lower, *rows] if any(upper) else [lower, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))])
        for line in lines
    )


def as_markdown(table: Table) -> str:
    header, *rows = table
    rule = ["---", *["---:"] * (len(header) - 1)]
    lines = [[cell.replace("\n", " ") for cell in header], rule, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def printed(report: Report) -> str:
    """What the command prints at its end."""
    parts = [as_text(requests_table(report)), as_text(upkeep_table(report)), *report.notes]
    if len(report.services) > 1:
        parts.insert(2, HOW_TO_READ)
    return "\n\n".join(parts)


def publish(report: Report) -> None:
    """Write `results/latest.json` and `results/latest.svg`, and append to `RESULTS.md`."""
    LATEST_JSON.parent.mkdir(exist_ok=True)
    LATEST_JSON.write_text(json.dumps(asdict(report), indent=2) + "\n")
    LATEST_SVG.write_text(ratio_chart(*_chart_rows(report)))
    if not RESULTS.exists():
        RESULTS.write_text(PREAMBLE)
    with RESULTS.open("a") as results:
        results.write(section(report))


def section(report: Report) -> str:
    """One run in Markdown."""
    about = [f"- {name}: {value}" for name, value in report.about.items() if name != "date"]
    notes = [f"- {note}" for note in report.notes]
    parts = [
        f"## {report.about['date']}",
        "\n".join(about),
        as_markdown(requests_table(report)),
        as_markdown(upkeep_table(report)),
        HOW_TO_READ,
        "\n".join(notes),
    ]
    return "\n" + "\n\n".join(part for part in parts if part) + "\n"


def number(value: float | None) -> str:
    """Three significant digits, no exponent; a dash for what was not measured."""
    if value is None:
        return "–"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _heads(title: str, services: Sequence[str], ratio: bool) -> list[str]:
    heads = [f"{title}\n{name}".strip() for name in services]
    return [*heads, "×"] if ratio and len(services) > 1 else heads


def _row(line: Line, services: Sequence[str]) -> list[str]:
    """A `!` marks a line of which some requests failed; the notes say which."""
    failed = any(figures.failed for figures in line.best.values())
    row = [line.title + (" !" if failed else ""), str(line.concurrency)]
    for metric in METRICS:
        values = [metric.of(line.best[name]) for name in services]
        row += _cells(values, metric.ratio, metric.more_is_better)
    return row


def _cells(values: Sequence[float | None], ratio: bool, more_is_better: bool) -> list[str]:
    cells = [number(value) for value in values]
    if not ratio or len(values) < 2:
        return cells
    reference, ours = values
    better, worse = (ours, reference) if more_is_better else (reference, ours)
    return [*cells, number(better / worse if better is not None and worse else None)]


def _chart_rows(report: Report) -> tuple[str, list[tuple[str, float, str]]]:
    reference, ours = report.services
    rows = []
    for line in report.lines:
        if line.concurrency == 1:
            theirs_ms, ours_ms = line.best[reference].cpu_ms, line.best[ours].cpu_ms
            rows.append((line.title, theirs_ms / ours_ms, f"{number(theirs_ms)} → {number(ours_ms)} ms"))
    title = f"CPU time per request, times less than Ironic ({report.about['fleet']}, {report.about['database']})"
    return title, rows
