"""`holdfast baremetal …`: python-ironicclient's commands, at the service on this machine unless told otherwise."""

from __future__ import annotations

import argparse
from typing import Any

from holdfast.cli import connection


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "baremetal",
        help="the baremetal command line, at the service on this machine",
        description="The commands of `openstack baremetal`, with the trait filters of `node list`; "
        "at HOLDFAST_URL (default: this machine) unless OS_CLOUD, OS_ENDPOINT or --os-… say otherwise.",
        add_help=False,
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from ironicclient import shell

    from holdfast.cli import node_list

    node_list.install()
    arguments = list(options.arguments)
    if not connection.is_configured(arguments):
        arguments = ["--os-auth-type", "none", "--os-endpoint", connection.local_endpoint(), *arguments]
    return int(shell.main(arguments) or 0)
