"""What was spent, for budgets: added to by every process, each record once."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the tables."""
    op.create_table(
        "spending",
        sa.Column("period", sa.String(10), nullable=False),
        sa.Column("dimension", sa.String(80), nullable=False),
        sa.Column("value", sa.String(256), nullable=False),
        sa.Column("currency", sa.String(3), nullable=False),
        sa.Column("nanos", sa.BigInteger, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("period", "dimension", "value", "currency", name="pk_spending"),
    )
    op.create_index("ix_spending_revision", "spending", ["revision"])
    head = op.create_table(
        "spending_head",
        sa.Column("id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_spending_head"),
        sa.CheckConstraint("id = 1", name=op.f("ck_spending_head_single_row")),
    )
    op.bulk_insert(head, [{"id": 1, "revision": 0}])
    op.create_table(
        "spending_positions",
        sa.Column("spool", sa.String(128), nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("noted_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("spool", name="pk_spending_positions"),
    )
    op.create_index("ix_spending_positions_noted_at", "spending_positions", ["noted_at"])
