"""`holdfast states`: draw the provision state machine."""

from __future__ import annotations

import argparse
from typing import Any

from holdfast.baremetal import states


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "states",
        help="draw the provision state machine",
        description="Prints the provision state machine, from the table the service runs on.",
    )
    parser.add_argument("--format", choices=("mermaid", "dot"), default="mermaid")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    print(mermaid() if options.format == "mermaid" else dot())
    return 0


def mermaid() -> str:
    """A diagram that GitHub and most viewers draw. Verbs of the API are marked with a star."""
    lines = ["stateDiagram-v2"]
    for state in states.TRANSITIONS:
        lines.append(f'    state "{state}" as {_id(state)}')
    for state, events in states.TRANSITIONS.items():
        for event, following in events.items():
            lines.append(f"    {_id(state)} --> {_id(following)}: {_label(event)}")
    return "\n".join(lines)


def dot() -> str:
    lines = ["digraph states {", "  node [shape=box, style=rounded];"]
    for state in sorted(states.STABLE):
        lines.append(f'  "{state}" [style="rounded,bold"];')
    for state, events in states.TRANSITIONS.items():
        for event, following in events.items():
            lines.append(f'  "{state}" -> "{following}" [label="{_label(event)}"];')
    return "\n".join([*lines, "}"])


def _label(event: str) -> str:
    asked = {verb.event for verb in states.VERBS.values()}
    return f"{event} *" if event in asked else event


def _id(state: str) -> str:
    return state.replace(" ", "_").replace("-", "_")
