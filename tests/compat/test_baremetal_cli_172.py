"""python-ironicclient's commands of 1.47 to 1.72, unmodified, against a running service; those that need a later
version say so."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

import pytest

from tests.compat.baremetal_commands import Has, Lacks, Row
from tests.compat.test_baremetal_cli import check, run
from tests.service import Service
from tests.web.targets import mac

# Warnings of the client's own libraries are theirs.
pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore")]

STEPS = """'[{{"interface": "bios", "step": "factory_reset", "args": {{}}, "priority": 90}}]'"""
CLEAN = """'[{{"interface": "bios", "step": "factory_reset"}}]'"""
NETWORK = """'{{"links": [], "networks": [], "services": []}}'"""

FIELDS = [
    Row(
        "node create --driver fake-hardware --name {node} --owner alice --lessee bob --description 'Rack 7, {node}' "
        "--automated-clean --resource-class {class}",
        {"owner": "alice", "lessee": "bob", "description": "Rack 7, {node}", "automated_clean": True},
    ),
    Row("node list --owner alice --lessee bob --fields name", Has([{"name": "{node}"}])),
    Row("node list --owner carol --fields name", Lacks([{"name": "{node}"}])),
    Row("node list --description-contains '{node}' --fields name", [{"name": "{node}"}]),
    Row("node set {node} --no-automated-clean --description short --owner carol --retired --retired-reason old"),
    Row(
        "node show {node} --fields automated_clean description owner retired retired_reason",
        {
            "automated_clean": False,
            "description": "short",
            "owner": "carol",
            "retired": True,
            "retired_reason": "old",
        },
    ),
    Row("node list --retired --fields name", Has([{"name": "{node}"}])),
    Row("node list --no-retired --fields name", Lacks([{"name": "{node}"}])),
    Row(f"node set {{node}} --network-data {NETWORK}"),
    Row("node show {node} --fields network_data", {"network_data": {"links": [], "networks": [], "services": []}}),
    Row("""node set {node} --network-data '{{"links": 1}}'""", code=1, says="network_data"),
    Row("node unset {node} --automated-clean --description --owner --lessee --retired --network-data"),
    Row(
        "node show {node} --fields automated_clean owner lessee retired retired_reason",
        {"automated_clean": None, "owner": None, "lessee": None, "retired": False, "retired_reason": None},
    ),
    Row("node set {node} --protected", code=1, says="cannot be set protected"),
    Row("node manage {node} --wait"),
    Row("node provide {node} --wait"),
    Row("node deploy {node} --wait"),
    Row("node set {node} --protected --protected-reason precious"),
    Row("node undeploy {node}", code=1, says="is protected (precious)"),
    Row("node delete {node}", code=1, says="is protected (precious)"),
    Row("node unset {node} --protected"),
    Row("node undeploy {node} --wait"),
    Row("node delete {node}"),
]

CONDUCTORS = [
    Row("conductor list", Has([{"hostname": "{host}", "alive": True}])),
    Row("conductor list --long", Has([{"hostname": "{host}", "drivers": ["fake-hardware", "ipmi", "redfish"]}])),
    Row("conductor show {host}", {"hostname": "{host}", "conductor_group": ""}),
    Row("conductor show nobody", code=1, says="Conductor nobody could not be found."),
    Row("node create --driver fake-hardware --name {node}", {"conductor": "{host}"}),
    Row("node list --conductor {host} --fields name", Has([{"name": "{node}"}])),
    Row("node list --conductor nobody --fields name", []),
    Row("node delete {node}"),
]

ALLOCATIONS = [
    Row("node create --driver fake-hardware --name {node} --resource-class {class} --owner alice"),
    Row("node add trait {node} CUSTOM_GPU CUSTOM_FAST"),
    Row("node manage {node} --wait"),
    Row("node provide {node} --wait"),
    Row(
        "allocation create --name {name} --resource-class {class} --trait CUSTOM_GPU --candidate-node {node} "
        "--extra a=1 --owner alice --wait",
        {"name": "{name}", "state": "active", "node_uuid": "{uuid}", "owner": "alice", "traits": ["CUSTOM_GPU"]},
    ),
    Row("allocation list --node {node} --state active --owner alice", [{"name": "{name}", "node_uuid": "{uuid}"}]),
    Row("allocation list --resource-class {class} --state error", []),
    Row("allocation show {name}", {"state": "active", "extra": {"a": 1}, "candidate_nodes": ["{uuid}"]}),
    Row("allocation create --name second --resource-class {class} --wait", code=1, says="is free: there are 1"),
    Row("allocation delete second"),
    Row("allocation create", code=1, says="--resource-class is required"),
    Row("allocation set {name} --name {other} --extra b=2"),
    Row("allocation show {other} --fields name extra", {"name": "{other}", "extra": {"a": 1, "b": 2}}),
    Row("allocation unset {other} --extra a"),
    Row("allocation show {other} --fields extra", {"extra": {"b": 2}}),
    Row("node show {node} --fields allocation_uuid instance_uuid", lambda shown: len(set(shown.values())) == 1),
    Row("node deploy {node} --wait"),
    Row("allocation delete {other}", code=1, says="cannot be deleted while the node is 'active'"),
    Row("node undeploy {node} --wait"),
    Row("allocation show {other}", code=1, says="could not be found"),
    Row("node deploy {node} --wait"),
    Row("allocation create --node {node} --name {name}", {"state": "active", "node_uuid": "{uuid}"}),
    Row("node undeploy {node} --wait"),
    Row("node delete {node}"),
]

TEMPLATES = [
    Row(
        f"deploy template create {{template}} --steps {STEPS} --extra a=1",
        {"name": "{template}", "extra": {"a": 1}},
    ),
    Row(f"deploy template create {{template}} --steps {STEPS}", code=1, says="already exists"),
    Row("deploy template list", Has([{"name": "{template}"}])),
    Row("deploy template list --long", Has([{"name": "{template}"}])),
    Row("deploy template show {template}", {"name": "{template}"}),
    Row("""deploy template set {template} --steps '[{{"interface": "bios"}}]'""", code=1, says="A deploy step"),
    Row("deploy template set {template} --name {template}_2 --extra b=2"),
    Row("deploy template unset {template}_2 --extra a"),
    Row("deploy template show {template}_2 --fields extra", {"extra": {"b": 2}}),
    Row("node create --driver fake-hardware --name {node}"),
    Row("node manage {node} --wait"),
    Row(f"node clean {{node}} --wait --disable-ramdisk --clean-steps {CLEAN}"),
    Row("node provide {node} --wait"),
    Row(f"node deploy {{node}} --wait --deploy-steps {STEPS} --config-drive '{{drive}}'"),
    Row(f"node rebuild {{node}} --wait --deploy-steps {STEPS}"),
    Row("node undeploy {node} --wait"),
    Row("node delete {node}"),
    Row("deploy template delete {template}_2"),
    Row("deploy template show {template}_2", code=1, says="could not be found"),
]

WIRING = [
    Row("node create --driver fake-hardware --name {node}"),
    Row(
        "port create {mac} --node {uuid} --uuid {port} --is-smartnic --local-link-connection port_id=rep0 "
        "--local-link-connection hostname=host1",
        {"is_smartnic": True},
    ),
    Row("port create {other_mac} --node {uuid} --local-link-connection network_type=unmanaged"),
    Row("port set {port} --local-link-connection network_type=odd", code=1, says="network_type"),
    Row("node vif attach {node} {vif} --port-uuid {port}"),
    Row("node vif list {node}", [{"id": "{vif}"}]),
    Row("port show {port} --fields internal_info", {"internal_info": {"tenant_vif_port_id": "{vif}"}}),
    Row("node vif detach {node} {vif}"),
    Row("node delete {node}"),
]

GROUPS = {
    "fields": FIELDS,
    "conductors": CONDUCTORS,
    "allocations": ALLOCATIONS,
    "templates": TEMPLATES,
    "wiring": WIRING,
}

# Commands of versions after 1.72, and what they say.
LATER = {
    "shard list": "1.82",
    "runbook list": "1.92",
    "inspection rule list": "1.96",
    "node history list {node}": "1.78",
    "node inventory save {node}": "1.81",
    "node firmware list {node}": "1.86",
    "node children list {node}": "1.83",
    "node boot mode set {node} uefi": "1.76",
    "node secure boot on {node}": "1.76",
    "node unhold {node}": "1.1 to 1.72",
    "node set {node} --shard x": "1.1 to 1.72",
    "node set {node} --firmware-interface x": "1.1 to 1.72",
    "node list --shards x": "1.1 to 1.72",
}


@pytest.fixture
def names(service: Service, tmp_path: Path) -> dict[str, str]:
    """What the rows of a group call things."""
    made = {kind: str(uuid4()) for kind in ("uuid", "port", "vif")}
    suffix = made["uuid"][:8]
    drive = {"meta_data": {"a": 1}, "user_data": "#cloud-config", "vendor_data": {"v": 1}}
    return {
        **made,
        "host": service.send("GET", "/v1/conductors")["conductors"][0]["hostname"],
        "node": f"node-{suffix}",
        "name": f"allocation-{suffix}",
        "other": f"other-{suffix}",
        "class": f"class-{suffix}",
        "template": f"CUSTOM_{suffix.upper()}",
        "drive": json.dumps(drive),
        "mac": mac(),
        "other_mac": mac(),
    }


@pytest.fixture(autouse=True)
def quick_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--wait` looks every two to ten seconds; our machines are faster."""
    from ironicclient.v1 import allocation, utils

    for action in utils.PROVISION_ACTIONS.values():
        if action is not None:
            monkeypatch.setitem(action, "poll_interval", 0.05)
    patience = allocation.AllocationManager.wait
    monkeypatch.setattr(
        allocation.AllocationManager,
        "wait",
        lambda self, ident, **more: patience(self, ident, **{**more, "poll_interval": 0.05}),
    )


@pytest.mark.parametrize("group", GROUPS)
def test_commands_do_and_show_what_they_should(service: Service, names: dict[str, str], group: str) -> None:
    for row in GROUPS[group]:
        check(service, row, names)


@pytest.mark.parametrize("command", LATER)
def test_a_command_of_a_later_version_says_so(service: Service, names: dict[str, str], command: str) -> None:
    service.enrol(name=names["node"])
    code, out, err = run(service, command.format(**names))
    assert code == 1
    assert LATER[command] in out + err
