"""`holdfast status`: the installation on one screen."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from rich.columns import Columns
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table

from holdfast.cli import service


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "status",
        help="the installation on one screen",
        description="Nodes by state, flows running and stuck, processes. Talks to a running service.",
    )
    service.add_options(parser)
    parser.add_argument("--watch", nargs="?", type=float, const=2.0, metavar="SECONDS", help="show it anew, until ^C")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    console = Console()
    if options.format == "json":
        print(json.dumps(service.call(options, "GET", "/status"), indent=2))
        return 0
    if options.watch is None:
        console.print(screen(service.call(options, "GET", "/status")))
        return 0
    with Live(console=console, screen=console.is_terminal, auto_refresh=False) as live:
        while True:
            live.update(screen(service.call(options, "GET", "/status")), refresh=True)
            time.sleep(options.watch)


def screen(status: dict[str, Any]) -> Group:
    counts = {name: status[name] for name in ("maintenance", "locked", "ports", "vifs")}
    volumes = {name: status[f"volume {name}"] for name in ("connectors", "targets")}
    tables = [
        _table("nodes by state", status["nodes"]),
        _table("power", status["power"]),
        _table("nodes", counts),
        _table("volumes", volumes),
        _table("flows", status["flows"]),
        _table("at work", status["working"]),
    ]
    parts: list[Any] = [f"Holdfast {status['version']}  {status['at']}", Columns(tables)]
    for stuck in status["stuck"]:
        parts.append(
            Panel(
                f"{stuck['error']}\n[bold]holdfast flow show {stuck['id']}[/]",
                title=f"stuck: {stuck['kind']} of {stuck['subject']}",
                border_style="red",
            )
        )
    alive = ", ".join(f"{process['hostname']}:{process['pid']}" for process in status["processes"])
    parts.append(f"processes: {alive or 'none'}")
    return Group(*parts)


def _table(title: str, counts: dict[str, int]) -> Table:
    table = Table(title=title, show_header=False, title_justify="left", min_width=24)
    table.add_column("what")
    table.add_column("how many", justify="right")
    for name, count in counts.items():
        table.add_row(name, str(count))
    if not counts:
        table.add_row("none", "")
    return table
