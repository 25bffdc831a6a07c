"""Every table, in one file.

Conventions: `id` is internal and orders lists by insertion; `uuid` is what the APIs speak. Times are
UTC in one fixed-width ISO 8601 form kept as text: they sort as text and go to the wire unchanged, on
both databases. JSON documents are text too, passed to the wire without being decoded.
Constraints live here, not only in code.
"""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
    true,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

TIME = String(32)
JSON_OBJECT = text("'{}'")
JSON_LIST = text("'[]'")


def _json(name: str, default: str = "{}") -> Column[str]:
    return Column(name, Text, nullable=False, server_default=text(f"'{default}'"))


def _identity() -> tuple[Column[int], Column[str]]:
    return (
        Column("id", Integer, primary_key=True, autoincrement=True),
        Column("uuid", String(36), nullable=False, unique=True),
    )


def _times() -> tuple[Column[str], Column[str]]:
    return (
        Column("created_at", TIME, nullable=False),
        Column("updated_at", TIME),
    )


chassis = Table(
    "chassis",
    metadata,
    *_identity(),
    *_times(),
    Column("description", String(255)),
    _json("extra"),
    sqlite_autoincrement=True,
)

nodes = Table(
    "nodes",
    metadata,
    *_identity(),
    *_times(),
    Column("name", String(255), unique=True),
    Column("chassis_id", ForeignKey("chassis.id"), index=True),
    Column("instance_uuid", String(36), unique=True),
    Column("driver", String(255), nullable=False, index=True),
    _json("driver_info"),
    _json("driver_internal_info"),
    _json("properties"),
    _json("instance_info"),
    _json("extra"),
    Column("resource_class", String(80), index=True),
    Column("conductor_group", String(255), nullable=False, server_default=""),
    Column("description", Text),
    # Which projects may see and use the node: see baremetal/scoping.py
    Column("owner", String(255), index=True),
    Column("lessee", String(255), index=True),
    _json("network_data"),
    # Null: as the option says
    Column("automated_clean", Boolean),
    Column("protected", Boolean, nullable=False, server_default=false()),
    Column("protected_reason", Text),
    Column("retired", Boolean, nullable=False, server_default=false()),
    Column("retired_reason", Text),
    # Power
    Column("power_state", String(15)),
    Column("target_power_state", String(15)),
    Column("power_sync_due_at", TIME, index=True),
    Column("power_sync_failures", Integer, nullable=False, server_default=text("0")),
    # Provisioning
    Column("provision_state", String(15), nullable=False, index=True),
    Column("target_provision_state", String(15)),
    Column("provision_updated_at", TIME),
    Column("last_error", Text),
    # When its ramdisk called, until a flow has looked at it
    Column("heartbeat_pending", TIME),
    Column("inspection_started_at", TIME),
    Column("inspection_finished_at", TIME),
    _json("clean_step"),
    _json("deploy_step"),
    _json("raid_config"),
    _json("target_raid_config"),
    # Maintenance
    Column("maintenance", Boolean, nullable=False, server_default=false()),
    Column("maintenance_reason", Text),
    Column("fault", String(255)),
    Column("console_enabled", Boolean, nullable=False, server_default=false()),
    # The lock: "<flow kind>/<flow id>" while a flow works on the node, see baremetal/locks.py
    Column("reservation", String(255), index=True),
    # The interfaces the node's hardware type composes
    Column("bios_interface", String(255)),
    Column("boot_interface", String(255)),
    Column("console_interface", String(255)),
    Column("deploy_interface", String(255)),
    Column("inspect_interface", String(255)),
    Column("management_interface", String(255)),
    Column("network_interface", String(255)),
    Column("power_interface", String(255)),
    Column("raid_interface", String(255)),
    Column("rescue_interface", String(255)),
    Column("storage_interface", String(255)),
    Column("vendor_interface", String(255)),
    sqlite_autoincrement=True,
)

