"""When relay keys were last used, beside the catalog: a use is no write to it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the table, which loses its row together with the key."""
    op.create_table(
        "relay_key_uses",
        sa.Column("relay_key_id", sa.String(36), nullable=False),
        sa.Column("last_used_at", sa.String(32), nullable=False),
        sa.ForeignKeyConstraint(
            ["relay_key_id"],
            ["entities.id"],
            name="fk_relay_key_uses_relay_key_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("relay_key_id", name="pk_relay_key_uses"),
    )
