"""openstacksdk, unmodified: traits, volume connectors and volume targets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openstack
import pytest
from openstack import exceptions

from tests.service import Service

pytestmark = pytest.mark.filterwarnings("ignore")  # the client's own deprecations are its own


@pytest.fixture
def baremetal(service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(service.clouds))
    monkeypatch.chdir(tmp_path)
    with openstack.connect(cloud="holdfast") as connection:
        yield connection.baremetal


@pytest.fixture
def node(service: Service, baremetal: Any) -> str:
    """A machine that is off, which changes of its volumes need."""
    uuid = service.enrol(state="available")[0]
    service.send("PUT", f"/v1/nodes/{uuid}/states/power", {"target": "power off"})
    service.settle(uuid)
    return uuid


def test_traits(baremetal: Any, node: str) -> None:
    baremetal.set_node_traits(node, ["CUSTOM_A", "CUSTOM_B"])
    baremetal.add_node_trait(node, "CUSTOM_C")
    assert baremetal.remove_node_trait(node, "CUSTOM_A") is True
    assert baremetal.get_node(node).traits == ["CUSTOM_B", "CUSTOM_C"]
    listed = {found.id: found.traits for found in baremetal.nodes(fields=["uuid", "traits"])}
    assert listed[node] == ["CUSTOM_B", "CUSTOM_C"]
    with pytest.raises(exceptions.BadRequestException, match="not a trait"):
        baremetal.add_node_trait(node, "nonsense")


def test_volume_connectors(baremetal: Any, node: str) -> None:
    name = f"iqn.2020-01.com.example:{node}"
    connector = baremetal.create_volume_connector(node_id=node, type="iqn", connector_id=name)
    assert [c.connector_id for c in baremetal.volume_connectors(node=node, details=True)] == [name]
    assert baremetal.update_volume_connector(connector, connector_id=f"{name}-2").connector_id == f"{name}-2"
    patch = [{"op": "add", "path": "/extra/rack", "value": 7}]
    assert baremetal.patch_volume_connector(connector.id, patch).extra == {"rack": 7}
    assert baremetal.get_volume_connector(connector.id, fields=["type"]).type == "iqn"
    assert baremetal.find_volume_connector(connector.id).node_id == node
    baremetal.delete_volume_connector(connector.id)
    with pytest.raises(exceptions.NotFoundException):
        baremetal.get_volume_connector(connector.id)


def test_volume_targets(baremetal: Any, node: str) -> None:
    secret = {"auth_username": "user", "auth_password": "secret", "target_lun": 1}
    target = baremetal.create_volume_target(
        node_id=node, volume_type="iscsi", volume_id="root", boot_index=0, properties=secret
    )
    masked = {"auth_username": "******", "auth_password": "******", "target_lun": 1}
    assert target.properties == masked
    assert [t.properties for t in baremetal.volume_targets(node=node, details=True)] == [masked]
    assert baremetal.update_volume_target(target, boot_index=1).boot_index == 1
    patch = [{"op": "replace", "path": "/properties/target_lun", "value": 2}]
    assert baremetal.patch_volume_target(target.id, patch).properties == {**masked, "target_lun": 2}
    baremetal.delete_volume_target(target.id)
    assert list(baremetal.volume_targets(node=node)) == []
