"""Create the first schema"""

from alembic import op
import sqlalchemy as sa

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "chassis",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.Column("updated_at", sa.String(length=32), nullable=True),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("extra", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_chassis")),
        sa.UniqueConstraint("uuid", name=op.f("uq_chassis_uuid")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "flows",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("subject", sa.String(length=255), server_default="", nullable=False),
        sa.Column("params", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("generation", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("runs", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("executor", sa.String(length=64), nullable=False),
        sa.Column("step", sa.String(length=64), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("request_id", sa.String(length=64), nullable=True),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.Column("updated_at", sa.String(length=32), nullable=False),
        sa.Column("finished_at", sa.String(length=32), nullable=True),
        sa.CheckConstraint(
            "state in ('running', 'done', 'unwound', 'stuck', 'abandoned')", name=op.f("ck_flows_state")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_flows")),
    )
    with op.batch_alter_table("flows", schema=None) as batch_op:
        batch_op.create_index("ix_flows_created_at", ["created_at", "id"], unique=False)
        batch_op.create_index("ix_flows_executor_state", ["executor", "state"], unique=False)
        batch_op.create_index("ix_flows_state_created_at", ["state", "created_at"], unique=False)
        batch_op.create_index("ix_flows_subject", ["subject"], unique=False)

    op.create_table(
        "counters",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("value", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_counters")),
    )
    op.create_table(
        "processes",
        sa.Column("executor", sa.String(length=64), nullable=False),
        sa.Column("hostname", sa.String(length=255), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("place", sa.String(length=255), server_default="", nullable=False),
        sa.Column("pid_started", sa.String(length=32), server_default="", nullable=False),
        sa.Column("started_at", sa.String(length=32), nullable=False),
        sa.Column("beat_at", sa.String(length=32), nullable=False),
        sa.Column("dead_at", sa.String(length=32), nullable=True),
        sa.Column("claimed_by", sa.String(length=64), nullable=True),
        sa.PrimaryKeyConstraint("executor", name=op.f("pk_processes")),
    )
    op.create_table(
        "flow_steps",
        sa.Column("flow_id", sa.String(length=36), nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("direction", sa.String(length=4), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("started_at", sa.String(length=32), nullable=False),
        sa.Column("finished_at", sa.String(length=32), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("result", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["flow_id"], ["flows.id"], name=op.f("fk_flow_steps_flow_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("flow_id", "position", name=op.f("pk_flow_steps")),
    )
    op.create_table(
        "nodes",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.Column("updated_at", sa.String(length=32), nullable=True),
        sa.Column("name", sa.String(length=255), nullable=True),
        sa.Column("chassis_id", sa.Integer(), nullable=True),
        sa.Column("instance_uuid", sa.String(length=36), nullable=True),
        sa.Column("driver", sa.String(length=255), nullable=False),
        sa.Column("driver_info", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("driver_internal_info", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("properties", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("instance_info", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("extra", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("resource_class", sa.String(length=80), nullable=True),
        sa.Column("conductor_group", sa.String(length=255), server_default="", nullable=False),
        sa.Column("power_state", sa.String(length=15), nullable=True),
        sa.Column("target_power_state", sa.String(length=15), nullable=True),
        sa.Column("power_sync_due_at", sa.String(length=32), nullable=True),
        sa.Column("power_sync_failures", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("provision_state", sa.String(length=15), nullable=False),
        sa.Column("target_provision_state", sa.String(length=15), nullable=True),
        sa.Column("provision_updated_at", sa.String(length=32), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("inspection_started_at", sa.String(length=32), nullable=True),
        sa.Column("inspection_finished_at", sa.String(length=32), nullable=True),
        sa.Column("clean_step", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("deploy_step", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("raid_config", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("target_raid_config", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("maintenance", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("maintenance_reason", sa.Text(), nullable=True),
        sa.Column("fault", sa.String(length=255), nullable=True),
        sa.Column("console_enabled", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("reservation", sa.String(length=255), nullable=True),
        sa.Column("bios_interface", sa.String(length=255), nullable=True),
        sa.Column("boot_interface", sa.String(length=255), nullable=True),
        sa.Column("console_interface", sa.String(length=255), nullable=True),
        sa.Column("deploy_interface", sa.String(length=255), nullable=True),
        sa.Column("inspect_interface", sa.String(length=255), nullable=True),
        sa.Column("management_interface", sa.String(length=255), nullable=True),
        sa.Column("network_interface", sa.String(length=255), nullable=True),
        sa.Column("power_interface", sa.String(length=255), nullable=True),
        sa.Column("raid_interface", sa.String(length=255), nullable=True),
        sa.Column("rescue_interface", sa.String(length=255), nullable=True),
        sa.Column("storage_interface", sa.String(length=255), nullable=True),
        sa.Column("vendor_interface", sa.String(length=255), nullable=True),
        sa.ForeignKeyConstraint(["chassis_id"], ["chassis.id"], name=op.f("fk_nodes_chassis_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_nodes")),
        sa.UniqueConstraint("instance_uuid", name=op.f("uq_nodes_instance_uuid")),
        sa.UniqueConstraint("name", name=op.f("uq_nodes_name")),
        sa.UniqueConstraint("uuid", name=op.f("uq_nodes_uuid")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("nodes", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_nodes_chassis_id"), ["chassis_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_nodes_driver"), ["driver"], unique=False)
        batch_op.create_index(batch_op.f("ix_nodes_power_sync_due_at"), ["power_sync_due_at"], unique=False)
        batch_op.create_index(batch_op.f("ix_nodes_provision_state"), ["provision_state"], unique=False)
        batch_op.create_index(batch_op.f("ix_nodes_reservation"), ["reservation"], unique=False)
        batch_op.create_index(batch_op.f("ix_nodes_resource_class"), ["resource_class"], unique=False)

    op.create_table(
        "bios_settings",
        sa.Column("node_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("value", sa.Text(), nullable=True),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.Column("updated_at", sa.String(length=32), nullable=True),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name=op.f("fk_bios_settings_node_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("node_id", "name", name=op.f("pk_bios_settings")),
    )
    op.create_table(
        "node_traits",
        sa.Column("node_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("trait", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name=op.f("fk_node_traits_node_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("node_id", "trait", name=op.f("pk_node_traits")),
        sqlite_with_rowid=False,
    )
    with op.batch_alter_table("node_traits", schema=None) as batch_op:
        batch_op.create_index("ix_node_traits_trait", ["trait", "node_id"], unique=False)

    op.create_table(
        "node_vifs",
        sa.Column("vif_id", sa.String(length=255), nullable=False),
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name=op.f("fk_node_vifs_node_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("vif_id", name=op.f("pk_node_vifs")),
    )
    with op.batch_alter_table("node_vifs", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_node_vifs_node_id"), ["node_id"], unique=False)

    op.create_table(
        "portgroups",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.Column("updated_at", sa.String(length=32), nullable=True),
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=True),
        sa.Column("address", sa.String(length=18), nullable=True),
        sa.Column("mode", sa.String(length=255), nullable=False),
        sa.Column("standalone_ports_supported", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("properties", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("extra", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("internal_info", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name=op.f("fk_portgroups_node_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_portgroups")),
        sa.UniqueConstraint("address", name=op.f("uq_portgroups_address")),
        sa.UniqueConstraint("name", name=op.f("uq_portgroups_name")),
        sa.UniqueConstraint("uuid", name=op.f("uq_portgroups_uuid")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("portgroups", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_portgroups_node_id"), ["node_id"], unique=False)

    op.create_table(
        "volume_connectors",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.Column("updated_at", sa.String(length=32), nullable=True),
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("type", sa.String(length=32), nullable=False),
        sa.Column("connector_id", sa.String(length=255), nullable=False),
        sa.Column("extra", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.ForeignKeyConstraint(
            ["node_id"], ["nodes.id"], name=op.f("fk_volume_connectors_node_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_volume_connectors")),
        sa.UniqueConstraint("type", "connector_id", name=op.f("uq_volume_connectors_type_connector_id")),
        sa.UniqueConstraint("uuid", name=op.f("uq_volume_connectors_uuid")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("volume_connectors", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_volume_connectors_node_id"), ["node_id"], unique=False)

    op.create_table(
        "volume_targets",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.Column("updated_at", sa.String(length=32), nullable=True),
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("volume_type", sa.String(length=64), nullable=False),
        sa.Column("boot_index", sa.Integer(), nullable=False),
        sa.Column("volume_id", sa.String(length=36), nullable=False),
        sa.Column("properties", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("extra", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name=op.f("fk_volume_targets_node_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_volume_targets")),
        sa.UniqueConstraint("node_id", "boot_index", name=op.f("uq_volume_targets_node_id_boot_index")),
        sa.UniqueConstraint("uuid", name=op.f("uq_volume_targets_uuid")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("volume_targets", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_volume_targets_node_id"), ["node_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_volume_targets_volume_id"), ["volume_id"], unique=False)

    op.create_table(
        "ports",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.Column("updated_at", sa.String(length=32), nullable=True),
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("address", sa.String(length=18), nullable=False),
        sa.Column("portgroup_id", sa.Integer(), nullable=True),
        sa.Column("pxe_enabled", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("physical_network", sa.String(length=64), nullable=True),
        sa.Column("local_link_connection", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("extra", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("internal_info", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name=op.f("fk_ports_node_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["portgroup_id"], ["portgroups.id"], name=op.f("fk_ports_portgroup_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ports")),
        sa.UniqueConstraint("address", name=op.f("uq_ports_address")),
        sa.UniqueConstraint("uuid", name=op.f("uq_ports_uuid")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("ports", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_ports_node_id"), ["node_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_ports_portgroup_id"), ["portgroup_id"], unique=False)
