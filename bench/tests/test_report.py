"""The tables of a report, and what it says of the targets."""

from __future__ import annotations

import dataclasses

import pytest

from bench.chart import ratio_chart
from bench.floor import Floor
from bench.measure import Figures, Upkeep
from bench.report import Report, per_row_table, requests_table, section, upkeep_table
from bench.stage import Line, Results, Stage
from bench.tables import as_markdown, as_text, number
from bench.targets import verdicts

SLOW = Figures(8.0, 100.0, 10.0, 20.0, 500, 0.1, 50, 3, "GET /v1/nodes/x: 500 locked")
FAST = Figures(0.5, 1000.0, 1.0, 2.0, 500, 0.2, 50, 0, "")
BOTH = ("ironic", "holdfast")


@pytest.fixture
def results() -> Results:
    return Results(
        Stage("sqlite", 1000, BOTH, 60.0),
        lines=[
            Line("show", "Show a node", 16, 0, {"ironic": SLOW, "holdfast": FAST}),
            Line("list_traits", "List traits", 1, 1000, {"holdfast": FAST}),
        ],
        upkeep={"ironic": Upkeep(2.0, idle_bytes=200 << 20), "holdfast": Upkeep(0.5, idle_bytes=100 << 20)},
        floors={"list_traits": Floor(0.1, 0.1, 1000, 500)},
        rounds=2,
        notes=["show: 3 of 50 requests failed"],
    )


def test_ratios_above_one_are_in_favour_of_holdfast(results: Results) -> None:
    _, row, _ = requests_table(results)
    assert row[2:8] == ["8.00", "0.50", "16.0", "100", "1,000", "10.0"]


def test_a_line_with_failed_requests_is_marked(results: Results) -> None:
    _, row, _ = requests_table(results)
    assert row[0] == "Show a node !"


def test_what_only_one_service_can_do_has_no_ratio(results: Results) -> None:
    _, _, row = requests_table(results)
    assert row[2:5] == ["–", "0.50", "–"]


def test_memory_and_start_have_ratios(results: Results) -> None:
    rows = {title: cells for title, *cells in upkeep_table(results)}
    assert rows["memory idle, MiB"] == ["200", "100", "2.00"]


def test_a_single_service_has_no_ratios(results: Results) -> None:
    alone = Results(Stage("sqlite", 1000, ("holdfast",), 60.0), {}, results.lines[1:], results.upkeep)
    assert "×" not in requests_table(alone)[0] + upkeep_table(alone)[0]


def test_columns_of_the_printed_table_line_up(results: Results) -> None:
    lines = as_text(requests_table(results)).splitlines()
    assert len(lines) == 4
    assert len({len(line) for line in lines}) == 1


def test_a_target_is_met_only_with_less_cpu_and_more_requests_both(results: Results) -> None:
    told = {verdict.target: verdict for verdict in verdicts([results])}
    assert (told["Show a node"].measured, told["Show a node"].met) == ("16.0 × CPU, 10.0 × req/s", False)
    assert (told["List traits, over the floor"].measured, told["List traits, over the floor"].met) == (
        "2.5 × (0.5 of 0.2 ms)",
        True,
    )
    assert (told["memory idle"].met, told["cold start"].met) == (True, True)


@pytest.mark.parametrize(("cpu_ms", "flat"), [(0.6, True), (0.7, False)])
def test_cost_per_row_may_not_grow_with_the_fleet(results: Results, cpu_ms: float, flat: bool) -> None:
    costly = dataclasses.replace(FAST, cpu_ms=cpu_ms)
    larger = Results(
        Stage("sqlite", 100_000, ("holdfast",), 60.0),
        lines=[Line("list_traits", "List traits", 1, 1000, {"holdfast": costly})],
    )
    (verdict,) = (verdict for verdict in verdicts([larger, results]) if verdict.target == "List traits, flat")
    assert verdict.met is flat
    assert per_row_table([results, larger])[1] == ["list_traits", "0.50", number(cpu_ms)]


def test_a_section_holds_settings_targets_tables_profiles_and_notes(results: Results) -> None:
    report = Report(
        {"date": "2026-01-01 00:00 UTC", "machine": "two cores"},
        [results],
        verdicts=verdicts([results]),
        profiles={"show": "80 % in one place"},
        notes=["a busy machine"],
    )
    text = section(report)
    assert text.startswith("\n## 2026-01-01 00:00 UTC\n\n- machine: two cores\n")
    assert as_markdown(requests_table(results)) in text
    assert "### Targets: 3 of 4 met" in text
    assert "80 % in one place" in text
    assert text.endswith("- a busy machine\n")


@pytest.mark.parametrize(("value", "text"), [(1234.5, "1,234"), (99.94, "99.9"), (9.876, "9.88"), (None, "–")])
def test_numbers_have_three_digits(value: float | None, text: str) -> None:
    assert number(value) == text


def test_bars_of_the_chart_are_in_proportion() -> None:
    chart = ratio_chart("CPU & time", [("show", 40.0, "4 → 0.1 ms"), ("list", 10.0, "10 → 1 ms")])
    assert 'width="378.0"' in chart
    assert 'width="94.5"' in chart
    assert "CPU &amp; time" in chart
