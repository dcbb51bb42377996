"""Access: sessions, settings with their history, and the append-only audit log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_document = sa.JSON().with_variant(JSONB(), "postgresql")
_REFUSAL = "the audit log is append-only"


def upgrade() -> None:
    """Creates the tables, and the triggers that keep the audit log as it is."""
    _create_sessions()
    _create_settings()
    _create_audit_records()
    _create_audit_head()
    if op.get_bind().dialect.name == "postgresql":
        _protect_on_postgresql()
    else:
        _protect_on_sqlite()


def _create_sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("token_hash", sa.String(64), nullable=False),
        sa.Column("username", sa.Text, nullable=False),
        sa.Column("password_mark", sa.String(64), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("seen_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("token_hash", name="pk_sessions"),
    )
    op.create_index("ix_sessions_created_at", "sessions", ["created_at"])


def _create_settings() -> None:
    op.create_table(
        "settings_versions",
        sa.Column("section", sa.String(36), nullable=False),
        sa.Column("version", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("value", _document, nullable=False),
        sa.Column("changed_at", sa.String(32), nullable=False),
        sa.Column("changed_by", sa.Text, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("section", "version", name="pk_settings_versions"),
    )


def _create_audit_records() -> None:
    op.create_table(
        "audit_records",
        sa.Column("sequence", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("occurred_at", sa.String(32), nullable=False),
        sa.Column("action", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("target", sa.Text, nullable=True),
        sa.Column("slug", sa.Text, nullable=True),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("method", sa.String(32), nullable=False),
        sa.Column("session", sa.String(64), nullable=True),
        sa.Column("address", sa.Text, nullable=True),
        sa.Column("request_id", sa.String(36), nullable=True),
        sa.Column("revision", sa.BigInteger, nullable=True),
        sa.Column("before", sa.Text, nullable=True),
        sa.Column("after", sa.Text, nullable=True),
        sa.Column("detail", sa.Text, nullable=True),
        sa.Column("previous_hash", sa.String(64), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("sequence", name="pk_audit_records"),
    )
    op.create_index("ix_audit_records_target_sequence", "audit_records", ["target", "sequence"])
    op.create_index("ix_audit_records_actor_sequence", "audit_records", ["actor", "sequence"])
    op.create_index("ix_audit_records_occurred_at", "audit_records", ["occurred_at"])


def _create_audit_head() -> None:
    head = op.create_table(
        "audit_head",
        sa.Column("id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit_head"),
        sa.CheckConstraint("id = 1", name=op.f("ck_audit_head_single_row")),
    )
    op.bulk_insert(head, [{"id": 1, "sequence": 0, "hash": "0" * 64}])


def _protect_on_sqlite() -> None:
    for action in ("UPDATE", "DELETE"):
        op.execute(
            f"CREATE TRIGGER audit_records_no_{action.lower()} BEFORE {action} ON audit_records "
            f"BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END"
        )


def _protect_on_postgresql() -> None:
    op.execute(
        "CREATE FUNCTION relay_refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{_REFUSAL}'; END $$"
    )
    op.execute(
        "CREATE TRIGGER audit_records_append_only BEFORE UPDATE OR DELETE OR TRUNCATE "
        "ON audit_records FOR EACH STATEMENT EXECUTE FUNCTION relay_refuse_audit_change()"
    )
