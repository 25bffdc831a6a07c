"""Options that several commands share, and the configuration they lead to."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from oslo_config import cfg

from holdfast import config


def add_configuration(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config-file",
        action="append",
        default=[],
        metavar="FILE",
        help=f"configuration to read, may be given several times (default: {config.DEFAULT_FILE} if present)",
    )
    parser.add_argument("--state-dir", metavar="DIR", help="where the embedded database lives (default: ./state)")


def load(options: argparse.Namespace, **overrides: Any) -> cfg.ConfigOpts:
    """The configuration a command runs with; a mistake in it ends the command with one clear line."""
    wanted = {("DEFAULT", "state_dir"): options.state_dir}
    wanted |= {("api", name): value for name, value in overrides.items()}
    try:
        return config.load(options.config_file, overrides=wanted)
    except (cfg.Error, ValueError) as error:
        print(f"holdfast: the configuration is wrong: {error}", file=sys.stderr)
        raise SystemExit(2) from None
