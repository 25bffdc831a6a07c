"""Nova's ironic driver, unmodified: what nova-compute does with it, and what an operator sees of that here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from holdfast.sim import cinder as sim_cinder
from holdfast.sim import neutron as sim_neutron
from tests.nova import Compute, Refused, computing
from tests.service import QUICK, Service, serving

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("nova")]

FREE = {"total": 1, "reserved": 0, "min_unit": 1, "max_unit": 1, "step_size": 1, "allocation_ratio": 1.0}


@pytest.fixture(scope="module")
def cinder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sim_cinder.Simulator]:
    with sim_cinder.serving(tmp_path_factory.mktemp("cinder") / "cinder.sqlite") as running:
        yield running


@pytest.fixture(scope="module")
def neutron(tmp_path_factory: pytest.TempPathFactory) -> sim_neutron.NeutronSimulator:
    return sim_neutron.NeutronSimulator(tmp_path_factory.mktemp("neutron") / "neutron.sqlite")


@pytest.fixture(scope="module")
def neutron_url(neutron: sim_neutron.NeutronSimulator) -> Iterator[str]:
    with sim_neutron.serving(neutron) as url:
        yield url


@pytest.fixture(scope="module")
def service(
    tmp_path_factory: pytest.TempPathFactory,
    cinder: sim_cinder.Simulator,
    neutron: sim_neutron.NeutronSimulator,
    neutron_url: str,
) -> Iterator[Service]:
    """A service that shares Cinder and Neutron with Nova."""
    with serving(
        tmp_path_factory.mktemp("service") / "state",
        cinder__endpoint_override=cinder.url,
        neutron__auth_type="none",
        neutron__endpoint_override=neutron_url,
        neutron__cleaning_network=neutron.network("cleaning"),
        neutron__provisioning_network=neutron.network("provisioning"),
        **QUICK,
    ) as running:
        yield running


@pytest.fixture(scope="module")
def nova(
    service: Service, cinder: sim_cinder.Simulator, neutron_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Compute]:
    options = {"auth_type": "none", "endpoint_override": service.baremetal}
    with computing(tmp_path_factory.mktemp("nova"), neutron=neutron_url, cinder=cinder.url, **options) as running:
        yield running


@pytest.fixture
def node(service: Service) -> str:
    """A free machine with two NICs."""
    return machine(service)


def machine(service: Service, ports: int = 2, **fields: Any) -> str:
    properties = {"cpu_arch": "x86_64", "cpus": 8, "memory_mb": 4096, "local_gb": 100, **fields.pop("properties", {})}
    (uuid,) = service.enrol(state="manageable", resource_class="bm.large", properties=properties, **fields)
    for number in range(ports):
        port = {"node_uuid": uuid, "address": mac(uuid, number), "local_link_connection": link(number)}
        service.send("POST", "/v1/ports", port)
    service.send("PUT", f"/v1/nodes/{uuid}/states/provision", {"target": "provide"})
    service.settle(uuid, "available")
    return uuid


def link(number: int) -> dict[str, str]:
    return {"switch_id": sim_neutron.SWITCH, "port_id": f"Gi0/{number}", "switch_info": "sw-1"}


def mac(node: str, number: int) -> str:
    digits = node.replace("-", "")[:8]
    return ":".join(["52", *(digits[at : at + 2] for at in range(0, 8, 2)), f"{number:02x}"])


def vif(number: int = 5) -> dict[str, str]:
    """A port of Neutron's, as Nova knows it."""
    return {"id": str(uuid4()), "ip": f"10.0.0.{number}", "mac": f"fa:16:3e:00:00:{number:02x}"}


def shown(service: Service, node: str) -> dict[str, Any]:
    document: dict[str, Any] = service.send("GET", f"/v1/nodes/{node}")
    return document


def vifs(service: Service, node: str) -> set[str]:
    return {entry["id"] for entry in service.send("GET", f"/v1/nodes/{node}/vifs")["vifs"]}


