"""kill -9 of a real server in the middle of an attach or detach, at each call of Neutron: after a restart
there is neither a bound port without a VIF nor a VIF without its port."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from holdfast.sim.neutron import NeutronSimulator, serving
from tests import service as services
from tests.baremetal.peers import SWITCH
from tests.crash.test_kill_matrix import doctor
from tests.service import Service

pytestmark = pytest.mark.crash

PURPOSES = ("cleaning", "provisioning")


@pytest.fixture
def neutron(tmp_path: Path) -> Iterator[tuple[NeutronSimulator, dict[str, str]]]:
    """A Neutron that outlives the servers that use it, and the settings that make them."""
    simulator = NeutronSimulator(tmp_path / "neutron.sqlite")
    with serving(simulator) as url:
        settings = {"neutron__auth_type": "none", "neutron__endpoint_override": url, "neutron__retries": "0"}
        settings |= {f"neutron__{purpose}_network": simulator.network(purpose) for purpose in PURPOSES}
        yield simulator, {**settings, "default__default_network_interface": "neutron"}


def enrolled(service: Service) -> str:
    node = str(service.send("POST", "/v1/nodes", {"driver": "fake-hardware"})["uuid"])
    link = {"switch_id": SWITCH, "port_id": "Ethernet1/1"}
    port = {"node_uuid": node, "address": "52:54:00:00:00:01", "local_link_connection": link}
    service.send("POST", "/v1/ports", port)
    return node


# what is asked for, which of its writes to Neutron the server is killed at, and whether Neutron made it
KILLS = [(verb, number, when) for verb in ("attach", "detach") for number in (1, 2) for when in ("before", "after")]


@pytest.mark.parametrize(("verb", "number", "when"), KILLS)
def test_a_server_killed_in_a_call_of_neutron_leaves_all_or_nothing(
    verb: str, number: int, when: str, tmp_path: Path, neutron: tuple[NeutronSimulator, dict[str, str]]
) -> None:
    simulator, settings = neutron
    vif = simulator.port(simulator.network("tenant"))
    state_dir = tmp_path / "state"
    with services.serving(state_dir, **settings) as service:
        node = enrolled(service)
        path = f"/v1/nodes/{node}/vifs"
        if verb == "detach":
            service.send("POST", path, {"id": vif})
        simulator.watch = killing(service, number, when)
        call: tuple[str, str, Any] = (
            ("POST", path, {"id": vif}) if verb == "attach" else ("DELETE", f"{path}/{vif}", None)
        )
        with pytest.raises(requests.ConnectionError):
            service.request(call[0], f"/baremetal{call[1]}", call[2])
    simulator.watch = lambda moment: None
    with services.serving(state_dir, **settings) as service:
        service.settle(node)
        listed = [found["id"] for found in service.send("GET", path)["vifs"]]
        port = simulator.show(vif)
        if verb == "attach":
            assert (listed, port["binding:host_id"], port["mac_address"]) == ([vif], node, "52:54:00:00:00:01")
        else:
            assert (listed, port["binding:host_id"]) == ([], "")
            assert port["mac_address"] != "52:54:00:00:00:01"
        assert not service.request("GET", "/flows?state=stuck").json()["flows"]
    assert doctor(state_dir, **settings) == "All promises hold."


def killing(service: Service, number: int, when: str) -> Callable[[str], None]:
    """Kills the server when its write of that number to Neutron arrives, or has had its effect."""
    seen = 0
    guard = threading.Lock()

    def watch(moment: str) -> None:
        nonlocal seen
        if moment.startswith(f"{when} PUT"):
            with guard:
                seen += 1
                if seen == number:
                    service.kill()

    return watch
