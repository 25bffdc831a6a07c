"""Add owners, allocations and deploy templates"""

from alembic import op
import sqlalchemy as sa

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for column in (
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("owner", sa.String(length=255), nullable=True),
        sa.Column("lessee", sa.String(length=255), nullable=True),
        sa.Column("network_data", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("automated_clean", sa.Boolean(), nullable=True),
        sa.Column("protected", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("protected_reason", sa.Text(), nullable=True),
        sa.Column("retired", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("retired_reason", sa.Text(), nullable=True),
    ):
        op.add_column("nodes", column)
    op.create_index(op.f("ix_nodes_owner"), "nodes", ["owner"])
    op.create_index(op.f("ix_nodes_lessee"), "nodes", ["lessee"])
    op.add_column("ports", sa.Column("is_smartnic", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.add_column("processes", sa.Column("drivers", sa.Text(), server_default=sa.text("'[]'"), nullable=False))
    op.create_table(
        "allocations",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.Column("updated_at", sa.String(length=32), nullable=True),
        sa.Column("name", sa.String(length=255), nullable=True),
        sa.Column("node_id", sa.Integer(), nullable=True),
        sa.Column("state", sa.String(length=15), nullable=False),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("resource_class", sa.String(length=80), nullable=True),
        sa.Column("owner", sa.String(length=255), nullable=True),
        sa.Column("traits", sa.Text(), server_default=sa.text("'[]'"), nullable=False),
        sa.Column("candidate_nodes", sa.Text(), server_default=sa.text("'[]'"), nullable=False),
        sa.Column("extra", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("reservation", sa.String(length=255), nullable=True),
        sa.CheckConstraint("state in ('allocating', 'active', 'error')", name=op.f("ck_allocations_state")),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name=op.f("fk_allocations_node_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_allocations")),
        sa.UniqueConstraint("name", name=op.f("uq_allocations_name")),
        sa.UniqueConstraint("node_id", name=op.f("uq_allocations_node_id")),
        sa.UniqueConstraint("uuid", name=op.f("uq_allocations_uuid")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_allocations_owner"), "allocations", ["owner"])
    op.create_index(op.f("ix_allocations_resource_class"), "allocations", ["resource_class"])
    op.create_table(
        "deploy_templates",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.Column("updated_at", sa.String(length=32), nullable=True),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("steps", sa.Text(), server_default=sa.text("'[]'"), nullable=False),
        sa.Column("extra", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deploy_templates")),
        sa.UniqueConstraint("name", name=op.f("uq_deploy_templates_name")),
        sa.UniqueConstraint("uuid", name=op.f("uq_deploy_templates_uuid")),
        sqlite_autoincrement=True,
    )
