"""Talking to a running service from our own commands."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any
from urllib.parse import urlencode

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
        document = answer.json() if answer.content else None
    except ValueError:
        raise errors.Unavailable(f"What answers at {options.url} is not Holdfast.") from None
    if not answer.ok:
        raise errors.HoldfastError(_message(document) or f"The service answered {answer.status_code}.")
    return document


def baremetal(options: argparse.Namespace, method: str, path: str, body: Any = None) -> Any:
    """The same for the bare-metal API, at its newest version; the path is below /v1."""
    headers = {"X-OpenStack-Ironic-API-Version": "latest"}
    return call(options, method, f"/baremetal/v1/{path}", json=body, headers=headers)


def listed(options: argparse.Namespace, collection: str, **arguments: str) -> list[dict[str, Any]]:
    """A whole collection of the bare-metal API, however many pages it has."""
    key, found = collection.rpartition("/")[2], []
    while True:
        page = baremetal(options, "GET", f"{collection}?{urlencode(arguments)}")
        found += page[key]
        if "next" not in page:
            return found
        arguments["marker"] = page[key][-1]["uuid"]


def _message(document: Any) -> str | None:
    """What an error says: in our own form, or in Ironic's, which is a document inside a string."""
    if not isinstance(document, dict):
        return None
    if isinstance(document.get("error"), dict):
        return str(document["error"].get("message") or "") or None
    try:
        inner = json.loads(document.get("error_message") or "null")
        return str(inner.get("faultstring") or inner["description"])
    except (ValueError, AttributeError, KeyError, TypeError):
        return None
