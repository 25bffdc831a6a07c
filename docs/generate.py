"""Writes the generated pages of docs/reference/ from the tables the service runs on (`make docs`)."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from pathlib import Path

from holdfast import app
from holdfast.baremetal.flows import FLOWS
from holdfast.baremetal.policies import RULES
from holdfast.baremetal.versions import VERSIONS
from holdfast.cli import ironic, main, states
from holdfast.config import ENVIRONMENT_PREFIX, OPTIONS
from holdfast.web import openapi

HERE = Path(__file__).parent / "reference"
MADE = "Written by `make docs`; do not edit.\n"


def pages() -> dict[str, str]:
    """File name: content."""
    return {
        "states.md": _states(),
        "flow-kinds.md": _flow_kinds(),
        "microversions.md": _microversions(),
        "api.md": _api(),
        "policies.md": _policies(),
        "configuration.md": _configuration(),
        "cli.md": _cli(),
        "openapi.json": json.dumps(openapi.document(app.APIS), indent=1, sort_keys=True) + "\n",
    }


def _states() -> str:
    return (
        f"# The provision state machine\n\n{MADE}\nEvents with a star are verbs a client may ask for.\n\n"
        f"```mermaid\n{states.mermaid()}\n```\n"
    )


def _flow_kinds() -> str:
    lines = [
        f"# Kinds of flows\n\n{MADE}",
        "| kind | what for | steps; behind the bar there is no way back |",
        "|---|---|---|",
    ]
    for flow in FLOWS.all():
        names = [step.name for step in flow.steps]
        steps = " · ".join(names[: flow.pivot]) + " ‖ " + " · ".join(names[flow.pivot :])
        lines.append(f"| `{flow.kind}` | {flow.summary} | {steps} |")
    return "\n".join(lines) + "\n"


def _microversions() -> str:
    lines = [f"# Microversions of the bare-metal API\n\n{MADE}", "| version | what it brought |", "|---|---|"]
    lines += [f"| {version} | {story} |" for version, story in VERSIONS.items()]
    return "\n".join(lines) + "\n"


def _api() -> str:
    lines = [f"# Every endpoint\n\n{MADE}\nSchemas: [openapi.json](openapi.json).\n"]
    for api in app.APIS:
        lines += [f"## {api.name}\n", "| | path | what | from | success | policy |", "|---|---|---|---|---|---|"]
        for route in api.routes:
            since = str(route.since) if api.negotiation else ""
            policy = f"`{route.policy}`" if route.policy else "public"
            path = api.prefix + route.path or "/"
            lines.append(f"| {route.method} | `{path}` | {route.about} | {since} | {route.success} | {policy} |")
        lines.append("")
    return "\n".join(lines)


def _policies() -> str:
    lines = [f"# Policy rules\n\n{MADE}", "| rule | default | what it allows |", "|---|---|---|"]
    lines += [f"| `{rule.name}` | `{rule.check}` | {rule.description} |" for rule in RULES]
    return "\n".join(lines) + "\n"


def _configuration() -> str:
    lines = [f"# Every option\n\n{MADE}\nEach may also be set as `{ENVIRONMENT_PREFIX}<SECTION>__<OPTION>`.\n"]
    for section, options in OPTIONS.items():
        lines += [f"## [{section}]\n", "| option | default | meaning |", "|---|---|---|"]
        lines += [f"| `{o.dest}` | `{o.default}` | {o.help} |" for o in options]
        lines.append("")
    return "\n".join(lines)


def _cli() -> str:
    """The help of every command, as its parser prints it."""
    os.environ["COLUMNS"] = "110"
    parts = [f"# Command lines\n\n{MADE}\n## holdfast\n"]
    for name in main.COMMANDS:
        parts += [f"### holdfast {name}\n", "```", *_help(name), "```\n"]
    parts.append("## ironic\n\nThe commands of the specs in the older grammar.\n")
    application = ironic.IronicApp()
    for name, point in sorted(application.command_manager):
        command = point.load()(application, None, cmd_name=name)
        usage = command.get_parser(f"ironic {name}").format_usage()
        parts += [f"### ironic {name}\n", f"{command.get_description()}\n", "```", usage.rstrip(), "```\n"]
    return "\n".join(parts)


def _help(name: str) -> list[str]:
    parser = argparse.ArgumentParser(prog="holdfast")
    commands = parser.add_subparsers()
    importlib.import_module(f"holdfast.cli.{main.COMMANDS[name][0]}").add_parser(commands)
    own: argparse.ArgumentParser = commands.choices[name]
    lines = [own.format_help().rstrip()]
    for action in own._actions:
        if isinstance(action, argparse._SubParsersAction):
            lines += ["\n" + child.format_help().rstrip() for child in action.choices.values()]
    return lines


def write() -> int:
    HERE.mkdir(exist_ok=True)
    for name, content in pages().items():
        (HERE / name).write_text(content)
    return 0


if __name__ == "__main__":
    sys.exit(write())
