"""A bar chart as SVG text."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

WIDTH = 920
LABELS_END = 280
BARS_START = 292
BARS_END = 670
ROW = 30
BAR = 18
TOP = 58

STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2933; dominant-baseline: central }
  .title { font-weight: 600; font-size: 15px }
  .label { text-anchor: end }
  .detail { fill: #52606d }
  .bar { fill: #2563a8 }
  .axis { stroke: #9aa5b1 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e4e7eb } .detail { fill: #9aa5b1 } .bar { fill: #5b9bd5 } .axis { stroke: #616e7c }
  }
"""


def ratio_chart(title: str, rows: Sequence[tuple[str, float, str]]) -> str:
    """One horizontal bar per row of (label, ratio, detail), on a linear scale from zero."""
    height = TOP + ROW * len(rows) + 16
    longest = max(ratio for _, ratio, _ in rows)
    scale = (BARS_END - BARS_START) / longest
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
        f' aria-label="{escape(title)}">',
        f"<style>{STYLE}</style>",
        f'<text class="title" x="16" y="26">{escape(title)}</text>',
    ]
    for index, (label, ratio, detail) in enumerate(rows):
        middle = TOP + ROW * index + ROW / 2
        length = ratio * scale
        parts += [
            f'<text class="label" x="{LABELS_END}" y="{middle}">{escape(label)}</text>',
            f'<rect class="bar" x="{BARS_START}" y="{middle - BAR / 2}" width="{length:.1f}" height="{BAR}"/>',
            f'<text x="{BARS_START + length + 8:.1f}" y="{middle}">{ratio:.1f}×'
            f' <tspan class="detail">{escape(detail)}</tspan></text>',
        ]
    parts += [
        f'<line class="axis" x1="{BARS_START}" x2="{BARS_START}" y1="{TOP - 4}" y2="{height - 12}"/>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"
