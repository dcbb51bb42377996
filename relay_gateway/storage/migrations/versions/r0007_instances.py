"""Signs of life: which gateways are on this database, and what each of their processes serves."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the table."""
    op.create_table(
        "instances",
        sa.Column("gateway_id", sa.String(36), nullable=False),
        sa.Column("process", sa.String(32), nullable=False),
        sa.Column("gateway", sa.Text, nullable=False),
        sa.Column("instance", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("degraded", sa.JSON().with_variant(JSONB(), "postgresql"), nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=True),
        sa.Column("started_at", sa.BigInteger, nullable=False),
        sa.Column("applied_at", sa.BigInteger, nullable=True),
        sa.Column("current_at", sa.BigInteger, nullable=False),
        sa.Column("seen_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("gateway_id", "process", name="pk_instances"),
    )
