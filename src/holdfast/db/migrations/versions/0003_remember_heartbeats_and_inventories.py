"""Remember heartbeats until they are acted on, and what inspection ramdisks reported"""

from alembic import op
import sqlalchemy as sa

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("nodes", sa.Column("heartbeat_pending", sa.String(length=32), nullable=True))
    op.create_table(
        "node_inventories",
        sa.Column("node_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.Column("inventory", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("plugin_data", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.ForeignKeyConstraint(
            ["node_id"], ["nodes.id"], name=op.f("fk_node_inventories_node_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("node_id", name=op.f("pk_node_inventories")),
    )
