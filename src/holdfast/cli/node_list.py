"""`openstack baremetal node list` with the trait filters of the spec.

    --trait A B          has all of these traits
    --trait-any A B      has at least one of them
    --not-trait A B      does not have all of them
    --not-trait-any A B  has none of them
    --explain            tells how many nodes each of them leaves

A subclass of python-ironicclient's command that takes its place under the same name. Two plugins that
declare one command name get it in an order nobody controls, with a warning; therefore the class itself
is replaced where upstream's entry point finds it, when openstackclient loads this plugin
(`openstack.cli.extension`) and when `holdfast baremetal` starts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from ironicclient.osc.v1 import baremetal_node
from rich.console import Console
from rich.table import Table

from holdfast.cli.connection import narrowed

# openstackclient asks every plugin for these; we bring no API of our own.
API_NAME = "holdfast"
API_VERSION_OPTION = "os_holdfast_api_version"
DEFAULT_API_VERSION = "1"

# option: (query argument, what it means)
FILTERS = {
    "--trait": ("traits", "has all of these traits"),
    "--trait-any": ("traits-any", "has at least one of these traits"),
    "--not-trait": ("not-traits", "does not have all of these traits"),
    "--not-trait-any": ("not-traits-any", "has none of these traits"),
}
TRAITS_SINCE = "1.37"

_upstream = baremetal_node.ListBaremetalNode


class ListBaremetalNode(_upstream):
    """List baremetal nodes"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        for option, (_argument, meaning) in FILTERS.items():
            parser.add_argument(
                option,
                metavar="<trait>",
                nargs="+",
                action="extend",
                default=[],
                help=f"Limit list to nodes that {_limits(meaning)}",
            )
        parser.add_argument(
            "--explain", action="store_true", help="Tell on standard error how many nodes each trait alone leaves"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        asked = {
            argument: getattr(parsed_args, option.strip("-").replace("-", "_"))
            for option, (argument, _meaning) in FILTERS.items()
        }
        client = self.app.client_manager.baremetal
        if parsed_args.explain:
            _explain(client, {name: values for name, values in asked.items() if values})
        every = client.node
        client.node = narrowed(every, asked)
        try:
            columns, rows = super().take_action(parsed_args)
            return columns, list(rows)
        finally:
            client.node = every


def _limits(meaning: str) -> str:
    return meaning.replace("has ", "have ", 1).replace("does not have", "do not have", 1)


def _explain(client: Any, asked: dict[str, list[str]]) -> None:
    query = {name: ",".join(values) for name, values in asked.items()}
    _answer, document = client.http_client.json_request(
        "GET", "/v1/nodes", params={**query, "explain": "true", "limit": "1"}
    )
    left = document.get("explain")
    console = Console(file=sys.stderr)
    if left is None:
        console.print("This service does not explain its lists.")
        return
    table = Table(title=f"{left['nodes']} nodes before any trait is asked for", title_justify="left")
    for heading in ("option", "trait", "alone leaves"):
        table.add_column(heading)
    for option, (argument, _meaning) in FILTERS.items():
        for trait, count in left.get(argument, {}).items():
            table.add_row(option, trait, str(count))
    console.print(table)


def install() -> None:
    """Puts the command in upstream's place. Doing it twice is the same as once."""
    baremetal_node.ListBaremetalNode = ListBaremetalNode  # type: ignore[misc]


def build_option_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Called by openstackclient for every plugin before it looks for a command."""
    install()
    return parser
