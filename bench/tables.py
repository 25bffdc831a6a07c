"""Tables of text: aligned for a terminal, or as Markdown."""

from __future__ import annotations

Table = list[list[str]]


def as_text(table: Table) -> str:
    """Columns aligned for a terminal, the first to the left; a header may take two lines."""
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


def number(value: float | None) -> str:
    """Three significant digits, no exponent; a dash for what was not measured."""
    if value is None:
        return "–"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
