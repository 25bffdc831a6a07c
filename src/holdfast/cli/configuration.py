"""`holdfast config`: print a sample configuration, or check one."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from holdfast import config
from holdfast.cli import options as shared


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("config", help="print a sample configuration, or check one")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    sample_parser = actions.add_parser("sample", help="print every option with its help and default")
    sample_parser.set_defaults(run=sample)
    check_parser = actions.add_parser("check", help="read the configuration and tell what is wrong with it")
    shared.add_configuration(check_parser)
    check_parser.set_defaults(run=check)


def sample(_options: argparse.Namespace) -> int:
    for section, entries in config.OPTIONS.items():
        print(f"[{section}]")
        for option in entries:
            variable = f"{config.ENVIRONMENT_PREFIX}{section.upper()}__{option.dest.upper()}"
            default = "" if option.default is None else _plain(option.default)
            print(f"\n# {option.help}\n# Environment: {variable}\n#{option.dest} = {default}")
        print()
    return 0


def check(options: argparse.Namespace) -> int:
    shared.load(options)
    unknown = config.unknown_keys(options.config_file)
    for key in unknown:
        print(f"Nobody reads {key}: is it misspelt?", file=sys.stderr)
    if not unknown:
        print("The configuration is fine.")
    return 1 if unknown else 0


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(str(item) for item in value)
    return str(value).lower() if isinstance(value, bool) else str(value)
