"""`holdfast flow`: look at flows over HTTP, and repair them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote

from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.cli import service

STATES = ("running", "done", "unwound", "stuck", "abandoned")
COLOURS = {"running": "cyan", "done": "green", "unwound": "yellow", "stuck": "bold red", "abandoned": "magenta"}


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "flow",
        help="look at flows, and repair them",
        description="Talks to a running service. OS_USERNAME and OS_PASSWORD, or OS_TOKEN, are used "
        "where it asks who is calling.",
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    listed = _verb(verbs, "list", "flows, newest first", list_flows)
    listed.add_argument("--state", choices=STATES, help="only flows in this state")
    listed.add_argument("--kind", help="only flows of this kind")
    listed.add_argument("--subject", help="only flows that work on this: the UUID of a node, say")
    listed.add_argument("--limit", type=int, metavar="N", default=50, help="at most N flows (default: %(default)s)")
    for name, about, run in (
        ("show", "one flow with the timeline of its steps", show_flow),
        ("retry", "carry a stuck flow on where it got stuck", retry_flow),
        ("abandon", "give a flow up and release what it holds", abandon_flow),
    ):
        verb = _verb(verbs, name, about, run)
        verb.add_argument("flow", metavar="ID", help="the flow's id")
        if name == "abandon":
            verb.add_argument("--reason", required=True, help="why; shown to whoever looks at it later")


def _verb(verbs: Any, name: str, about: str, run: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=about, description=about.capitalize() + ".")
    service.add_options(parser)
    parser.set_defaults(run=run)
    return parser


def list_flows(options: argparse.Namespace) -> int:
    query = {"state": options.state, "kind": options.kind, "subject": options.subject, "limit": options.limit}
    flows = service.call(options, "GET", "/flows", params={k: v for k, v in query.items() if v is not None})["flows"]
    if options.format == "json":
        return _print_json(flows)
    table = Table(box=None, pad_edge=False)
    for heading in ("ID", "KIND", "SUBJECT", "STATE", "STEP", "STARTED", "ERROR"):
        table.add_column(heading, overflow="fold" if heading in ("ID", "ERROR") else "ellipsis")
    for flow in flows:
        table.add_row(
            Text(flow["id"]),
            Text(flow["kind"]),
            Text(flow["subject"]),
            _coloured(flow["state"]),
            Text(flow["step"] or ""),
            Text(_moment(flow["created_at"])),
            Text(flow["error"] or ""),
        )
    Console().print(table if flows else "No flows.")
    return 0


def show_flow(options: argparse.Namespace) -> int:
    return _print_flow(options, service.call(options, "GET", _path(options)))


def retry_flow(options: argparse.Namespace) -> int:
    return _print_flow(options, service.call(options, "POST", f"{_path(options)}/retry"))


def abandon_flow(options: argparse.Namespace) -> int:
    body = {"reason": options.reason}
    return _print_flow(options, service.call(options, "POST", f"{_path(options)}/abandon", json=body))


def _path(options: argparse.Namespace) -> str:
    return f"/flows/{quote(options.flow, safe='')}"


def _print_flow(options: argparse.Namespace, flow: Mapping[str, Any]) -> int:
    if options.format == "json":
        return _print_json(flow)
    console = Console()
    facts = Table(box=None, show_header=False, pad_edge=False)
    for name, value in (
        ("flow", flow["id"]),
        ("kind", flow["kind"]),
        ("subject", flow["subject"]),
        ("state", _coloured(flow["state"])),
        ("started", _moment(flow["created_at"])),
        ("finished", _moment(flow["finished_at"])),
        ("runs", str(flow["runs"])),
        ("request", flow["request_id"]),
        ("error", flow["error"]),
        ("reason", flow["reason"]),
        ("next action", flow["next_action"]),
    ):
        if value:
            facts.add_row(Text(name, style="bold"), value if isinstance(value, Text) else Text(value))
    console.print(facts)
    steps = Table(box=None, pad_edge=False)
    for heading in ("STEP", "", "STARTED", "TOOK", "ATTEMPTS", "ERROR OR NOTE"):
        steps.add_column(heading)
    for step in flow["steps"]:
        steps.add_row(
            Text(step["name"]),
            Text("undo" if step["direction"] == "undo" else ""),
            Text(_moment(step["started_at"])),
            Text(_took(step)),
            Text(str(step["attempts"])),
            Text(step["error"] or step.get("note") or ""),
        )
    console.print()
    console.print(steps)
    return 0


def _print_json(document: Any) -> int:
    print(json.dumps(document, indent=2))
    return 0


def _coloured(state: str) -> Text:
    return Text(state, style=COLOURS.get(state, ""))


def _moment(time: str | None) -> str:
    return datetime.fromisoformat(time).astimezone().strftime("%Y-%m-%d %H:%M:%S") if time else ""


def _took(step: Mapping[str, Any]) -> str:
    if step["finished_at"] is None:
        return "under way" if step["error"] is None else "retrying"
    spent = datetime.fromisoformat(step["finished_at"]) - datetime.fromisoformat(step["started_at"])
    return f"{spent.total_seconds():.2f} s"
