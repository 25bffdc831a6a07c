"""openstacksdk, unmodified, with the clouds.yaml the service wrote: machines, their ports, and what is done to them.

Traits and volumes have their own module, `test_sdk.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import openstack
import pytest
from openstack import exceptions

from holdfast.baremetal.versions import MAXIMUM
from tests.service import Service
from tests.web.targets import mac

# The client's deprecations are its own.
pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def baremetal(service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(service.clouds))
    monkeypatch.chdir(tmp_path)
    # A conflict is told at once: the SDK would try five times.
    with openstack.connect(cloud="holdfast", baremetal_status_code_retries=0) as connection:
        yield connection.baremetal


@pytest.fixture
def node(baremetal: Any) -> Any:
    return baremetal.create_node(driver="fake-hardware", name=f"sdk-{uuid4()}", provision_state="enroll")


def test_the_highest_common_version_is_spoken(baremetal: Any) -> None:
    """The client knows versions the service does not have yet; discovery tells it."""
    endpoint = baremetal.get_endpoint_data()
    assert (endpoint.min_microversion, endpoint.max_microversion) == ((1, 1), tuple(MAXIMUM))
    assert baremetal.get("/nodes", microversion="1.5").headers["X-OpenStack-Ironic-API-Version"] == "1.5"


def test_nodes_are_created_shown_listed_changed_and_deleted(baremetal: Any) -> None:
    name = f"sdk-{uuid4()}"
    node = baremetal.create_node(
        driver="fake-hardware",
        name=name,
        properties={"cpus": 8},
        extra={"rack": 7},
        resource_class="small",
        provision_state="manageable",
    )
    assert (node.name, node.provision_state, node.properties) == (name, "manageable", {"cpus": 8})
    assert baremetal.get_node(name).id == node.id
    assert baremetal.get_node(node.id, fields=["name", "extra"]).extra == {"rack": 7}
    assert baremetal.find_node(name).id == node.id
    assert baremetal.find_node("nobody") is None
    changed = baremetal.update_node(node, extra={"rack": 8}, resource_class="large")
    assert (changed.extra, changed.resource_class) == ({"rack": 8}, "large")
    patched = baremetal.patch_node(node, [{"op": "add", "path": "/extra/shelf", "value": 3}])
    assert patched.extra == {"rack": 8, "shelf": 3}
    baremetal.delete_node(node)
    with pytest.raises(exceptions.NotFoundException):
        baremetal.get_node(node.id)
    with pytest.raises(exceptions.NotFoundException):
        baremetal.delete_node(node, ignore_missing=False)


def test_lists_are_walked_to_their_end(baremetal: Any) -> None:
    made = {baremetal.create_node(driver="fake-hardware", resource_class="walked").id for _ in range(5)}
    assert {found.id for found in baremetal.nodes(resource_class="walked", limit=2)} == made
    detailed = list(baremetal.nodes(details=True, resource_class="walked", limit=3))
    assert {found.driver for found in detailed} == {"fake-hardware"}
    assert len(detailed) == 5
    assert list(baremetal.nodes(resource_class="walked", provision_state="active")) == []
    chosen = list(baremetal.nodes(fields=["uuid", "resource_class"], resource_class="walked"))
    assert {found.resource_class for found in chosen} == {"walked"}
    assert list(baremetal.nodes(is_maintenance=True, resource_class="walked")) == []


def test_a_machine_is_brought_into_service_and_out_again(baremetal: Any, node: Any) -> None:
    baremetal.set_node_provision_state(node, "manage", wait=True, timeout=60)
    baremetal.set_node_provision_state(node, "inspect", wait=True, timeout=60)
    steps = [{"interface": "deploy", "step": "erase_devices"}]
    baremetal.set_node_provision_state(node, "clean", clean_steps=steps, wait=True, timeout=60)
    node = baremetal.set_node_provision_state(node, "provide", wait=True, timeout=60)
    assert (node.provision_state, node.target_provision_state) == ("available", None)
    baremetal.set_node_provision_state(node, "active")
    (node,) = baremetal.wait_for_nodes_provision_state([node], "active", timeout=60)
    assert (node.provision_state, node.power_state) == ("active", "power on")
    node = baremetal.set_node_provision_state(node, "rescue", rescue_password="hunter2", wait=True, timeout=60)
    assert node.provision_state == "rescue"
    baremetal.set_node_provision_state(node, "unrescue")
    baremetal.wait_for_nodes_provision_state([node], "active", timeout=60)
    baremetal.set_node_provision_state(node, "deleted")
    (node,) = baremetal.wait_for_nodes_provision_state([node], "available", timeout=60)
    assert node.instance_id is None


def test_waiting_for_a_machine_that_fails_ends_with_the_reason(baremetal: Any, node: Any) -> None:
    baremetal.update_node(node, driver_info={"fake_fail": ["deploy.erase_devices"]})
    baremetal.set_node_provision_state(node, "manage", wait=True, timeout=60)
    with pytest.raises(exceptions.ResourceFailure, match="clean failed"):
        baremetal.set_node_provision_state(node, "provide", wait=True, timeout=60)


def test_a_verb_that_is_not_possible_is_a_bad_request(baremetal: Any, node: Any) -> None:
    with pytest.raises(exceptions.BadRequestException, match="can not be performed"):
        baremetal.set_node_provision_state(node, "rebuild")


@pytest.mark.parametrize(
    ("target", "after"),
    [
        ("power on", "power on"),
        ("soft power off", "power off"),
        ("rebooting", "power on"),
        ("soft rebooting", "power on"),
        ("power off", "power off"),
    ],
)
def test_power(baremetal: Any, node: Any, target: str, after: str) -> None:
    baremetal.set_node_power_state(node, target, wait=True, timeout=60)
    assert baremetal.get_node(node).power_state == after


def test_maintenance(baremetal: Any, node: Any) -> None:
    baremetal.set_node_maintenance(node, reason="new fan")
    shown = baremetal.get_node(node)
    assert (shown.is_maintenance, shown.maintenance_reason) == (True, "new fan")
    baremetal.unset_node_maintenance(node)
    assert baremetal.get_node(node).is_maintenance is False
    # As an attribute, too: the SDK turns that into the call above.
    assert baremetal.update_node(node, is_maintenance=True).is_maintenance is True


def test_validation(baremetal: Any, node: Any) -> None:
    assert baremetal.validate_node(node)["power"].result is True
    baremetal.update_node(node, driver_info={"fake_fail": ["power.validate"]})
    with pytest.raises(exceptions.ValidationException, match="power"):
        baremetal.validate_node(node, required=["power"])


def test_boot_device_console_and_nmi(baremetal: Any, node: Any) -> None:
    baremetal.set_node_boot_device(node, "pxe", persistent=True)
    assert baremetal.get_node_boot_device(node) == {"boot_device": "pxe", "persistent": True}
    assert "disk" in baremetal.get_node_supported_boot_devices(node)["supported_boot_devices"]
    baremetal.enable_node_console(node)
    assert baremetal.get_node_console(node)["console_enabled"] is True
    baremetal.disable_node_console(node)
    assert baremetal.get_node_console(node)["console_enabled"] is False
    baremetal.inject_nmi_to_node(node)


def test_vendor_methods(baremetal: Any, node: Any) -> None:
    assert "echo" in baremetal.list_node_vendor_passthru(node)
    answer = baremetal.call_node_vendor_passthru(node, verb="POST", method="echo", body={"colour": "blue"})
    assert answer.json() == {"colour": "blue"}


def test_ports(baremetal: Any, node: Any) -> None:
    address = mac()
    port = baremetal.create_port(address=address, node_id=node.id, extra={"a": 1})
    assert (port.address, port.node_id, port.is_pxe_enabled) == (address, node.id, True)
    assert [found.id for found in baremetal.ports(node=node.id)] == [port.id]
    assert [found.extra for found in baremetal.ports(details=True, address=address)] == [{"a": 1}]
    assert baremetal.get_port(port.id).address == address
    assert baremetal.update_port(port, is_pxe_enabled=False).is_pxe_enabled is False
    patched = baremetal.patch_port(port, [{"op": "add", "path": "/extra/b", "value": 2}])
    assert patched.extra == {"a": 1, "b": 2}
    with pytest.raises(exceptions.ConflictException):
        baremetal.create_port(address=address, node_id=node.id)
    baremetal.delete_port(port)
    assert baremetal.find_port(port.id) is None


def test_port_groups(baremetal: Any, node: Any) -> None:
    group = baremetal.create_port_group(node_id=node.id, name=f"bond-{uuid4()}", mode="802.3ad")
    assert (group.mode, group.is_standalone_ports_supported) == ("802.3ad", True)
    port = baremetal.create_port(address=mac(), node_id=node.id, port_group_id=group.id)
    assert port.port_group_id == group.id
    assert [found.id for found in baremetal.port_groups(details=True, node=node.id)] == [group.id]
    assert [found.id for found in baremetal.ports(portgroup=group.id)] == [port.id]
    assert baremetal.update_port_group(group, extra={"a": 1}).extra == {"a": 1}
    assert baremetal.get_port_group(group.name).id == group.id
    baremetal.delete_port(port)
    baremetal.delete_port_group(group)
    assert baremetal.find_port_group(group.id) is None


def test_vifs(baremetal: Any, node: Any) -> None:
    baremetal.create_port(address=mac(), node_id=node.id)
    vif = str(uuid4())
    baremetal.attach_vif_to_node(node, vif)
    assert baremetal.list_node_vifs(node) == [vif]
    assert baremetal.detach_vif_from_node(node, vif) is True
    assert baremetal.list_node_vifs(node) == []
    assert baremetal.detach_vif_from_node(node, vif, ignore_missing=True) is False


def test_chassis(baremetal: Any) -> None:
    chassis = baremetal.create_chassis(description="rack", extra={"a": 1})
    assert chassis.id in {found.id for found in baremetal.chassis(details=True)}
    node = baremetal.create_node(driver="fake-hardware", chassis_id=chassis.id)
    assert [found.id for found in baremetal.nodes(details=True, chassis_id=chassis.id)] == [node.id]
    assert baremetal.update_chassis(chassis, description="new rack").description == "new rack"
    with pytest.raises(exceptions.BadRequestException):
        baremetal.delete_chassis(chassis)
    baremetal.delete_node(node)
    baremetal.delete_chassis(chassis)
    assert baremetal.find_chassis(chassis.id) is None


def test_drivers(baremetal: Any) -> None:
    assert {"fake-hardware", "redfish", "ipmi"} <= {found.name for found in baremetal.drivers()}
    detailed = {found.name: found for found in baremetal.drivers(details=True)}
    assert detailed["fake-hardware"].default_power_interface == "fake"
    driver = baremetal.get_driver("fake-hardware")
    assert "fake" in driver.enabled_power_interfaces
    assert "fleet" in baremetal.list_driver_vendor_passthru("fake-hardware")
    with pytest.raises(exceptions.NotFoundException):
        baremetal.get_driver("nonsense")


def test_volumes(baremetal: Any, node: Any) -> None:
    baremetal.set_node_power_state(node, "power off", wait=True, timeout=60)
    iqn = f"iqn.2026-01.test:{uuid4()}"
    connector = baremetal.create_volume_connector(node_id=node.id, type="iqn", connector_id=iqn)
    assert [found.connector_id for found in baremetal.volume_connectors(node=node.id, details=True)] == [iqn]
    target = baremetal.create_volume_target(
        node_id=node.id, volume_type="iscsi", boot_index=0, volume_id="vol-1", properties={"target_iqn": iqn}
    )
    assert [found.volume_id for found in baremetal.volume_targets(node=node.id)] == ["vol-1"]
    assert baremetal.update_volume_target(target, boot_index=1).boot_index == 1
    baremetal.delete_volume_target(target)
    baremetal.delete_volume_connector(connector)
    assert list(baremetal.volume_connectors(node=node.id)) == []


def test_errors_carry_the_text_and_the_request_id(baremetal: Any) -> None:
    name = f"sdk-{uuid4()}"
    baremetal.create_node(driver="fake-hardware", name=name)
    with pytest.raises(exceptions.BadRequestException) as refused:
        baremetal.create_node(driver="nonsense")
    assert "nonsense" in str(refused.value)
    assert str(refused.value.request_id).startswith("req-")
    with pytest.raises(exceptions.NotFoundException, match="could not be found"):
        baremetal.get_node("nobody")
