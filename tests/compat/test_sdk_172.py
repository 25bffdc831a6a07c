"""openstacksdk, unmodified: allocations, deploy templates, conductors, and nodes with an owner."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import openstack
import pytest
from openstack import exceptions

from tests.service import Service

# The client's deprecations are its own.
pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def baremetal(service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(service.clouds))
    monkeypatch.chdir(tmp_path)
    with openstack.connect(cloud="holdfast", baremetal_status_code_retries=0) as connection:
        yield connection.baremetal


def test_allocations(service: Service, baremetal: Any) -> None:
    kind = f"class-{uuid4()}"
    (node,) = service.enrol(state="available", resource_class=kind, owner="alice")
    allocation = baremetal.create_allocation(resource_class=kind, name=f"sdk-{uuid4()}", owner="alice")
    allocation = baremetal.wait_for_allocation(allocation)
    assert (allocation.state, allocation.node_id, allocation.owner) == ("active", node, "alice")
    assert baremetal.get_node(node).allocation_id == allocation.id
    assert [found.id for found in baremetal.allocations(node=node, state="active")] == [allocation.id]
    assert baremetal.update_allocation(allocation, extra={"a": 1}).extra == {"a": 1}
    failed = baremetal.create_allocation(resource_class=kind)
    with pytest.raises(exceptions.ResourceFailure, match="is free"):
        baremetal.wait_for_allocation(failed)
    for one in (allocation, failed):
        baremetal.delete_allocation(one)
    assert baremetal.get_node(node).instance_id is None


def test_deploy_templates(baremetal: Any) -> None:
    steps = [{"interface": "bios", "step": "factory_reset", "args": {}, "priority": 90}]
    template = baremetal.create_deploy_template(name=f"CUSTOM_{uuid4().hex.upper()}", steps=steps)
    assert template.steps == steps
    assert template.id in [found.id for found in baremetal.deploy_templates()]
    assert baremetal.update_deploy_template(template, extra={"a": 1}).extra == {"a": 1}
    baremetal.delete_deploy_template(template)
    with pytest.raises(exceptions.NotFoundException):
        baremetal.get_deploy_template(template.id)


def test_conductors(baremetal: Any) -> None:
    (conductor,) = baremetal.conductors()
    assert conductor.alive is True
    conductor = baremetal.get_conductor(conductor.hostname)
    assert "fake-hardware" in conductor.drivers


def test_a_node_is_deployed_with_a_config_drive_and_steps(baremetal: Any) -> None:
    node = baremetal.create_node(
        driver="fake-hardware", name=f"sdk-{uuid4()}", owner="alice", description="rack", provision_state="enroll"
    )
    assert (node.owner, node.description, node.is_automated_clean_enabled) == ("alice", "rack", None)
    assert node.id in [found.id for found in baremetal.nodes(details=True, owner="alice")]
    steps = [{"interface": "bios", "step": "factory_reset", "args": {}, "priority": 90}]
    for verb in ("manage", "provide"):
        node = baremetal.set_node_provision_state(node, verb, wait=True)
    drive = {"meta_data": {"a": 1}, "vendor_data": {"v": 1}}
    node = baremetal.set_node_provision_state(node, "active", config_drive=drive, deploy_steps=steps, wait=True)
    assert node.provision_state == "active"
    node = baremetal.update_node(node, is_protected=True, protected_reason="precious")
    with pytest.raises(exceptions.ForbiddenException, match="precious"):
        baremetal.set_node_provision_state(node, "deleted")
    node = baremetal.update_node(node, is_protected=False)
    baremetal.set_node_provision_state(node, "deleted", wait=True)
    baremetal.delete_node(node)
