"""The whole way: an unmodified client, a running service, a real Neutron and a real Keystone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import requests

from holdfast.sim.neutron import NeutronSimulator
from holdfast.sim.neutron import serving as simulating
from tests.baremetal.peers import SWITCH, attach, machine, on_neutron
from tests.keystone import Keystone, keystone
from tests.neutron import Neutron, neutron
from tests.service import Service, serving

__all__ = ["keystone", "neutron"]  # fixtures

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("neutron"), pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def service(neutron: Neutron, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    settings = {f"neutron__{purpose}_network": neutron.network(purpose) for purpose in ("cleaning", "provisioning")}
    with serving(
        tmp_path_factory.mktemp("service"),
        neutron__auth_type="none",
        neutron__endpoint_override=neutron.url,
        default__default_network_interface="neutron",
        **settings,
    ) as running:
        yield running


@pytest.fixture
def node(service: Service) -> str:
    uuid = str(service.send("POST", "/v1/nodes", {"driver": "fake-hardware"})["uuid"])
    link = {"switch_id": SWITCH, "port_id": f"Ethernet2/{uuid[:4]}"}
    address = "52:54:" + ":".join(uuid[i : i + 2] for i in (0, 2, 4, 6))
    service.send("POST", "/v1/ports", {"node_uuid": uuid, "address": address, "local_link_connection": link})
    return uuid


def test_the_baremetal_command_attaches_lists_and_detaches(service: Service, neutron: Neutron, node: str) -> None:
    def baremetal(*arguments: str) -> str:
        command = [str(Path(sys.executable).parent / "baremetal"), "--os-endpoint", service.baremetal]
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    vif = neutron.port(neutron.network("tenant"))
    baremetal("node", "vif", "attach", node, vif)
    assert json.loads(baremetal("node", "vif", "list", node, "-f", "json")) == [{"id": vif}]
    assert neutron.show(vif)["binding:host_id"] == node
    baremetal("node", "vif", "detach", node, vif)
    assert json.loads(baremetal("node", "vif", "list", node, "-f", "json")) == []
    assert neutron.show(vif)["binding:host_id"] == ""


def test_openstacksdk_is_told_what_nova_goes_by(service: Service, neutron: Neutron, node: str) -> None:
    from openstack import connection, exceptions

    client: Any = connection.Connection(auth_type="none", baremetal_endpoint_override=service.baremetal).baremetal
    network = neutron.network("tenant")
    vif, other = neutron.port(network), neutron.port(network)
    client.attach_vif_to_node(node, vif, retry_on_conflict=False)
    assert client.list_node_vifs(node) == [vif]
    with pytest.raises(exceptions.ConflictException):  # Nova: it is attached already, go on
        client.attach_vif_to_node(node, vif, retry_on_conflict=False)
    with pytest.raises(exceptions.BadRequestException):  # Nova: VirtualInterfacePlugException
        client.attach_vif_to_node(node, other, retry_on_conflict=False)
    with pytest.raises(exceptions.BadRequestException):
        client.attach_vif_to_node(node, str(uuid4()), retry_on_conflict=False)
    assert client.detach_vif_from_node(node, vif) is True
    assert client.detach_vif_from_node(node, vif) is False  # Nova: it was not attached, go on


def test_two_processes_share_the_ports_of_a_node_fairly(postgres_url: str, tmp_path: Path) -> None:
    simulator = NeutronSimulator(tmp_path / "neutron.sqlite")
    with simulating(simulator) as url:
        settings = {
            f"neutron__{purpose}_network": simulator.network(purpose) for purpose in ("cleaning", "provisioning")
        }
        with serving(
            tmp_path / "state",
            database=postgres_url,
            workers=2,
            neutron__auth_type="none",
            neutron__endpoint_override=url,
            default__default_network_interface="neutron",
            **settings,
        ) as service:
            (node,) = service.enrol()
            for number in range(4):
                link = {"switch_id": SWITCH, "port_id": str(number)}
                port = {"node_uuid": node, "address": f"52:54:00:aa:00:0{number}", "local_link_connection": link}
                service.send("POST", "/v1/ports", port)
            vifs = simulator.many(simulator.network("tenant"), 40)

            def attached(vif: str) -> int:
                version = {"X-OpenStack-Ironic-API-Version": "1.34"}
                path = f"{service.baremetal}/v1/nodes/{node}/vifs"
                return requests.post(path, json={"id": vif}, headers=version, timeout=120).status_code

            with ThreadPoolExecutor(40) as pool:
                answers = list(pool.map(attached, vifs))
            assert sorted(answers) == [204] * 4 + [400] * 36
            assert len(simulator.bound()) == 4


def test_neutron_is_found_and_entered_through_keystone(keystone: Keystone, tmp_path: Path) -> None:
    simulator = NeutronSimulator(tmp_path / "neutron.sqlite")
    with simulating(simulator) as url:
        keystone.register("network", url)
        account = {
            "neutron__auth_type": "password",
            "neutron__endpoint_override": None,
            "neutron__auth_url": keystone.url,
            "neutron__username": "holdfast",
            "neutron__project_name": "service",
        }
        peer: Any = type("Peer", (), {"url": url, "network": simulator.network})()
        with on_neutron(peer, tmp_path / "in", **account, neutron__password=keystone.passwords["holdfast"]) as api:
            node, vif = machine(api), simulator.port(simulator.network("tenant"))
            attach(api, node, vif)
            assert simulator.show(vif)["binding:host_id"] == node
        with on_neutron(peer, tmp_path / "out", **account, neutron__password="canary-wrong-password") as api:
            node = machine(api)
            answer = api.request("POST", f"/v1/nodes/{node}/vifs", {"id": vif})
            assert answer.status == 503
            assert "does not let Holdfast in" in answer.text
            assert "canary" not in answer.content.decode()