# Spec 001: the key, index and cascade it asks for. The index carries the node too, so that the nodes
# with a trait are read from it in the order of lists (see baremetal/trait_filters.py).
node_traits = Table(
    "node_traits",
    metadata,
    Column("node_id", ForeignKey("nodes.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("trait", String(255), primary_key=True),
    Index("ix_node_traits_trait", "trait", "node_id"),
    sqlite_with_rowid=False,
)

portgroups = Table(
    "portgroups",
    metadata,
    *_identity(),
    *_times(),
    Column("node_id", ForeignKey("nodes.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("name", String(255), unique=True),
    Column("address", String(18), unique=True),
    Column("mode", String(255), nullable=False),
    Column("standalone_ports_supported", Boolean, nullable=False, server_default=true()),
    _json("properties"),
    _json("extra"),
    _json("internal_info"),
    sqlite_autoincrement=True,
)

ports = Table(
    "ports",
    metadata,
    *_identity(),
    *_times(),
    Column("node_id", ForeignKey("nodes.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("address", String(18), nullable=False, unique=True),
    Column("portgroup_id", ForeignKey("portgroups.id"), index=True),
    Column("pxe_enabled", Boolean, nullable=False, server_default=true()),
    Column("physical_network", String(64)),
    Column("is_smartnic", Boolean, nullable=False, server_default=false()),
    _json("local_link_connection"),
    _json("extra"),
    _json("internal_info"),
    sqlite_autoincrement=True,
)

# Spec 003: which node a VIF is on. What sits where is in the ports' and port groups' `internal_info`;
# this key is what makes a VIF impossible on two nodes, whoever attaches it at the same moment.
node_vifs = Table(
    "node_vifs",
    metadata,
    Column("vif_id", String(255), primary_key=True),
    Column("node_id", ForeignKey("nodes.id", ondelete="CASCADE"), nullable=False, index=True),
)

# Spec 000
volume_connectors = Table(
    "volume_connectors",
    metadata,
    *_identity(),
    *_times(),
    Column("node_id", ForeignKey("nodes.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("type", String(32), nullable=False),
    Column("connector_id", String(255), nullable=False),
    _json("extra"),
    UniqueConstraint("type", "connector_id"),
    sqlite_autoincrement=True,
)

volume_targets = Table(
    "volume_targets",
    metadata,
    *_identity(),
    *_times(),
    Column("node_id", ForeignKey("nodes.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("volume_type", String(64), nullable=False),
    Column("boot_index", Integer, nullable=False),
    Column("volume_id", String(36), nullable=False, index=True),
    _json("properties"),
    _json("extra"),
    UniqueConstraint("node_id", "boot_index"),
    sqlite_autoincrement=True,
)

bios_settings = Table(
    "bios_settings",
    metadata,
    Column("node_id", ForeignKey("nodes.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("name", String(255), primary_key=True),
    Column("value", Text),
    *_times(),
)

# What the last inspection ramdisk reported of a node.
node_inventories = Table(
    "node_inventories",
    metadata,
    Column("node_id", ForeignKey("nodes.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("created_at", TIME, nullable=False),
    _json("inventory"),
    _json("plugin_data"),
)

# Who asked for a node, and which one it got. A node has one allocation at most, and goes with it.
allocations = Table(
    "allocations",
    metadata,
    *_identity(),
    *_times(),
    Column("name", String(255), unique=True),
    Column("node_id", ForeignKey("nodes.id", ondelete="CASCADE"), unique=True),
    Column("state", String(15), nullable=False),
    Column("last_error", Text),
    Column("resource_class", String(80), index=True),
    Column("owner", String(255), index=True),
    _json("traits", "[]"),
    _json("candidate_nodes", "[]"),
    _json("extra"),
    # The flow that looks for a node, while it does: "<flow kind>/<flow id>"
    Column("reservation", String(255)),
    CheckConstraint("state in ('allocating', 'active', 'error')", name="state"),
    sqlite_autoincrement=True,
)

# Steps that join a deploy when the instance asks for the trait of the same name.
deploy_templates = Table(
    "deploy_templates",
    metadata,
    *_identity(),
    *_times(),
    Column("name", String(255), nullable=False, unique=True),
    _json("steps", "[]"),
    _json("extra"),
    sqlite_autoincrement=True,
)

# Durable work: see flows/. The engine's own journal lives in its own database or schema; these rows
# are what operators see and what fences a process that lost its work.
flows = Table(
    "flows",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("kind", String(64), nullable=False),
    Column("subject", String(255), nullable=False, server_default=""),
    _json("params"),
    Column("state", String(16), nullable=False),
    Column("generation", Integer, nullable=False, server_default=text("1")),
    Column("runs", Integer, nullable=False, server_default=text("1")),
    Column("executor", String(64), nullable=False),
    Column("step", String(64)),
    Column("error", Text),
    Column("reason", Text),
    Column("request_id", String(64)),
    Column("created_at", TIME, nullable=False),
    Column("updated_at", TIME, nullable=False),
    Column("finished_at", TIME),
    CheckConstraint("state in ('running', 'done', 'unwound', 'stuck', 'abandoned')", name="state"),
    Index("ix_flows_created_at", "created_at", "id"),
    Index("ix_flows_state_created_at", "state", "created_at"),
    Index("ix_flows_subject", "subject"),
    Index("ix_flows_executor_state", "executor", "state"),
)

flow_steps = Table(
    "flow_steps",
    metadata,
    Column("flow_id", ForeignKey("flows.id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("name", String(64), nullable=False),
    Column("direction", String(4), nullable=False),  # "do" or "undo"
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("started_at", TIME, nullable=False),
    Column("finished_at", TIME),
    Column("error", Text),
    # What the action returned, for the steps after it when an operator has the flow carried on.
    Column("result", Text),
)

# Numbers that only grow. `fence` gives every execution of a flow one that is higher than all before it.
counters = Table(
    "counters",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("value", Integer, nullable=False),
)

# Processes of this installation; one that stops beating is dead and its flows are taken over.
processes = Table(
    "processes",
    metadata,
    Column("executor", String(64), primary_key=True),
    Column("hostname", String(255), nullable=False),
    # The hardware types it serves, a JSON list: the API shows processes as conductors.
    _json("drivers", "[]"),
    Column("pid", Integer, nullable=False),
    # Which machine, boot and process namespace the pid belongs to, and when that process started:
    # a survivor that sees the same place can tell at once whether the process is gone.
    Column("place", String(255), nullable=False, server_default=""),
    Column("pid_started", String(32), nullable=False, server_default=""),
    Column("started_at", TIME, nullable=False),
    Column("beat_at", TIME, nullable=False),
    # Dead is for ever: an executor that lost its flows comes back under another name.
    Column("dead_at", TIME),
    Column("claimed_by", String(64)),
)
