"""Talking to a running service from our own commands."""

from __future__ import annotations

import argparse
import os
from typing import Any

import requests

from holdfast import errors
from holdfast.cli.connection import LOCAL

TIMEOUT = 60


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--url",
        default=os.environ.get("HOLDFAST_URL", LOCAL),
        help=f"where the service is (default: HOLDFAST_URL, or {LOCAL})",
    )
    parser.add_argument(
        "-f", "--format", choices=("table", "json"), default="table", help="how to print (default: table)"
    )


def call(options: argparse.Namespace, method: str, path: str, **request: Any) -> Any:
    """The document of a successful answer; what the service says is wrong, otherwise."""
    session = requests.Session()
    if token := os.environ.get("OS_TOKEN"):
        session.headers["X-Auth-Token"] = token
    elif user := os.environ.get("OS_USERNAME"):
        session.auth = (user, os.environ.get("OS_PASSWORD", ""))
    with session:
        try:
            answer = session.request(method, options.url.rstrip("/") + path, timeout=TIMEOUT, **request)
        except requests.ConnectionError:
            raise errors.Unavailable(f"Nothing answers at {options.url}. Give the address with --url.") from None
    try:
        document = answer.json()
    except ValueError:
        raise errors.Unavailable(f"What answers at {options.url} is not Holdfast.") from None
    if not answer.ok:
        failure = document.get("error") if isinstance(document, dict) else None
        message = failure.get("message") if isinstance(failure, dict) else None
        raise errors.HoldfastError(message or f"The service answered {answer.status_code}.")
    return document
