"""Every command in the "Client (CLI) impact" sections of specs 000, 001 and 003, with all its options, as data.

`{node}` and the like are filled in by the test. Each row is run against a running service, in order:
later rows use what earlier ones made.
"""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    command: str
    shows: str = ""  # what its output must contain, filled in like the command
    fails: bool = False


CONNECTOR = "11111111-1111-4111-8111-111111111111"
SECOND_CONNECTOR = "22222222-2222-4222-8222-222222222222"
TARGET = "33333333-3333-4333-8333-333333333333"
SECOND_TARGET = "44444444-4444-4444-8444-444444444444"
VIF = "8e6ba175-1c16-4dfa-82b9-dfc12f129170"
IQN = "iqn.2026-01.com.example:spec"

IRONIC_CONNECTORS = [
    Row(
        f"ironic volume-connector-create --node {{node}} --type iqn --connector_id {IQN} -e rack=7 -u {CONNECTOR}", IQN
    ),
    Row(
        f"ironic volume-connector-create --node {{node}} --type ip --connector_id 192.0.2.9 -u {SECOND_CONNECTOR}", "ip"
    ),
    Row(f"ironic volume-connector-create --node {{node}} --type iqn --connector_id {IQN}", fails=True),
    Row("ironic volume-connector-list", IQN),
    Row("ironic volume-connector-list --detail", "created_at"),
    Row("ironic volume-connector-list --type iqn", CONNECTOR),
    Row(f"ironic volume-connector-list --connector_id {IQN}", CONNECTOR),
    Row(f"ironic volume-connector-list --limit 1 --marker {CONNECTOR}", SECOND_CONNECTOR),
    Row("ironic volume-connector-list --sort-key type --sort-dir desc", SECOND_CONNECTOR),
    Row("ironic volume-connector-list --fields uuid type", CONNECTOR),
    Row(f"ironic volume-connector-show {CONNECTOR}", IQN),
    Row(f"ironic volume-connector-show --fields uuid type {CONNECTOR}", "iqn"),
    Row("ironic node-volume-connector-list {node}", CONNECTOR),
    Row("ironic node-volume-connector-list --detail {node}", "updated_at"),
    Row(f"ironic node-volume-connector-list --limit 1 --marker {CONNECTOR} {{node}}", SECOND_CONNECTOR),
    Row("ironic node-volume-connector-list --sort-key type --sort-dir desc {node}", CONNECTOR),
    Row("ironic node-volume-connector-list --fields uuid connector_id {node}", IQN),
    Row(f"ironic volume-connector-update {CONNECTOR} add extra/shelf=3", "3"),
    Row(f"ironic volume-connector-update {CONNECTOR} replace connector_id={IQN}-2 extra/shelf=4", f"{IQN}-2"),
    Row(f"ironic volume-connector-update {CONNECTOR} remove extra/shelf", f"{IQN}-2"),
    Row(f"ironic volume-connector-delete {CONNECTOR} {SECOND_CONNECTOR}", SECOND_CONNECTOR),
    Row(f"ironic volume-connector-show {CONNECTOR}", fails=True),
]

IRONIC_TARGETS = [
    Row(
        "ironic volume-target-create --node {node} --volume_type iscsi --volume_id vol-1 "
        f"--properties target_iqn={IQN} --properties target_lun=1 --boot_index 0 -e a=1 -u {TARGET}",
        "vol-1",
    ),
    Row(
        "ironic volume-target-create --node {node} --volume_type iscsi --volume_id vol-2 --boot_index 1 "
        f"-u {SECOND_TARGET}",
        "vol-2",
    ),
    Row("ironic volume-target-create --node {node} --volume_type iscsi --volume_id vol-3 --boot_index 1", fails=True),
    Row("ironic volume-target-list", TARGET),
    Row("ironic volume-target-list --detail", IQN),
    Row("ironic volume-target-list --volume_type iscsi", TARGET),
    Row("ironic volume-target-list --volume_id vol-2", SECOND_TARGET),
    Row("ironic volume-target-list --boot_index 1", SECOND_TARGET),
    Row(f"ironic volume-target-list --limit 1 --marker {TARGET}", SECOND_TARGET),
    Row("ironic volume-target-list --sort-key boot_index --sort-dir desc", TARGET),
    Row("ironic volume-target-list --fields uuid volume_id", "vol-1"),
    Row(f"ironic volume-target-show {TARGET}", IQN),
    Row(f"ironic volume-target-show --fields uuid volume_id {TARGET}", "vol-1"),
    Row("ironic node-volume-target-list {node}", TARGET),
    Row("ironic node-volume-target-list --detail {node}", IQN),
    Row(f"ironic node-volume-target-list --limit 1 --marker {TARGET} {{node}}", SECOND_TARGET),
    Row("ironic node-volume-target-list --sort-key boot_index --sort-dir desc {node}", TARGET),
    Row(f"ironic volume-target-update {TARGET} replace volume_id=vol-9 properties/target_lun=2", "vol-9"),
    Row(f"ironic volume-target-update {TARGET} remove properties/target_lun", "vol-9"),
    Row(f"ironic volume-target-delete {TARGET} {SECOND_TARGET}", TARGET),
]

