"""`holdfast openapi`: the OpenAPI document, without a running service."""

from __future__ import annotations

import argparse
import json
from typing import Any


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "openapi",
        help="print the OpenAPI document",
        description="Prints the OpenAPI 3.1 document of every API, as a running service gives it at /openapi.json.",
    )
    parser.set_defaults(run=run)


def run(_options: argparse.Namespace) -> int:
    from holdfast import app
    from holdfast.web import openapi

    print(json.dumps(openapi.document(app.APIS), indent=1, sort_keys=True))
    return 0
