"""Whether a node can boot from its volumes: capabilities, connectors and interfaces, at validate and deploy."""

from __future__ import annotations

from typing import Any

import pytest

from tests.application import Application
from tests.enrolment import enrol
from tests.volumes import INITIATOR, PROPERTIES, ask, bootable, give, mac

ISCSI = {"capabilities": "iscsi_boot:true"}
FC = {"capabilities": "fibre_channel_boot:true"}


def node(api: Application, *connectors: str, **fields: Any) -> str:
    """A node with ports, and a connector of each type."""
    names = {"iqn": INITIATOR.format("x"), "wwpn": "1000000000000001", "wwnn": "2000000000000001", "ip": "10.0.0.9"}
    (uuid,) = enrol(api.send, 1, state="available", **{"boot_interface": "ipxe", **fields})
    api.send("POST", "/v1/ports", {"node_uuid": uuid, "address": mac(9)})
    for kind in connectors:
        api.send("POST", "/v1/volume/connectors", {"node_uuid": uuid, "type": kind, "connector_id": names[kind]})
    return uuid


def target(api: Application, uuid: str, volume_type: str = "iscsi", boot_index: int = 0, **properties: Any) -> None:
    body = {"node_uuid": uuid, "volume_type": volume_type, "volume_id": "vol-1", "boot_index": boot_index}
    api.send("POST", "/v1/volume/targets", {**body, "properties": properties or PROPERTIES})


def storage(api: Application, uuid: str) -> str | None:
    """What validate has against the storage interface; None if nothing."""
    result = api.send("GET", f"/v1/nodes/{uuid}/validate")["storage"]
    return None if result["result"] else str(result["reason"])


@pytest.mark.parametrize("name", ["external", "cinder"])
class TestBoth:
    def test_a_node_that_can_boot_is_valid(self, shared_api: Application, name: str) -> None:
        uuid = node(shared_api, "iqn", storage_interface=name, properties=ISCSI)
        target(shared_api, uuid)
        assert storage(shared_api, uuid) is None

    @pytest.mark.parametrize("capabilities", ["", "iscsi_boot:false", "iscsi_boot:maybe", "fibre_channel_boot:true"])
    def test_without_the_capability_it_cannot(self, shared_api: Application, name: str, capabilities: str) -> None:
        connectors = ("iqn", "wwpn", "wwnn")
        uuid = node(shared_api, *connectors, storage_interface=name, properties={"capabilities": capabilities})
        target(shared_api, uuid)
        assert "iscsi_boot:true" in str(storage(shared_api, uuid))
        answer = shared_api.request("PUT", f"/v1/nodes/{uuid}/states/provision", {"target": "active"})
        assert answer.status == 400
        assert "iscsi_boot:true" in answer.text

    def test_without_an_initiator_it_cannot(self, shared_api: Application, name: str) -> None:
        uuid = node(shared_api, storage_interface=name, properties=ISCSI)
        target(shared_api, uuid)
        assert "no volume connector of type iqn" in str(storage(shared_api, uuid))

    def test_another_boot_interface_cannot(self, shared_api: Application, name: str) -> None:
        uuid = node(shared_api, "iqn", storage_interface=name, properties=ISCSI, boot_interface="noop")
        target(shared_api, uuid)
        assert "'noop'" in str(storage(shared_api, uuid))

    def test_an_unknown_kind_of_volume_is_refused(self, shared_api: Application, name: str) -> None:
        uuid = node(shared_api, "iqn", storage_interface=name, properties=ISCSI)
        target(shared_api, uuid, "rbd")
        assert "'rbd'" in str(storage(shared_api, uuid))

    def test_fibre_channel_boots_with_both_names(self, shared_api: Application, name: str) -> None:
        uuid = node(shared_api, "wwpn", "wwnn", storage_interface=name, properties=FC)
        target(shared_api, uuid, "fibre_channel")
        assert storage(shared_api, uuid) is None

    def test_fibre_channel_needs_its_own_capability(self, shared_api: Application, name: str) -> None:
        uuid = node(shared_api, "iqn", storage_interface=name, properties=ISCSI)
        target(shared_api, uuid, "fibre_channel")
        assert "fibre_channel_boot:true" in str(storage(shared_api, uuid))

    @pytest.fixture(autouse=True)
    def _alone(self, shared_api: Application) -> Any:
        """Connectors and addresses are unique: each test takes its own away."""
        yield
        for kind in ("volume/connectors", "ports"):
            for thing in shared_api.send("GET", f"/v1/{kind}")[kind.rpartition("/")[2]]:
                shared_api.send("DELETE", f"/v1/{kind}/{thing['uuid']}")


class TestCinder:
    def test_fibre_channel_names_come_in_pairs(self, api: Application) -> None:
        uuid = node(api, "wwpn", storage_interface="cinder")
        assert "1 wwpn and 0 wwnn" in str(storage(api, uuid))

    def test_a_capability_without_connectors_is_a_mistake(self, api: Application) -> None:
        uuid = node(api, storage_interface="cinder", properties=ISCSI)
        assert "capability iscsi_boot needs" in str(storage(api, uuid))


class TestDeploy:
    def test_nothing_is_written_and_the_machine_boots_from_the_network(self, api: Application) -> None:
        uuid = bootable(api.send, "external")
        give(api.send, uuid, "vol-1", **PROPERTIES)
        ask(api.send, uuid, "active")
        shown = api.settle(uuid, "active")
        power = api.services.drivers.interface("fake-hardware", "power", "fake")
        machine = power.machines.get(uuid)  # type: ignore[attr-defined]
        assert not machine.disk
        assert machine.boot_device == "pxe"
        assert machine.power_state == shown["power_state"] == "power on"

    def test_a_fibre_channel_node_boots_from_what_its_card_presents(self, api: Application) -> None:
        uuid = node(api, "wwpn", "wwnn", storage_interface="external", properties=FC)
        target(api, uuid, "fibre_channel", target_wwn=["5000000000000001"], target_lun=1)
        ask(api.send, uuid, "active")
        api.settle(uuid, "active")
        device = api.send("GET", f"/v1/nodes/{uuid}/management/boot_device")
        assert device == {"boot_device": "disk", "persistent": True}

    def test_with_an_image_the_disk_is_written(self, api: Application) -> None:
        uuid = bootable(api.send, "external", instance_info={"image_source": "http://images/x"})
        give(api.send, uuid, "vol-1", **PROPERTIES)
        ask(api.send, uuid, "active")
        api.settle(uuid, "active")
        power = api.services.drivers.interface("fake-hardware", "power", "fake")
        machine = power.machines.get(uuid)  # type: ignore[attr-defined]
        assert machine.disk
        assert machine.boot_device == "disk"

    def test_without_a_port_it_cannot_boot(self, api: Application) -> None:
        (uuid,) = enrol(api.send, 1, state="available", boot_interface="ipxe")
        answer = api.request("PUT", f"/v1/nodes/{uuid}/states/provision", {"target": "active"})
        assert answer.status == 400
        assert "no port with pxe_enabled" in answer.text
