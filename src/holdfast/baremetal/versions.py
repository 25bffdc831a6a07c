"""The bare-metal API's microversions, each with its one-line story.

`MAXIMUM` is advertised because everything up to it is built. Fields and routes name the version that
brought them in their own tables; nothing else mentions versions.
"""

from __future__ import annotations

from holdfast.web.versions import Negotiation, Version

VERSIONS: dict[Version, str] = {
    Version(1, minor): story
    for minor, story in {
        1: "Nodes, ports, chassis, drivers, vendor passthru, maintenance with a reason.",
        2: "The provision state of a free node is called `available` instead of null.",
        3: "`driver_internal_info` of nodes.",
        4: "State `manageable`; verbs `manage` and `provide`.",
        5: "Node names, usable wherever a node is identified.",
        6: "Verb `inspect`; `inspection_started_at` and `inspection_finished_at`.",
        7: "`clean_step` of nodes.",
        8: "`fields=` on nodes, ports and chassis.",
        9: "Filter nodes by `provision_state`.",
        10: "Names may use every unreserved character of RFC 3986.",
        11: "New nodes start in `enroll`.",
        12: "RAID: `raid_config`, `target_raid_config`, PUT states/raid, logical disk properties.",
        13: "Verb `abort`.",
        14: "Links `states` in nodes and `properties` in drivers.",
        15: "Verb `clean` with `clean_steps`.",
        16: "Filter nodes by `driver`.",
        17: "Verb `adopt`.",
        18: "`internal_info` of ports.",
        19: "`local_link_connection` and `pxe_enabled` of ports.",
        20: "`network_interface` of nodes.",
        21: "`resource_class` of nodes, and the filter.",
        22: "Ramdisk lookup and heartbeat.",
        23: "Port groups.",
        24: "Port groups of a node, ports of a port group, `portgroup_uuid` of ports.",
        25: "A node's `chassis_uuid` may be unset.",
        26: "`mode` and `properties` of port groups.",
        27: "Soft power off and soft reboot, with a timeout.",
        28: "VIFs of nodes: list, attach, detach.",
        29: "Inject an NMI.",
        30: "Drivers tell their type and their default and enabled interfaces.",
        31: "Interface fields of nodes.",
        32: "Volume connectors and targets.",
        33: "`storage_interface`.",
        34: "`physical_network` of ports.",
        35: "A config drive with `rebuild`, too.",
        36: "`agent_version` in heartbeats.",
        37: "Node traits.",
        38: "Verbs `rescue` and `unrescue`; `rescue_interface`.",
        39: "State `inspect wait` is shown; nodes under inspection cannot be patched.",
        40: "BIOS settings; `bios_interface`.",
        41: "`abort` while inspection waits.",
        42: "`fault` of nodes, and the filter.",
        43: "`detail=` on lists.",
        44: "`deploy_step` of nodes.",
        45: "`reset_interfaces` when a node's driver changes.",
        46: "`conductor_group` of nodes, and the filter.",
        47: "`automated_clean` of nodes, which overrides the option.",
        48: "`protected` nodes cannot be undeployed, rebuilt or deleted; `protected_reason`.",
        49: "Conductors; `conductor` of nodes, and the filter.",
        50: "`owner` of nodes, and the filter.",
        51: "`description` of nodes; filter `description_contains`.",
        52: "Allocations; `allocation_uuid` of nodes, and the allocation of a node.",
        53: "`is_smartnic` of ports.",
        54: "Events of other services.",
        55: "Deploy templates.",
        56: "A config drive given as an object, which the service builds.",
        57: "Name and `extra` of an allocation may change.",
        58: "An allocation for a node that is in use already.",
        59: "`vendor_data` in a config drive.",
        60: "`owner` of allocations, and the filter.",
        61: "`retired` nodes are not offered again; `retired_reason`, and the filter.",
        62: "Ramdisks get a token with their lookup and show it with every heartbeat.",
        63: "Indicators: the lights of a machine.",
        64: "`network_type` in a port's `local_link_connection`.",
        65: "`lessee` of nodes, and the filter; allocations match nodes their owner leases.",
        66: "`network_data` of nodes.",
        67: "A VIF may be attached to a port or port group of one's choice.",
        68: "`agent_verify_ca` in heartbeats.",
        69: "`deploy_steps` with `active` and `rebuild`.",
        70: "`disable_ramdisk` with `clean`.",
        71: "System scope and project scope in policies.",
        72: "`agent_status` and `agent_status_message` in heartbeats.",
    }.items()
}

# What clients know of later versions. They are told so, rather than that there is no such thing.
LATER_PATHS = (
    ("/states/boot_mode", Version(1, 76)),
    ("/states/secure_boot", Version(1, 76)),
    ("/history", Version(1, 78)),
    ("/inventory", Version(1, 81)),
    ("/shards", Version(1, 82)),
    ("/children", Version(1, 83)),
    ("/firmware", Version(1, 86)),
    ("/vmedia", Version(1, 89)),
    ("/runbooks", Version(1, 92)),
    ("/inspection_rules", Version(1, 96)),
)

MINIMUM = min(VERSIONS)
MAXIMUM = max(VERSIONS)

NEGOTIATION = Negotiation("baremetal", "X-OpenStack-Ironic-API-Version", MINIMUM, MAXIMUM)
