"""Writes the generated pages of docs/reference/ from the tables the service runs on (`make docs`)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from holdfast import app
from holdfast.baremetal.flows import FLOWS
from holdfast.baremetal.policies import RULES
from holdfast.baremetal.versions import VERSIONS
from holdfast.cli import states
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


def main() -> int:
    HERE.mkdir(exist_ok=True)
    for name, content in pages().items():
        (HERE / name).write_text(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
