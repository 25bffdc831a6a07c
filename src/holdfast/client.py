"""What other clients of a bare-metal service lack: lists of nodes filtered by trait, and the calls of a ramdisk.

    from holdfast.client import Client, list_nodes

    for node in list_nodes("http://127.0.0.1:6385/baremetal", traits=["CUSTOM_GPU"], provision_state="available"):
        print(node["uuid"], node["name"])

    ironic = Client("http://127.0.0.1:6385/baremetal")
    found = ironic.node.lookup(["52:54:00:12:34:56"])
    ironic.node.heartbeat(found["node"]["uuid"], "https://10.0.0.7:9999", found["config"]["agent_token"])

Everything else is done well by python-ironicclient, whose managers of volume connectors and targets are at hand here
(`VolumeConnectorManager`, `VolumeTargetManager`: `client.volume_connector` and `client.volume_target` of its client;
VIFs are `client.node.vif_attach` and the like), and by openstacksdk; give its `connection.baremetal` in place of the
URL, and the call goes out with its credentials.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

import requests

VERSION = "1.46"
VERSION_HEADER = "X-OpenStack-Ironic-API-Version"


class Client:
    """The calls of spec 004, for who writes a ramdisk or a test of one; they need no credentials."""

    def __init__(self, url: str, *, session: requests.Session | None = None, timeout: float = 60) -> None:
        self.node = RamdiskCalls(url, session, timeout)


class RamdiskCalls:
    """`Client.node`. Raises `requests.HTTPError` when the service refuses; 409 and 429 mean: try again."""

    def __init__(self, url: str, session: requests.Session | None, timeout: float) -> None:
        self._base = url.rstrip("/").removesuffix("/v1")
        self._ask: Any = session if session is not None else requests
        self._options: dict[str, Any] = {
            "headers": {VERSION_HEADER: "latest", "Accept": "application/json"},
            "timeout": timeout,
        }

    def lookup(self, addresses: Iterable[str], node_uuid: str | None = None) -> dict[str, Any]:
        """The node with one of these MAC addresses, or this UUID, which wins: `node`, and `config` with the
        agent's token if this is the first lookup of the machine's boot."""
        params = {"addresses": ",".join(addresses), "node_uuid": node_uuid}
        known = {name: value for name, value in params.items() if value}
        answer = self._ask.get(f"{self._base}/v1/lookup", params=known, **self._options)
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def heartbeat(
        self,
        node_uuid: str,
        callback_url: str,
        agent_token: str | None = None,
        agent_version: str | None = None,
        agent_verify_ca: str | None = None,
    ) -> None:
        """A sign of life of the node's ramdisk, and where it listens."""
        said = {
            "callback_url": callback_url,
            "agent_token": agent_token,
            "agent_version": agent_version,
            "agent_verify_ca": agent_verify_ca,
        }
        body = {name: value for name, value in said.items() if value is not None}
        answer = self._ask.post(f"{self._base}/v1/heartbeat/{node_uuid}", json=body, **self._options)
        answer.raise_for_status()


def list_nodes(
    service: Any,
    *,
    traits: Iterable[str] = (),
    traits_any: Iterable[str] = (),
    not_traits: Iterable[str] = (),
    not_traits_any: Iterable[str] = (),
    session: requests.Session | None = None,
    timeout: float = 60,
    **filters: Any,
) -> Iterator[dict[str, Any]]:
    """Every node that matches, page after page.

    `traits`: has all of them; `traits_any`: has at least one; `not_traits`: does not have all of them;
    `not_traits_any`: has none of them. `filters` are the list's other arguments as the API spells them:
    `provision_state="available"`, `fields=["uuid", "traits"]`, `sort_key="name"`, `limit=100` (the
    size of a page), `detail=True`.

    `service` is the URL of the API (with or without `/v1`), asked through `session` if one is given
    (for `auth`, say), or a keystoneauth adapter such as openstacksdk's `connection.baremetal`.
    Raises `requests.HTTPError`, or what the adapter raises, when the service refuses.
    """
    named = {"traits": traits, "traits-any": traits_any, "not-traits": not_traits, "not-traits-any": not_traits_any}
    arguments = {name: _text(value) for name, value in (named | filters).items() if value not in (None, (), [], "")}
    headers = {VERSION_HEADER: VERSION, "Accept": "application/json"}
    options: dict[str, Any] = {"params": arguments, "headers": headers, "timeout": timeout}
    if isinstance(service, str):
        base = service.rstrip("/").removesuffix("/v1")
        ask: Any = session if session is not None else requests
        target, prefix = f"{base}/v1/nodes", base
    else:
        ask, target, prefix = service, "/nodes", ""
    while True:
        answer = ask.get(target, **options)
        answer.raise_for_status()
        page = answer.json()
        yield from page["nodes"]
        if "next" not in page:
            return
        # The link has all arguments. Its host may be one that only the service's own network knows.
        options["params"] = None
        parts = urlsplit(page["next"])
        below = parts.path[parts.path.rindex("/v1/nodes") :]
        target = f"{prefix}{below if prefix else below.removeprefix('/v1')}?{parts.query}"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) or not isinstance(value, Iterable):
        return str(value)
    return ",".join(str(item) for item in value)


def __getattr__(name: str) -> Any:
    """The managers of python-ironicclient, imported only when somebody wants them."""
    homes = {
        "VolumeConnectorManager": "ironicclient.v1.volume_connector",
        "VolumeTargetManager": "ironicclient.v1.volume_target",
    }
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(homes[name]), name)
