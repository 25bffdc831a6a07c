"""Nodes on a Neutron, real or simulated, for the tests of the network interfaces."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from tests.application import Application, running
from tests.baremetal.wiring import add_port

SWITCH = "0a:00:00:00:00:01"  # the one on physnet1, in both peers
PURPOSES = ("cleaning", "provisioning", "inspection", "rescuing")

_numbers = itertools.count(1)


class Peer(Protocol):
    """What tests ask of either Neutron."""

    url: str

    def network(self, name: str, *, physical_network: str = ...) -> str: ...
    def port(self, network: str, **more: Any) -> str: ...
    def many(self, network: str, count: int) -> list[str]: ...
    def show(self, port: str) -> dict[str, Any]: ...
    def ports(self, **filters: str) -> list[dict[str, Any]]: ...
    def bound(self) -> dict[str, str]: ...


@contextmanager
def on_neutron(peer: Peer, state_dir: Path, **settings: Any) -> Iterator[Application]:
    """An application whose nodes use that Neutron, with a network for each purpose."""
    networks = {f"neutron__{purpose}_network": peer.network(f"{purpose}-{next(_numbers)}") for purpose in PURPOSES}
    given = {
        "neutron__auth_type": "none",
        "neutron__endpoint_override": peer.url,
        "neutron__retries": 0,
        "default_network_interface": "neutron",
        **networks,
        **settings,
    }
    with running(state_dir, **given) as application:
        yield application


def wired(api: Application, node: str, **fields: Any) -> dict[str, Any]:
    """A port of the node, wired to a switch port of its own."""
    link = {"switch_id": SWITCH, "port_id": f"Ethernet1/{next(_numbers)}", "switch_info": "leaf"}
    return add_port(api, node, local_link_connection=link, **fields)


def machine(api: Application, ports: int = 1, *, state: str = "enroll", **fields: Any) -> str:
    """A node with that many wired ports, brought to a state. To be `active`, it needs a VIF: see `deploy`."""
    (node,) = api.enrol(1, **fields)
    for _ in range(ports):
        wired(api, node)
    for verb in {"enroll": (), "manageable": ("manage",), "available": ("manage", "provide")}[state]:
        ask(api, node, verb)
    return node


def ask(api: Application, node: str, verb: str, **more: Any) -> dict[str, Any]:
    api.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": verb, **more})
    return api.settle(node)


def attach(api: Application, node: str, vif: str, **more: Any) -> None:
    api.send("POST", f"/v1/nodes/{node}/vifs", {"id": vif, **more})


def detach(api: Application, node: str, vif: str) -> None:
    api.send("DELETE", f"/v1/nodes/{node}/vifs/{vif}")


def listed(api: Application, node: str) -> list[str]:
    return [vif["id"] for vif in api.send("GET", f"/v1/nodes/{node}/vifs")["vifs"]]


def links(port: dict[str, Any]) -> list[str]:
    """The switch ports that Neutron was told a port of its is wired to."""
    return [link["port_id"] for link in port["binding:profile"].get("local_link_information", [])]


def ours(peer: Peer, node: str) -> list[str]:
    """The names of Holdfast's own ports in Neutron for that node, without the port they are for."""
    return sorted(port["name"].rpartition(" ")[0] for port in peer.ports(device_id=node))
