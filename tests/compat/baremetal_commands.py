"""The commands of python-ironicclient as data: command, exit code, and what its JSON shows.

`{node}` and the like are names the test makes up for each group. The rows of a group run in order: later
ones use what earlier ones made. A row that shows something gets `-f json`.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Row(NamedTuple):
    command: str
    shows: Any = None  # a part of the JSON output: members of objects, lists as a whole, or a predicate
    code: int = 0
    says: str = ""  # what the output, or the error, contains


class Has(list[Any]):
    """A list that contains these, among others."""


class Lacks(list[Any]):
    """A list that contains none of these."""


def matches(shown: Any, expected: Any) -> bool:
    if callable(expected):
        return bool(expected(shown))
    if isinstance(expected, dict):
        return isinstance(shown, dict) and all(k in shown and matches(shown[k], v) for k, v in expected.items())
    if isinstance(expected, Has | Lacks):
        among = [any(matches(found, item) for found in shown) for item in expected]
        return all(among) if isinstance(expected, Has) else not any(among)
    if isinstance(expected, list):
        return len(shown) == len(expected) and all(map(matches, shown, expected))
    return bool(shown == expected)


CREATE = "node create --driver fake-hardware --name {node}"
INSTANCE = "6ec0b47f-73c9-4d6f-9b1b-0b0b5a0a8d11"
CLEAN = """--clean-steps '[{{"interface": "deploy", "step": "erase_devices"}}]'"""

NODES = [
    Row(
        f"{CREATE} --property cpus=8 --property cpu_arch=x86_64 --extra rack=7 --resource-class small "
        "--driver-info address=10.0.0.1 --driver-info ipmi_password=hunter2 --conductor-group East",
        {
            "name": "{node}",
            "driver": "fake-hardware",
            "provision_state": "enroll",
            "properties": {"cpus": 8, "cpu_arch": "x86_64"},
            "extra": {"rack": 7},
            "resource_class": "small",
            "driver_info": {"address": "10.0.0.1", "ipmi_password": "******"},
            "conductor_group": "east",
            "power_interface": "fake",
        },
    ),
    Row(CREATE, code=1, says="A node with name {node} already exists."),
    Row("node create --driver nonsense", code=1, says="nonsense"),
    Row("node create", code=2, says="--driver"),
    Row("node list", Has([{"name": "{node}", "provision_state": "enroll", "maintenance": False}])),
    Row("node list --long", Has([{"name": "{node}", "driver": "fake-hardware"}])),
    Row("node list --fields name resource_class traits", Has([{"name": "{node}", "resource_class": "small"}])),
    Row("node list --resource-class small --fields name", Has([{"name": "{node}"}])),
    Row("node list --resource-class nonsense", []),
    Row("node list --provision-state enroll --fields name", Has([{"name": "{node}"}])),
    Row("node list --provision-state active --fields name", Lacks([{"name": "{node}"}])),
    Row("node list --driver fake-hardware --unassociated --no-maintenance --fields name", Has([{"name": "{node}"}])),
    Row("node list --conductor-group east --fields name", Has([{"name": "{node}"}])),
    Row("node list --limit 1 --fields name", lambda shown: len(shown) == 1),
    Row("node list --sort name:desc --fields name", lambda shown: shown == sorted(shown, key=str, reverse=True)),
    Row("node list --fields nonsense", code=2),
    Row("node show {node}", {"name": "{node}", "driver": "fake-hardware", "extra": {"rack": 7}}),
    Row("node show {node} --fields name extra", {"name": "{node}", "extra": {"rack": 7}}),
    Row("node show nobody", code=1, says="Node nobody could not be found."),
    Row("node set {node} --extra shelf=3 --property memory_mb=1024 --instance-info image_source=http://example/i"),
    Row("node set {node} --resource-class large --console-interface no-console"),
    Row(
        "node show {node}",
        {
            "extra": {"rack": 7, "shelf": 3},
            "properties": {"cpus": 8, "memory_mb": 1024},
            "instance_info": {"image_source": "http://example/i"},
            "resource_class": "large",
            "console_interface": "no-console",
        },
    ),
    Row("node set {node} --reset-console-interface"),
    Row("node unset {node} --extra rack --property cpus --instance-info image_source --resource-class"),
    Row(
        "node show {node}",
        {"extra": {"shelf": 3}, "resource_class": None, "instance_info": {}, "console_interface": "fake"},
    ),
    Row("node unset {node} --extra not-there", code=1, says="not-there"),
    Row("node set {node} --driver ipmi", code=1, says="ipmi"),
    Row("node set {node} --driver ipmi --reset-interfaces"),
    Row("node show {node} --fields driver power_interface", {"driver": "ipmi", "power_interface": "ipmitool"}),
    Row("node set {node} --driver fake-hardware --reset-interfaces"),
    Row("node set {node} --driver nonsense", code=1, says="nonsense"),
    Row("node set {node} --name {other}"),
    Row("node show {other} --fields name", {"name": "{other}"}),
    Row("node set {other} --name {node}"),
    Row(f"node set {{node}} --instance-uuid {INSTANCE}"),
    Row(f"node show --instance {INSTANCE} --fields name", {"name": "{node}"}),
    Row("node list --associated --fields name", Has([{"name": "{node}"}])),
    Row("node delete {node}", code=1, says="carries instance"),
    Row("node unset {node} --instance-uuid"),
    Row("node delete nobody", code=1, says="nobody"),
    Row("node delete {node}", says="Deleted node {node}"),
    Row("node show {node}", code=1),
]

STATES = [
    Row(CREATE, {"provision_state": "enroll", "power_state": None}),
    Row("node provide {node}", code=1, says="can not be performed"),
    Row("node manage {node} --wait"),
    Row("node show {node} --fields provision_state", {"provision_state": "manageable"}),
    Row("node inspect {node} --wait"),
    Row(
        "node show {node}",
        {"provision_state": "manageable", "properties": lambda p: p, "inspection_finished_at": str.strip},
    ),
    Row(f"node clean {{node}} {CLEAN} --wait"),
    Row("node clean {node} --clean-steps '[]'", code=1, says="clean_steps"),
    Row("""node clean {node} --clean-steps '[{{"interface": "x", "step": "y"}}]'""", code=1, says="interface"),
    Row("node provide {node} --wait"),
    Row("node show {node}", {"provision_state": "available", "target_provision_state": None, "last_error": None}),
    Row("node manage {node} --wait"),
    Row("node provide {node} --wait 30"),
    Row("node deploy {node} --wait --config-drive {drive}"),
    Row("node show {node}", {"provision_state": "active", "power_state": "power on"}),
    Row("node deploy {node}", code=1, says="can not be performed"),
    Row("node delete {node}", code=1, says="cannot be deleted"),
    Row("node rebuild {node} --wait"),
    Row("node rescue {node} --rescue-password hunter2 --wait"),
    Row("node show {node} --fields provision_state", {"provision_state": "rescue"}),
    Row("node unrescue {node} --wait"),
    Row("node show {node} --fields provision_state", {"provision_state": "active"}),
    Row("node undeploy {node} --wait"),
    Row("node show {node}", {"provision_state": "available", "instance_info": {}}),
    Row("node manage {node} --wait"),
    Row("node adopt {node} --wait"),
    Row("node show {node} --fields provision_state", {"provision_state": "active"}),
    Row("node undeploy {node} --wait"),
    Row("node delete {node}"),
]

WAITING = [
    Row(f"""{CREATE} --driver-info fake_wait='["clean"]'"""),
    Row("node manage {node} --wait"),
    Row("node provide {node}"),
    Row("until node {node} is clean wait"),
    Row("node show {node}", {"provision_state": "clean wait", "target_provision_state": "available"}),
    Row("node provide {node}", code=1, says="abort"),
    Row("node power on {node}", code=1, says="clean wait"),
    Row("node delete {node}", code=1),
    Row("node abort {node}"),
    Row("until node {node} is clean failed"),
    Row("node show {node} --fields provision_state last_error", {"last_error": lambda text: "abort" in text.lower()}),
    Row("node maintenance unset {node}"),
    Row("node manage {node} --wait"),
    Row("""node set {node} --driver-info fake_fail='["deploy.erase_devices"]' --driver-info fake_wait='[]'"""),
    Row(f"node clean {{node}} {CLEAN} --wait", code=1, says="clean failed"),
    Row("node maintenance set {node}"),
    Row("node delete {node}"),
]

POWER = [
    Row(CREATE),
    Row("node power on {node}"),
    Row("until node {node} is power on"),
    Row("node power off {node} --soft --power-timeout 30"),
    Row("until node {node} is power off"),
    Row("node reboot {node}"),
    Row("until node {node} is power on"),
    Row("node reboot {node} --soft"),
    Row("until node {node} is power on"),
    Row("node power off {node}"),
    Row("until node {node} is power off"),
    Row("node show {node}", {"power_state": "power off", "target_power_state": None, "last_error": None}),
    Row("node power on nobody", code=1, says="nobody"),
    Row("node maintenance set {node} --reason 'new fan'"),
    Row("node show {node}", {"maintenance": True, "maintenance_reason": "new fan"}),
    Row("node list --maintenance --fields name", Has([{"name": "{node}"}])),
    Row("node maintenance unset {node}"),
    Row("node show {node}", {"maintenance": False, "maintenance_reason": None}),
    Row("node delete {node}"),
]

MANAGEMENT = [
    Row(CREATE),
    Row(
        "node validate {node}",
        Has(
            [
                {"Interface": "power", "Result": True},
                {"Interface": "deploy", "Result": True},
                {"Interface": "bios", "Result": True},
            ]
        ),
    ),
    Row("node boot device set {node} pxe"),
    Row("node boot device show {node}", {"boot_device": "pxe", "persistent": False}),
    Row("node boot device set {node} disk --persistent"),
    Row("node boot device show {node}", {"boot_device": "disk", "persistent": True}),
    Row("node boot device show {node} --supported", {"supported_boot_devices": lambda found: "pxe" in found}),
    Row("node boot device set {node} wanboot", code=1, says="wanboot"),
    Row("node boot device set {node} nonsense", code=2),
    Row("node console show {node}", {"console_enabled": False, "console_info": None}),
    Row("node console enable {node}"),
    Row("node console show {node}", {"console_enabled": True, "console_info": {"url": str.strip, "type": str.strip}}),
    Row("node console disable {node}"),
    Row("node console show {node}", {"console_enabled": False, "console_info": None}),
    Row("node manage {node} --wait"),
    Row("node bios setting list {node}", Has([{"name": "BootMode"}])),
    Row("node bios setting show {node} BootMode", {"name": "BootMode", "value": str.strip}),
    Row("node bios setting show {node} nonsense", code=1, says="nonsense"),
    Row("node inject nmi {node}"),
    Row("node passthru list {node}", Has([{"Name": "echo"}, {"Name": "pull_plug"}])),
    Row("node passthru call {node} echo --arg colour=blue", says="blue"),
    Row("node passthru call {node} effects --http-method GET", says="machine"),
    Row("node passthru call {node} nonsense", code=1, says="nonsense"),
    Row("""node set {node} --target-raid-config '{{"logical_disks": [{{"size_gb": 10, "raid_level": "1"}}]}}'"""),
    Row("node show {node}", {"target_raid_config": {"logical_disks": [{"size_gb": 10, "raid_level": "1"}]}}),
    Row("""node set {node} --target-raid-config '{{"nonsense": 1}}'""", code=1),
    Row("node unset {node} --target-raid-config", code=1),
    Row(
        """node clean {node} --wait --clean-steps '[{{"interface": "raid", "step": "create_configuration"}}]'""",
    ),
    Row("node show {node}", {"raid_config": {"logical_disks": lambda disks: disks}}),
    Row("node delete {node}"),
]

TRAITS = [
    Row(CREATE),
    Row("node trait list {node}", []),
    Row("node trait add {node} CUSTOM_B HW_CPU_X86_VMX", says="Added trait"),
    Row("node add trait {node} CUSTOM_A", says="Added trait CUSTOM_A"),
    Row("node trait list {node}", [{"traits": "CUSTOM_A"}, {"traits": "CUSTOM_B"}, {"traits": "HW_CPU_X86_VMX"}]),
    Row("node show {node} --fields traits", {"traits": ["CUSTOM_A", "CUSTOM_B", "HW_CPU_X86_VMX"]}),
    Row("node trait add {node} nonsense", code=1, says="nonsense"),
    Row("node trait remove {node} CUSTOM_B", says="Removed trait CUSTOM_B"),
    Row("node trait remove {node} CUSTOM_B", code=1, says="CUSTOM_B"),
    Row("node remove trait {node} --all"),
    Row("node trait list {node}", []),
    Row("node delete {node}"),
]

PORTS = [
    Row(CREATE),
    Row(
        "port create {mac} --node {uuid} --extra a=1 --physical-network physnet1 --pxe-enabled true "
        "--local-link-connection switch_id=0a:1b:2c:3d:4e:5f --local-link-connection port_id=Eth1 --uuid {port}",
        {
            "uuid": "{port}",
            "address": "{mac}",
            "node_uuid": "{uuid}",
            "extra": {"a": 1},
            "pxe_enabled": True,
            "physical_network": "physnet1",
            "local_link_connection": {"switch_id": "0a:1b:2c:3d:4e:5f", "port_id": "Eth1"},
        },
    ),
    Row("port create {mac} --node {uuid}", code=1, says="{mac}"),
    Row("port create nonsense --node {uuid}", code=1, says="MAC"),
    Row("port create 52:54:00:ff:ff:ff --node {port}", code=1, says="{port}"),
    Row("port list", Has([{"uuid": "{port}", "address": "{mac}"}])),
    Row("port list --node {node}", [{"uuid": "{port}"}]),
    Row("port list --address {mac} --fields uuid address", [{"uuid": "{port}", "address": "{mac}"}]),
    Row("port list --node {node} --long", [{"uuid": "{port}", "pxe_enabled": True}]),
    Row("port show {port}", {"address": "{mac}"}),
    Row("port show --address {mac}", {"uuid": "{port}"}),
    Row("port show {port} --fields address", {"address": "{mac}"}),
    Row("port show {node}", code=1),
    Row("port set {port} --address {other_mac} --extra b=2 --pxe-disabled"),
    Row("port show {port}", {"address": "{other_mac}", "extra": {"a": 1, "b": 2}, "pxe_enabled": False}),
    Row("port unset {port} --extra a --physical-network"),
    Row("port show {port}", {"extra": {"b": 2}, "physical_network": None}),
    Row("port delete {port}", says="Deleted port {port}"),
    Row("port delete {port}", code=1, says="{port}"),
    Row("node delete {node}"),
]

PORT_GROUPS = [
    Row(CREATE),
    Row(
        "port group create --node {uuid} --name {node}-bond --address {mac} --mode 802.3ad --property miimon=100 "
        "--extra a=1 --uuid {group}",
        {
            "uuid": "{group}",
            "name": "{node}-bond",
            "mode": "802.3ad",
            "properties": {"miimon": 100},
            "standalone_ports_supported": True,
        },
    ),
    Row("port group create --node {uuid} --name {node}-bond", code=1, says="{node}-bond"),
    Row("port group list", Has([{"uuid": "{group}", "name": "{node}-bond"}])),
    Row("port group list --node {node} --long", [{"uuid": "{group}"}]),
    Row("port group list --address {mac} --fields uuid", [{"uuid": "{group}"}]),
    Row("port group show {node}-bond", {"uuid": "{group}"}),
    Row("port group show --address {mac}", {"uuid": "{group}"}),
    Row("port create {other_mac} --node {uuid} --port-group {group} --uuid {port}", {"portgroup_uuid": "{group}"}),
    Row("port list --port-group {node}-bond", [{"uuid": "{port}"}]),
    Row("port group delete {group}", code=1),
    Row("port group set {group} --name {node}-team --mode active-backup --unsupport-standalone-ports", code=1),
    Row("port unset {port} --port-group"),
    Row("port group set {group} --name {node}-team --mode active-backup --extra b=2 --unsupport-standalone-ports"),
    Row(
        "port group show {group}",
        {"name": "{node}-team", "mode": "active-backup", "standalone_ports_supported": False, "extra": {"b": 2}},
    ),
    Row("port group unset {group} --address --extra a --property miimon"),
    Row("port group show {group}", {"address": None, "extra": {"b": 2}, "properties": {}}),
    Row("port group delete {node}-team", says="Deleted port group {node}-team"),
    Row("node delete {node}"),
]

CHASSIS = [
    Row("chassis create --description rack --extra a=1 --uuid {chassis}", {"uuid": "{chassis}", "extra": {"a": 1}}),
    Row("chassis create --uuid {chassis}", code=1, says="{chassis}"),
    Row("chassis list", Has([{"uuid": "{chassis}", "description": "rack"}])),
    Row("chassis list --long", Has([{"uuid": "{chassis}"}])),
    Row("chassis list --fields uuid extra", Has([{"uuid": "{chassis}", "extra": {"a": 1}}])),
    Row(f"{CREATE} --chassis-uuid {{chassis}}", {"chassis_uuid": "{chassis}"}),
    Row("node list --chassis {chassis} --fields name", [{"name": "{node}"}]),
    Row("chassis show {chassis}", {"description": "rack", "extra": {"a": 1}}),
    Row("chassis set {chassis} --description 'new rack' --extra b=2"),
    Row("chassis unset {chassis} --extra a"),
    Row("chassis show {chassis}", {"description": "new rack", "extra": {"b": 2}}),
    Row("chassis delete {chassis}", code=1),
    Row("node unset {node} --chassis-uuid"),
    Row("chassis delete {chassis}", says="Deleted chassis {chassis}"),
    Row("chassis show {chassis}", code=1),
    Row("node delete {node}"),
]

DRIVERS = [
    Row("driver list", Has([{"name": "fake-hardware"}, {"name": "redfish"}])),
    Row("driver list --type classic", []),
    Row("driver list --long", Has([{"name": "fake-hardware", "default_power_interface": "fake"}])),
    Row(
        "driver show fake-hardware",
        {"name": "fake-hardware", "type": "dynamic", "default_power_interface": "fake", "hosts": lambda h: h},
    ),
    Row("driver show nonsense", code=1, says="nonsense"),
    Row("driver property list redfish", Has([{"property": "redfish_address"}])),
    Row("driver property list nonsense", code=1),
    Row("driver raid property list fake-hardware", Has([{"property": "raid_level"}, {"property": "size_gb"}])),
    Row("driver passthru list fake-hardware", Has([{"name": "fleet"}])),
]

VIFS = [
    Row(f"{CREATE} --network-interface noop"),
    Row("port create {mac} --node {uuid} --uuid {port}"),
    Row("node vif list {node}", []),
    Row("node vif attach {node} {vif}"),
    Row("node vif list {node}", [{"id": "{vif}"}]),
    Row("node vif detach {node} {vif}"),
    Row("node vif list {node}", []),
    Row("node delete {node}"),
]

VOLUMES = [
    Row(CREATE),
    Row("node power off {node}"),
    Row("until node {node} is power off"),
    Row(
        "volume connector create --node {uuid} --type iqn --connector-id {iqn} --extra a=1 --uuid {connector}",
        {"uuid": "{connector}", "type": "iqn", "connector_id": "{iqn}", "node_uuid": "{uuid}", "extra": {"a": 1}},
    ),
    Row("volume connector create --node {uuid} --type iqn --connector-id {iqn}", code=1, says="already exists"),
    Row("volume connector create --node {port} --type ip --connector-id 10.0.0.1", code=1, says="{port}"),
    Row("volume connector list", Has([{"uuid": "{connector}", "connector_id": "{iqn}"}])),
    Row("volume connector list --node {node} --long", [{"uuid": "{connector}"}]),
    Row("volume connector show {connector}", {"connector_id": "{iqn}"}),
    Row("volume connector set {connector} --connector-id {iqn}-2 --extra b=2"),
    Row("volume connector unset {connector} --extra a"),
    Row("volume connector show {connector}", {"connector_id": "{iqn}-2", "extra": {"b": 2}}),
    Row(
        "volume target create --node {uuid} --type iscsi --boot-index 0 --volume-id vol-1 --uuid {target} "
        "--property target_iqn={iqn} --property auth_password=hunter2",
        {
            "uuid": "{target}",
            "volume_type": "iscsi",
            "boot_index": 0,
            "properties": {"target_iqn": "{iqn}", "auth_password": "******"},
        },
    ),
    Row("volume target create --node {uuid} --type iscsi --boot-index 0 --volume-id x", code=1, says="boot index"),
    Row("volume target list --node {node}", [{"uuid": "{target}", "volume_id": "vol-1"}]),
    Row("volume target list --fields uuid boot_index", Has([{"uuid": "{target}", "boot_index": 0}])),
    Row("volume target set {target} --boot-index 1 --volume-id vol-2 --extra b=2"),
    Row("volume target unset {target} --extra b --property target_iqn"),
    Row(
        "volume target show {target}",
        {"boot_index": 1, "volume_id": "vol-2", "extra": {}, "properties": {"auth_password": "******"}},
    ),
    Row("node power on {node}"),
    Row("until node {node} is power on"),
    Row("volume target set {target} --boot-index 2", code=1, says="power"),
    Row("node power off {node}"),
    Row("until node {node} is power off"),
    Row("volume target delete {target}", says="Deleted volume target {target}"),
    Row("volume target show {target}", code=1, says="{target}"),
    Row("volume connector delete {connector}", says="Deleted volume connector {connector}"),
    Row("volume connector delete {connector}", code=1, says="{connector}"),
    Row("node delete {node}"),
]

VERSIONS = [
    Row(CREATE),
    Row("--os-baremetal-api-version 1.31 node show {node}", lambda shown: "storage_interface" not in shown),
    Row("--os-baremetal-api-version latest node show {node}", {"name": "{node}"}),
    Row("--os-baremetal-api-version 1.999 node show {node}", code=1, says="1.999"),
    Row("--os-baremetal-api-version 1.36 node trait list {node}", code=1),
    Row("--os-baremetal-api-version 1.22 port group list", code=1),
    Row("--os-baremetal-api-version 1.20 node list --resource-class x", code=1, says="1.20"),
    Row("node delete {node}"),
]

GROUPS: dict[str, list[Row]] = {
    "nodes": NODES,
    "states": STATES,
    "waiting": WAITING,
    "power": POWER,
    "management": MANAGEMENT,
    "traits": TRAITS,
    "ports": PORTS,
    "port groups": PORT_GROUPS,
    "chassis": CHASSIS,
    "drivers": DRIVERS,
    "vifs": VIFS,
    "volumes": VOLUMES,
    "versions": VERSIONS,
}
