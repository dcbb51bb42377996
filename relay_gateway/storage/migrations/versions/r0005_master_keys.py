"""Proven master keys, failed logins that all instances see, an audit log that may be pruned."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_document = sa.JSON().with_variant(JSONB(), "postgresql")


def upgrade() -> None:
    """Creates the tables; records of the audit log may be deleted up to its checkpoint."""
    _create_master_keys()
    _create_login_failures()
    _create_audit_checkpoint()
    if op.get_bind().dialect.name == "postgresql":
        _protect_on_postgresql()
    else:
        _protect_on_sqlite()


def _create_master_keys() -> None:
    op.create_table(
        "master_keys",
        sa.Column("backend", sa.String(64), nullable=False),
        sa.Column("key_id", sa.String(64), nullable=False),
        sa.Column("canary", _document, nullable=False),
        sa.Column("added_at", sa.String(32), nullable=False),
        sa.Column("retired_at", sa.String(32), nullable=True),
        sa.Column("rewrap_began_at", sa.String(32), nullable=True),
        sa.Column("rewrap_ended_at", sa.String(32), nullable=True),
        sa.Column("rewrapped", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("backend", "key_id", name="pk_master_keys"),
    )


def _create_login_failures() -> None:
    op.create_table(
        "login_failures",
        sa.Column("failure_id", sa.String(36), nullable=False),
        sa.Column("key_digest", sa.String(64), nullable=False),
        sa.Column("failed_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("failure_id", "key_digest", name="pk_login_failures"),
    )
    op.create_index(
        "ix_login_failures_key_digest_failed_at", "login_failures", ["key_digest", "failed_at"]
    )
    op.create_index("ix_login_failures_failed_at", "login_failures", ["failed_at"])


def _create_audit_checkpoint() -> None:
    checkpoint = op.create_table(
        "audit_checkpoint",
        sa.Column("id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("signature", sa.String(64), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_audit_checkpoint"),
        sa.CheckConstraint("id = 1", name=op.f("ck_audit_checkpoint_single_row")),
    )
    op.bulk_insert(checkpoint, [{"id": 1, "sequence": 0, "hash": "0" * 64, "signature": None}])


def _protect_on_sqlite() -> None:
    op.execute("DROP TRIGGER audit_records_no_delete")
    op.execute(
        "CREATE TRIGGER audit_records_no_delete BEFORE DELETE ON audit_records "
        "WHEN OLD.sequence > (SELECT sequence FROM audit_checkpoint) "
        "BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END"
    )


def _protect_on_postgresql() -> None:
    op.execute("DROP TRIGGER audit_records_append_only ON audit_records")
    op.execute(
        "CREATE TRIGGER audit_records_append_only BEFORE UPDATE OR TRUNCATE "
        "ON audit_records FOR EACH STATEMENT EXECUTE FUNCTION relay_refuse_audit_change()"
    )
    op.execute(
        "CREATE FUNCTION relay_refuse_audit_delete() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN IF OLD.sequence > (SELECT sequence FROM audit_checkpoint) THEN "
        "RAISE EXCEPTION 'the audit log is append-only'; END IF; RETURN OLD; END $$"
    )
    op.execute(
        "CREATE TRIGGER audit_records_no_delete BEFORE DELETE "
        "ON audit_records FOR EACH ROW EXECUTE FUNCTION relay_refuse_audit_delete()"
    )
