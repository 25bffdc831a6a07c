"""The rules of the bare-metal API, under the names and with the default meaning operators of Ironic know.

Roles come from Keystone, where admin implies manager, manager implies member, member implies reader.
A *system* token reaches every node; a *project* token the nodes its project owns or leases. The
dozen grants below are rules too, so a policy file can change what, say, `node_user` means once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from holdfast.config import INTERFACES
from holdfast.web.auth import Caller
from holdfast.web.policy import ANYBODY, NOBODY, Policy, Rule, defaults, node_target

SYSTEM = ("system",)
ANY_SCOPE = ("system", "project")

_OWNER = "project_id:%(node.owner)s"
_LESSEE = "project_id:%(node.lessee)s"
_ALLOCATION_OWNER = "project_id:%(allocation.owner)s"
_OWNER_SERVICE = f"(role:service and {_OWNER})"
_OWNER_LEADERS = f"((role:admin or role:manager) and {_OWNER})"
_LESSEE_LEADERS = f"((role:admin or role:manager) and {_LESSEE})"
_SYSTEM_SERVICE = "(role:service and system_scope:all)"

GRANTS = (
    Rule("system_admin", "role:admin and system_scope:all", "Administrators of the whole system"),
    Rule("system_service", _SYSTEM_SERVICE, "Services with a system token"),
    Rule(
        "service_role",
        "role:service and project_name:%(config.service_project_name)s",
        "Services of the service project; needs rbac_service_role_elevated_access",
    ),
    Rule(
        "system_member",
        "(role:member and system_scope:all) or rule:service_role",
        "Operators of the whole system",
    ),
    Rule(
        "system_reader",
        f"(role:reader and system_scope:all) or {_SYSTEM_SERVICE} or rule:service_role",
        "Whoever may look at the whole system",
    ),
    Rule(
        "node_reader",
        f"rule:system_reader or (role:reader and ({_OWNER} or {_LESSEE})) or {_OWNER_SERVICE}",
        "Whoever may look at the node: also readers of the owner and of the lessee",
    ),
    Rule(
        "node_owner_reader",
        f"rule:system_reader or (role:reader and {_OWNER}) or {_OWNER_SERVICE}",
        "Whoever may look at the node's inner life: also readers of the owner, not of the lessee",
    ),
    Rule(
        "node_user",
        f"rule:system_member or rule:system_service or (role:member and ({_OWNER} or {_LESSEE}))",
        "Whoever may use the node: also members of the owner and of the lessee",
    ),
    Rule(
        "node_operator",
        f"rule:node_owner or {_LESSEE_LEADERS}",
        "Whoever may provision the node: also members of the owner, managers of the lessee",
    ),
    Rule(
        "node_owner",
        f"rule:system_member or rule:system_service or (role:member and {_OWNER}) or {_OWNER_SERVICE}",
        "Whoever may set the node up: also members of the owner",
    ),
    Rule(
        "node_owner_admin",
        f"rule:system_member or rule:system_service or {_OWNER_LEADERS} or {_OWNER_SERVICE}",
        "Whoever may change how the node works: also managers and administrators of the owner",
    ),
    Rule(
        "hardware_admin",
        f"rule:system_admin or rule:system_service or {_OWNER_LEADERS} or {_OWNER_SERVICE}",
        "Whoever may add and remove parts of the node",
    ),
    Rule(
        "storage_admin",
        f"rule:node_owner_admin or {_LESSEE_LEADERS}",
        "Whoever may add and remove volumes of the node",
    ),
    Rule(
        "allocation_reader",
        f"rule:system_reader or (role:reader and {_ALLOCATION_OWNER})",
        "Whoever may look at the allocation: also readers of its owner",
    ),
    Rule(
        "allocation_member",
        f"rule:system_member or (role:member and {_ALLOCATION_OWNER})",
        "Whoever may change the allocation: also members of its owner",
    ),
    Rule("anyone_listing", "role:reader or role:service", "Whoever has a role; a list shows only what they own"),
    # Names that policy files written for Ironic refer to; none of our defaults do.
    Rule("admin_api", "role:admin or role:administrator", "The administrator role, in any scope"),
    Rule("is_admin", "rule:admin_api or (rule:is_member and role:baremetal_admin)", "Administrators, as once"),
    Rule("is_observer", "rule:is_member and (role:observer or role:baremetal_observer)", "Readers, as once"),
    Rule(
        "is_member",
        "project_domain_id:default and (project_name:demo or project_name:baremetal)",
        "Members of the projects demo and baremetal",
    ),
    Rule("is_node_owner", _OWNER, "The token's project owns the node"),
    Rule("is_allocation_owner", _ALLOCATION_OWNER, "The token's project owns the allocation"),
    Rule("is_node_lessee", _LESSEE, "The token's project leases the node"),
    Rule("public_api", "is_public_api:True", "The path needs no credentials"),
)

SECRETS = (
    Rule("show_password", NOBODY, "See passwords inside driver_info", shows_secrets=True),
    Rule("show_instance_secrets", NOBODY, "See secrets inside instance_info", shows_secrets=True),
)

# grant: rule -> what it lets one do
_BY_GRANT: dict[str, dict[str, str]] = {
    "anyone_listing": {
        "baremetal:node:list": "List the nodes one's project owns or leases",
        "baremetal:port:list": "List the ports of those nodes",
        "baremetal:portgroup:list": "List the port groups of those nodes",
        "baremetal:volume:list": "List the volume connectors and targets of those nodes",
        "baremetal:allocation:list": "List the allocations one's project owns",
    },
    "system_reader": {
        "baremetal:node:list_all": "List every node",
        "baremetal:port:list_all": "List every port",
        "baremetal:portgroup:list_all": "List every port group",
        "baremetal:volume:list_all": "List every volume connector and target",
        "baremetal:allocation:list_all": "List every allocation",
        "baremetal:node:get:filter_threshold": "See what is hidden from those who only see their own nodes",
        "holdfast:flow:get": "List flows and see their steps",
    },
    "system_member": {
        "baremetal:node:update:owner": "Give the node to another project",
        "baremetal:allocation:create_restricted": "Create an allocation for another project, or for none",
        "baremetal:node:update:conductor_group": "Move the node to another conductor group",
        "holdfast:flow:repair": "Retry or abandon a flow that is stuck",
    },
    "system_admin": {
        "baremetal:node:delete": "Delete any node",
        "baremetal:node:update:chassis_uuid": "Move the node to another chassis",
        "baremetal:node:vendor_passthru": "Call vendor methods of the node's driver",
    },
    "allocation_reader": {
        "baremetal:allocation:get": "See an allocation",
    },
    "allocation_member": {
        "baremetal:allocation:update": "Change the name and extra of an allocation",
        "baremetal:allocation:delete": "Delete an allocation",
    },
    "node_reader": {
        "baremetal:node:get": "See the node",
        "baremetal:node:get_states": "See the node's states",
        "baremetal:node:traits:list": "List the node's traits",
        "baremetal:node:bios:get": "See the node's BIOS settings",
        "baremetal:node:get_indicator_state": "See the lights on the machine",
        "baremetal:node:vif:list": "List the node's VIFs",
        "baremetal:port:get": "See a port",
        "baremetal:portgroup:get": "See a port group",
        "baremetal:volume:get": "See a volume connector or target",
    },
    "node_owner_reader": {
        "baremetal:node:get:last_error": "See the node's last error",
        "baremetal:node:get:reservation": "See who holds the node",
        "baremetal:node:get:driver_internal_info": "See what the driver keeps about the node",
        "baremetal:node:get:driver_info": "See how the node's BMC is reached, without secrets",
    },
    "node_user": {
        "baremetal:node:update": "Change the node, as far as no other rule guards the field",
        "baremetal:node:update_extra": "Change the node's extra",
        "baremetal:node:set_power_state": "Switch the node on, off, or restart it",
    },
    "node_operator": {
        "baremetal:node:update_instance_info": "Change the node's instance_info",
        "baremetal:node:validate": "Ask whether the node's interfaces have all they need",
        "baremetal:node:set_maintenance": "Put the node into maintenance",
        "baremetal:node:clear_maintenance": "End the node's maintenance",
        "baremetal:node:set_provision_state": "Deploy, clean, inspect, rescue the node, and every other verb",
        "baremetal:node:set_provision_state:clean_steps": "Choose the steps of a manual cleaning",
        "baremetal:node:vif:attach": "Attach a VIF to the node",
        "baremetal:node:vif:detach": "Detach a VIF from the node",
        "baremetal:volume:update": "Change a volume connector or target",
    },
    "node_owner": {
        "baremetal:node:update:driver_info": "Change how the node's BMC is reached",
        "baremetal:node:update:properties": "Change the node's properties",
        "baremetal:node:update:instance_uuid": "Say which instance is on the node",
        "baremetal:node:update:lessee": "Lease the node to a project",
        "baremetal:node:update:name": "Rename the node",
        "baremetal:node:set_raid_state": "Set the RAID configuration to build",
        "baremetal:node:get_console": "See where the node's console is",
        "baremetal:node:set_console_state": "Switch the node's console on or off",
    },
    "node_owner_admin": {
        "baremetal:node:update:driver_interfaces": "Change the node's driver and interfaces",
        "baremetal:node:get_boot_device": "Ask for the node's boot device",
        "baremetal:node:set_boot_device": "Set the node's boot device",
        "baremetal:node:set_indicator_state": "Switch the lights on the machine",
        "baremetal:node:inject_nmi": "Send the node a non-masking interrupt",
        "baremetal:node:traits:set": "Add or replace the node's traits",
        "baremetal:node:traits:delete": "Remove traits from the node",
        "baremetal:port:update": "Change a port",
        "baremetal:portgroup:update": "Change a port group",
    },
    "hardware_admin": {
        "baremetal:port:create": "Create a port",
        "baremetal:port:delete": "Delete a port",
        "baremetal:portgroup:create": "Create a port group",
        "baremetal:portgroup:delete": "Delete a port group",
    },
    "storage_admin": {
        "baremetal:volume:create": "Create a volume connector or target",
        "baremetal:volume:delete": "Delete a volume connector or target",
    },
}

_SYSTEM_ONLY: dict[str, dict[str, str]] = {
    "system_reader": {
        "baremetal:chassis:get": "List and see chassis",
        "baremetal:conductor:get": "List and see conductors",
        "baremetal:deploy_template:get": "List and see deploy templates",
        "baremetal:driver:get": "List and see drivers",
        "baremetal:driver:get_properties": "See what a driver needs to know about a node",
        "baremetal:driver:get_raid_logical_disk_properties": "See what a driver knows about logical disks",
    },
    "system_member": {
        "baremetal:chassis:update": "Change a chassis",
    },
    "system_admin": {
        "baremetal:chassis:create": "Create a chassis",
        "baremetal:chassis:delete": "Delete a chassis",
        "baremetal:deploy_template:create": "Create a deploy template",
        "baremetal:deploy_template:update": "Change a deploy template",
        "baremetal:deploy_template:delete": "Delete a deploy template",
        "baremetal:driver:vendor_passthru": "Call vendor methods of a driver",
        "baremetal:events:post": "Tell what happened in another service",
        "baremetal:node:update_owner_provisioned": "Change the owner of a node that is in use",
    },
}

_SINGLE = (
    Rule("baremetal:node:create", "rule:system_admin or rule:system_service", "Create any node", ANY_SCOPE),
    Rule(
        "baremetal:node:create:self_owned_node",
        "role:admin or role:service",
        "Create a node that belongs to one's own project",
        ANY_SCOPE,
    ),
    Rule(
        "baremetal:node:delete:self_owned_node",
        f"role:admin and {_OWNER}",
        "Delete a node that belongs to one's own project",
        ANY_SCOPE,
    ),
    Rule(
        "baremetal:volume:view_target_properties",
        "rule:system_reader or role:admin",
        "See how a volume target is reached, without secrets",
        ANY_SCOPE,
    ),
    Rule(
        "baremetal:allocation:create",
        "rule:system_member or role:member",
        "Create an allocation for one's own project",
        ANY_SCOPE,
    ),
    Rule("baremetal:driver:ipa_lookup", ANYBODY, "A ramdisk asks which node it runs on"),
    Rule("baremetal:node:ipa_heartbeat", ANYBODY, "A ramdisk says that it is alive"),
)


def _granted(table: dict[str, dict[str, str]], scopes: tuple[str, ...]) -> Iterator[Rule]:
    for grant, rules in table.items():
        for name, description in rules.items():
            yield Rule(name, f"rule:{grant}", description, scopes)


RULES: tuple[Rule, ...] = (
    *GRANTS,
    *SECRETS,
    *_SINGLE,
    *_granted(_BY_GRANT, ANY_SCOPE),
    *_granted(_SYSTEM_ONLY, SYSTEM),
)


def list_rules() -> list[Any]:
    """What oslopolicy-sample-generator and its siblings ask for, by entry point."""
    return defaults(RULES)


# A patch of these fields needs the rule beside them; of all others `baremetal:node:update`.
_PATCH_RULES = {
    "chassis_uuid": "baremetal:node:update:chassis_uuid",
    "conductor_group": "baremetal:node:update:conductor_group",
    "driver": "baremetal:node:update:driver_interfaces",
    "driver_info": "baremetal:node:update:driver_info",
    "extra": "baremetal:node:update_extra",
    "instance_info": "baremetal:node:update_instance_info",
    "instance_uuid": "baremetal:node:update:instance_uuid",
    "lessee": "baremetal:node:update:lessee",
    "name": "baremetal:node:update:name",
    "owner": "baremetal:node:update:owner",
    "properties": "baremetal:node:update:properties",
    **{f"{interface}_interface": "baremetal:node:update:driver_interfaces" for interface in INTERFACES},
}

# Fields whose content a caller sees only with the rule beside them.
_READ_RULES = {
    "last_error": "baremetal:node:get:last_error",
    "reservation": "baremetal:node:get:reservation",
    "driver_internal_info": "baremetal:node:get:driver_internal_info",
    "driver_info": "baremetal:node:get:driver_info",
}


def patch_rules(fields: Iterable[str]) -> list[str]:
    """The rules a patch of these node fields needs, all of them."""
    return sorted({_PATCH_RULES.get(field, "baremetal:node:update") for field in fields}) or ["baremetal:node:update"]


def hidden_fields(policy: Policy, caller: Caller, owner: str | None, lessee: str | None) -> list[str]:
    """The fields of a node whose content this caller must not see. Nearly always none, found by one check."""
    if policy.allows("baremetal:node:get:filter_threshold", caller):
        return []
    target = node_target(owner, lessee)
    return [field for field, rule in _READ_RULES.items() if not policy.allows(rule, caller, target)]
