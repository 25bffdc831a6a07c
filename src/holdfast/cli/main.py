"""The `holdfast` command."""

from __future__ import annotations

import argparse
import gc
import importlib
import sys
from collections.abc import Sequence

from holdfast import __version__, errors

# command: the module that declares and runs it. Modules are imported only for the command in use.
COMMANDS = {
    "serve": ("serve", "run the service"),
    "db": ("database", "prepare or look at the database"),
    "config": ("configuration", "print a sample configuration, or check one"),
    "demo": ("demo", "enrol a fleet of simulated machines"),
    "status": ("status", "the installation on one screen"),
    "baremetal": ("baremetal", "the baremetal command line, at the service on this machine"),
    "volume": ("volume", "export volumes to nodes, without Nova"),
    "dhcp": ("dhcp", "print a DHCP configuration for machines that boot over the network"),
    "flow": ("flow", "look at flows, and repair them"),
    "doctor": ("doctor", "check that nothing is lost"),
    "passwd": ("passwd", "add a user for http_basic authentication"),
    "states": ("states", "draw the provision state machine"),
    "completion": ("completion", "print what makes bash complete these commands"),
    "openapi": ("openapi", "print the OpenAPI document"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(
        prog="holdfast", description="Attaches volumes, networks and agents to machines, and never loses one."
    )
    parser.add_argument("--version", action="version", version=f"holdfast {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    wanted = given[0] if given else None
    gc.disable()  # a tenth of the time that importing takes would go into collections that find nothing
    for name, (module, about) in COMMANDS.items():
        if name == wanted:
            importlib.import_module(f"holdfast.cli.{module}").add_parser(commands)
        else:
            commands.add_parser(name, help=about)
    gc.enable()
    options = parser.parse_args(given)
    try:
        return int(options.run(options) or 0)
    except KeyboardInterrupt:
        return 130
    except errors.HoldfastError as error:
        print(f"holdfast {options.command}: {error.public}", file=sys.stderr)
        return 1