def targets(service: Service, node: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = service.send("GET", f"/v1/volume/targets?node={node}&detail=true")["targets"]
    return sorted(found, key=lambda target: int(target["boot_index"]))


def is_free(service: Service, node: str) -> None:
    """Nothing of any instance is left on the node, and it can have the next."""
    document = service.settle(node, "available")
    assert (document["instance_uuid"], document["instance_info"]) == (None, {})
    assert (document["power_state"], document["last_error"]) == ("power off", None)
    assert vifs(service, node) == set()
    assert targets(service, node) == []


def test_machines_become_compute_nodes_with_their_class_and_traits(service: Service, nova: Compute, node: str) -> None:
    service.send("PUT", f"/v1/nodes/{node}/traits", {"traits": ["CUSTOM_GOLD", "HW_CPU_X86_VMX"]})
    assert node in nova.call("available_nodes")
    resource = nova.call("resource", node=node)
    assert (resource["hypervisor_type"], resource["resource_class"]) == ("ironic", "bm.large")
    assert resource["supported_instances"] == [["x86_64", "baremetal", "hvm"]]
    assert nova.call("provider", node=node) == {
        "inventory": {"CUSTOM_BM_LARGE": FREE},
        "traits": ["CUSTOM_GOLD", "HW_CPU_X86_VMX"],
    }


def test_a_machine_in_maintenance_is_reserved_and_a_deleted_one_is_gone(
    service: Service, nova: Compute, node: str
) -> None:
    service.send("PUT", f"/v1/nodes/{node}/maintenance", {"reason": "a fan"})
    assert nova.call("provider", node=node)["inventory"] == {"CUSTOM_BM_LARGE": {**FREE, "reserved": 1}}
    service.send("DELETE", f"/v1/nodes/{node}/maintenance")
    assert nova.call("provider", node=node)["inventory"] == {"CUSTOM_BM_LARGE": FREE}
    assert nova.call("node_is_deleted", node=node) is False
    service.send("DELETE", f"/v1/nodes/{node}")
    assert nova.call("node_is_deleted", node=node) is True
    assert node not in nova.call("available_nodes")


def test_an_instance_from_spawn_to_destroy(service: Service, nova: Compute, node: str) -> None:
    service.send("PUT", f"/v1/nodes/{node}/traits", {"traits": ["CUSTOM_GOLD"]})
    first, second = vif(5), vif(6)
    specs = {"trait:CUSTOM_GOLD": "required", "capabilities:boot_mode": "uefi"}
    instance = nova.call("create", node=node, vifs=[first, second], extra_specs=specs)
    nova.call("spawn", instance=instance)

    document = shown(service, node)
    assert (document["provision_state"], document["power_state"]) == ("active", "power on")
    assert document["instance_uuid"] == instance
    told = document["instance_info"]
    assert (told["display_name"], told["root_gb"], told["memory_mb"]) == ("My instance", "10", "2048")
    assert (told["nova_host_id"], told["user_name"], told["project_name"]) == ("compute-1", "alice", "physics")
    assert (told["traits"], told["capabilities"]) == (["CUSTOM_GOLD"], '{"boot_mode": "uefi"}')
    assert vifs(service, node) == {first["id"], second["id"]}

    assert nova.call("exists", instance=instance) is True
    assert instance in nova.call("instances")
    assert nova.call("power_state", instance=instance) == "running"
    assert nova.call("provider", node=node)["inventory"]["CUSTOM_BM_LARGE"]["reserved"] == 1

    nova.call("destroy", instance=instance)
    is_free(service, node)
    assert instance not in nova.call("instances")
    assert nova.call("provider", node=node)["inventory"]["CUSTOM_BM_LARGE"]["reserved"] == 0


def test_a_machine_serves_one_instance_after_the_other_but_not_two(service: Service, nova: Compute, node: str) -> None:
    first, second = nova.call("create", node=node), nova.call("create", node=node)
    nova.call("spawn", instance=first)
    with pytest.raises(Refused, match="ComputeResourcesUnavailable"):
        nova.call("spawn", instance=second)
    nova.call("destroy", instance=second)
    assert shown(service, node)["instance_uuid"] == first
    nova.call("destroy", instance=first)
    is_free(service, node)
    third = nova.call("create", node=node)
    nova.call("spawn", instance=third)
    assert shown(service, node)["instance_uuid"] == third


@pytest.fixture
def instance(nova: Compute, node: str) -> str:
    """An instance that runs, with one VIF."""
    made: str = nova.call("create", node=node, vifs=[vif()])
    nova.call("spawn", instance=made)
    return made


def test_power(service: Service, nova: Compute, node: str, instance: str) -> None:
    nova.call("power_off", instance=instance)
    assert (shown(service, node)["power_state"], nova.call("power_state", instance=instance)) == (
        "power off",
        "shutdown",
    )
    nova.call("power_on", instance=instance)
    assert (shown(service, node)["power_state"], nova.call("power_state", instance=instance)) == ("power on", "running")
    nova.call("power_off", instance=instance, timeout=30)
    assert shown(service, node)["power_state"] == "power off"


@pytest.mark.parametrize("kind", ["SOFT", "HARD"])
def test_reboot(service: Service, nova: Compute, node: str, instance: str, kind: str) -> None:
    before = effects(service, node)
    nova.call("reboot", instance=instance, kind=kind)
    assert shown(service, node)["power_state"] == "power on"
    assert effects(service, node) > before


def effects(service: Service, node: str) -> int:
    return len(service.send("GET", f"/v1/nodes/{node}/vendor_passthru/effects")["effects"])


def test_interfaces_are_attached_and_detached(service: Service, nova: Compute, node: str, instance: str) -> None:
    one, too_many = vif(7), vif(8)
    (given,) = vifs(service, node)
    nova.call("attach_interface", instance=instance, vif=one)
    assert vifs(service, node) == {given, one["id"]}
    nova.call("attach_interface", instance=instance, vif=one)  # once more changes nothing
    with pytest.raises(Refused, match="VirtualInterfacePlugException"):
        nova.call("attach_interface", instance=instance, vif=too_many)
    nova.call("detach_interface", instance=instance, vif=one)
    assert vifs(service, node) == {given}
    nova.call("detach_interface", instance=instance, vif=one)  # what is not there need not go


def test_rebuild(service: Service, nova: Compute, node: str, instance: str) -> None:
    before = shown(service, node)
    nova.call("rebuild", instance=instance)
    after = shown(service, node)
    assert (after["provision_state"], after["instance_uuid"]) == ("active", instance)
    assert after["provision_updated_at"] > before["provision_updated_at"]
    assert after["instance_info"]["preserve_ephemeral"] == "False"
    assert len(vifs(service, node)) == 1


def test_rescue_and_unrescue(service: Service, nova: Compute, node: str, instance: str) -> None:
    nova.call("rescue", instance=instance, password="c4nary-rescue")
    document = shown(service, node)
    assert document["provision_state"] == "rescue"
    assert "c4nary-rescue" not in str(document)
    nova.call("unrescue", instance=instance)
    assert shown(service, node)["provision_state"] == "active"
    nova.call("rescue", instance=instance, password="c4nary-rescue")
    nova.call("destroy", instance=instance)
    is_free(service, node)


def test_a_config_drive_that_nova_built(service: Service, nova: Compute, node: str) -> None:
    instance = nova.call("create", node=node, vifs=[vif()], config_drive=True)
    nova.call("spawn", instance=instance)
    document = shown(service, node)
    assert document["provision_state"] == "active"
    assert document["instance_info"]["configdrive"] == "******"
    nova.call("destroy", instance=instance)
    is_free(service, node)


def connect(service: Service, node: str, kind: str, connector: str) -> None:
    service.send("POST", "/v1/volume/connectors", {"node_uuid": node, "type": kind, "connector_id": connector})


def test_the_volume_connector_is_made_of_the_nodes_connectors(service: Service, nova: Compute, node: str) -> None:
    digits = node.replace("-", "")[:15]
    connect(service, node, "iqn", f"iqn.2026-01.org.example:{node}")
    connect(service, node, "wwpn", f"5{digits}")
    connect(service, node, "wwnn", f"2{digits}")
    connect(service, node, "ip", f"192.0.2.{int(digits[:2], 16) % 250 + 1}")
    instance = nova.call("create", node=node)
    address = f"192.0.2.{int(digits[:2], 16) % 250 + 1}"
    assert nova.call("volume_connector", instance=instance) == {
        "initiator": f"iqn.2026-01.org.example:{node}",
        "wwpns": [f"5{digits}"],
        "wwnns": [f"2{digits}"],
        "ip": address,
        "host": address,
        "platform": "x86_64",
        "os_type": "baremetal",
        "multipath": False,
    }


def test_the_address_of_a_mac_connector_is_that_of_the_vif_on_its_port(
    service: Service, nova: Compute, node: str
) -> None:
    connect(service, node, "mac", mac(node, 1))
    one, two = vif(5), vif(6)
    instance = nova.call("create", node=node, vifs=[one, two])
    nova.call("spawn", instance=instance)
    ports = service.send("GET", f"/v1/ports/detail?node={node}")["ports"]
    (on_it,) = [p["internal_info"]["tenant_vif_port_id"] for p in ports if p["address"] == mac(node, 1)]
    wanted = {one["id"]: "10.0.0.5", two["id"]: "10.0.0.6"}[on_it]
    assert nova.call("volume_connector", instance=instance)["ip"] == wanted


def boots_from_volumes(service: Service, storage: str = "cinder", **fields: Any) -> str:
    node = machine(
        service,
        storage_interface=storage,
        boot_interface="ipxe",
        properties={"capabilities": "iscsi_boot:true"},
        **fields,
    )
    connect(service, node, "iqn", f"iqn.2026-01.org.example:{node}")
    return node


@pytest.mark.parametrize("storage", ["cinder", "external"])
def test_booting_from_volumes(service: Service, nova: Compute, cinder: sim_cinder.Simulator, storage: str) -> None:
    node = boots_from_volumes(service, storage)
    root, data = (cinder.state.create_volume() for _ in range(2))
    instance = nova.call("create", node=node, vifs=[vif()], volumes=[root, data])
    nova.call("spawn", instance=instance)
    document = shown(service, node)
    assert (document["provision_state"], document["power_state"]) == ("active", "power on")
    assert "image_source" not in document["instance_info"]
    made = targets(service, node)
    assert [target["volume_id"] for target in made] == [root, data]
    assert {target["volume_type"] for target in made} == {"iscsi"}
    assert made[0]["properties"]["target_iqn"] == f"iqn.2010-10.org.openstack:volume-{root}"
    assert not any(secret in str(made) for secret in cinder.state.secrets())
    # Nova attached the volumes, to the machine's own initiator, and nobody attached them once more.
    attached = [a for a in cinder.state.attachments() if a["volume_id"] in (root, data)]
    assert [(a["instance"], a["status"]) for a in attached] == [(instance, "attached")] * 2
    assert {e.initiator for e in cinder.state.exports() if e.volume in (root, data)} == {
        f"iqn.2026-01.org.example:{node}"
    }
    nova.call("destroy", instance=instance)
    is_free(service, node)
    assert {cinder.state.volume_status(root), cinder.state.volume_status(data)} == {"available"}


def test_a_node_that_does_not_validate_is_left_as_it_was(
    service: Service, nova: Compute, cinder: sim_cinder.Simulator
) -> None:
    node = boots_from_volumes(service, driver_info={"fake_fail": "deploy.validate"})
    instance = nova.call("create", node=node, vifs=[vif()], volumes=[cinder.state.create_volume()])
    with pytest.raises(Refused, match=r"ValidationError: .*deploy: "):
        nova.call("spawn", instance=instance)
    is_free(service, node)


def test_a_deploy_that_fails_is_told_and_cleaned_up_by_destroy(
    service: Service, nova: Compute, cinder: sim_cinder.Simulator
) -> None:
    node = boots_from_volumes(service, driver_info={"fake_fail": "deploy.deploy"})
    volume = cinder.state.create_volume()
    instance = nova.call("create", node=node, vifs=[vif()], volumes=[volume])
    with pytest.raises(Refused, match="InstanceDeployFailure: Failed to provision instance"):
        nova.call("spawn", instance=instance)
    document = shown(service, node)
    assert (document["provision_state"], len(targets(service, node))) == ("deploy failed", 1)
    nova.call("destroy", instance=instance)
    is_free(service, node)
    assert cinder.state.volume_status(volume) == "available"


def test_a_vif_that_finds_no_port_leaves_nothing_behind(service: Service, nova: Compute) -> None:
    node = machine(service, ports=1)
    instance = nova.call("create", node=node, vifs=[vif(5), vif(6)])
    with pytest.raises(Refused, match="VirtualInterfacePlugException"):
        nova.call("spawn", instance=instance)
    nova.call("clean_up_failed_spawn", instance=instance)
    is_free(service, node)


def test_ports_of_neutron_are_bound_while_the_instance_is_there(
    service: Service, nova: Compute, neutron: sim_neutron.NeutronSimulator
) -> None:
    node = machine(service, ports=1, network_interface="neutron")
    tenant = neutron.port(neutron.network("tenant"))
    instance = nova.call("create", node=node, vifs=[{**vif(), "id": tenant}])
    nova.call("spawn", instance=instance)
    bound = neutron.show(tenant)
    assert (bound["binding:host_id"], bound["mac_address"]) == (node, mac(node, 0))
    assert bound["binding:profile"]["local_link_information"] == [link(0)]
    nova.call("destroy", instance=instance)
    is_free(service, node)
    assert neutron.show(tenant)["binding:host_id"] == ""
