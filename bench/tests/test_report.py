"""The tables of a report."""

from __future__ import annotations

import pytest

from bench.chart import ratio_chart
from bench.measure import Enrolment, Figures, Upkeep
from bench.report import Line, Report, as_markdown, as_text, number, requests_table, section, upkeep_table

SLOW = Figures(8.0, 100.0, 10.0, 20.0, 500, 0.1, 50, 3, "GET /v1/nodes/x: 500 locked")
FAST = Figures(0.5, 1000.0, 1.0, 2.0, 500, 0.2, 50, 0, "")


@pytest.fixture
def report() -> Report:
    return Report(
        about={"date": "2026-01-01 00:00 UTC", "fleet": "1,000 nodes", "database": "SQLite"},
        lines=[Line("show", "Show a node", 1, {"ironic": SLOW, "holdfast": FAST})],
        upkeep={
            "ironic": Upkeep(None, 2.0, idle_bytes=200 << 20),
            "holdfast": Upkeep(Enrolment(9.0, 8.0), 0.5, idle_bytes=100 << 20),
        },
        notes=["show: 3 of 50 requests failed"],
    )


def test_ratios_above_one_are_in_favour_of_holdfast(report: Report) -> None:
    _, row = requests_table(report)
    assert row[2:8] == ["8.00", "0.50", "16.0", "100", "1,000", "10.0"]


def test_a_line_with_failed_requests_is_marked(report: Report) -> None:
    _, row = requests_table(report)
    assert row[0] == "Show a node !"


def test_what_was_not_measured_has_no_ratio(report: Report) -> None:
    rows = {title: cells for title, *cells in upkeep_table(report)}
    assert rows["enrol the fleet, CPU s"] == ["–", "8.00", "–"]
    assert rows["memory idle, MiB"] == ["200", "100", "2.00"]


def test_a_single_service_has_no_ratios(report: Report) -> None:
    alone = Report(report.about, [Line("show", "Show a node", 1, {"ironic": SLOW})], {"ironic": Upkeep(None, 2.0)}, [])
    assert "×" not in requests_table(alone)[0] + upkeep_table(alone)[0]


def test_columns_of_the_printed_table_line_up(report: Report) -> None:
    lines = as_text(requests_table(report)).splitlines()
    assert len(lines) == 3
    assert len({len(line) for line in lines}) == 1


def test_a_section_holds_settings_tables_and_notes(report: Report) -> None:
    text = section(report)
    assert text.startswith("\n## 2026-01-01 00:00 UTC\n\n- fleet: 1,000 nodes\n")
    assert as_markdown(requests_table(report)) in text
    assert text.endswith("- show: 3 of 50 requests failed\n")


@pytest.mark.parametrize(("value", "text"), [(1234.5, "1,234"), (99.94, "99.9"), (9.876, "9.88"), (None, "–")])
def test_numbers_have_three_digits(value: float | None, text: str) -> None:
    assert number(value) == text


def test_bars_of_the_chart_are_in_proportion() -> None:
    chart = ratio_chart("CPU & time", [("show", 40.0, "4 → 0.1 ms"), ("list", 10.0, "10 → 1 ms")])
    assert 'width="378.0"' in chart
    assert 'width="94.5"' in chart
    assert "CPU &amp; time" in chart