IRONIC_VIFS = [
    Row(f"ironic node-vif-attach {{node}} {VIF}"),
    Row("ironic node-vif-list {node}", VIF),
    Row(f"ironic node-vif-detach {{node}} {VIF}"),
]

OPENSTACK_CONNECTORS = [
    Row(
        f"openstack baremetal volume connector create -f json --node {{node}} --type iqn --connector-id {IQN} "
        f"--extra rack=7 --uuid {CONNECTOR}",
        IQN,
    ),
    Row("openstack baremetal volume connector list -f csv --quote all --long", IQN),
    Row("openstack baremetal volume connector list --limit 1 --sort type:desc", CONNECTOR),
    Row("openstack baremetal volume connector list --fields uuid type", CONNECTOR),
    Row(f"openstack baremetal volume connector list --marker {CONNECTOR}"),
    Row(
        "openstack baremetal volume connector set --node {node} --type ip --connector-id 192.0.2.9 "
        f"--extra a=b {CONNECTOR}"
    ),
    Row(f"openstack baremetal volume connector show -f shell --prefix x_ {CONNECTOR}", "x_connector_id"),
    Row(f"openstack baremetal volume connector show --fields uuid type -f value -c type -- {CONNECTOR}", "ip"),
    Row(f"openstack baremetal volume connector unset --extra a {CONNECTOR}"),
    Row(f"openstack baremetal volume connector delete {CONNECTOR}"),
]

OPENSTACK_TARGETS = [
    Row(
        "openstack baremetal volume target create -f yaml --node {node} --type iscsi --volume-id vol-1 "
        f"--property target_iqn={IQN} --boot-index 0 --extra a=1 --uuid {TARGET}",
        "vol-1",
    ),
    Row("openstack baremetal volume target list -f json --long", IQN),
    Row("openstack baremetal volume target list --limit 1 --sort boot_index:desc", TARGET),
    Row(
        "openstack baremetal volume target set --node {node} --type iscsi --volume-id vol-2 "
        f"--property target_lun=1 --boot-index 1 --extra b=2 {TARGET}"
    ),
    Row(f"openstack baremetal volume target show --max-width 80 {TARGET}", "vol-2"),
    Row(f"openstack baremetal volume target unset --property target_lun --extra b {TARGET}"),
    Row(f"openstack baremetal volume target delete {TARGET}"),
]

OPENSTACK_TRAITS = [
    Row("openstack baremetal node add trait {node} CUSTOM_FOO CUSTOM_BAR", "CUSTOM_FOO"),
    Row("openstack baremetal node list --fields uuid name traits", "CUSTOM_FOO"),
    Row("openstack baremetal node show {node} --fields uuid name traits", "CUSTOM_BAR"),
    Row("openstack baremetal node trait list {node}", "CUSTOM_BAR"),
    Row("openstack baremetal node add trait {node} CUSTOM_RED"),
    Row("openstack baremetal node add trait {other} CUSTOM_RED CUSTOM_BLUE"),
    Row("openstack baremetal node list --trait CUSTOM_RED --not-trait CUSTOM_BLUE", "{node}"),
    Row("openstack baremetal node list --trait-any CUSTOM_RED CUSTOM_BLUE", "{other}"),
    Row("openstack baremetal node list --not-trait-any CUSTOM_FOO CUSTOM_BAR", "{other}"),
    Row("openstack baremetal node list --trait CUSTOM_RED CUSTOM_BLUE --long --limit 5 --sort uuid:desc", "{other}"),
    Row("openstack baremetal node list --trait CUSTOM_RED --explain -f value -c UUID", "{node}"),
    Row("openstack baremetal node list --trait nonsense", fails=True),
    Row("openstack baremetal node remove trait {node} CUSTOM_FOO CUSTOM_BAR", "CUSTOM_FOO"),
    Row("openstack baremetal node remove trait --all {node}"),
]

OPENSTACK_VIFS = [
    Row(f"openstack baremetal node vif attach {{node}} {VIF}"),
    Row("openstack baremetal node vif list {node}", VIF),
    Row(f"openstack baremetal node vif detach {{node}} {VIF}"),
]

ALL = {
    "ironic connectors": IRONIC_CONNECTORS,
    "ironic targets": IRONIC_TARGETS,
    "ironic VIFs": IRONIC_VIFS,
    "openstack connectors": OPENSTACK_CONNECTORS,
    "openstack targets": OPENSTACK_TARGETS,
    "openstack traits": OPENSTACK_TRAITS,
    "openstack VIFs": OPENSTACK_VIFS,
}
