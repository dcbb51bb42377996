"""The catalog: entities, their references, model names, revision and changes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_document = sa.JSON().with_variant(JSONB(), "postgresql")


def upgrade() -> None:
    """Creates the tables and the one revision row."""
    _create_entities()
    _create_references()
    _create_changes()
    op.execute("INSERT INTO catalog_revision (id, revision) VALUES (1, 0)")


def _create_entities() -> None:
    op.create_table(
        "entities",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("slug", sa.String(63), nullable=False),
        sa.Column("display_name", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("labels", _document, nullable=False),
        sa.Column("managed_by", sa.String(16), nullable=False),
        sa.Column("spec", _document, nullable=False),
        sa.Column("sealed", _document, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("updated_at", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_entities"),
        sa.UniqueConstraint("kind", "slug", name="uq_entities_kind_slug"),
    )
    op.create_index("ix_entities_kind_id", "entities", ["kind", "id"])


def _create_references() -> None:
    op.create_table(
        "entity_references",
        sa.Column("source_id", sa.String(36), nullable=False),
        sa.Column("field", sa.String(255), nullable=False),
        sa.Column("target_id", sa.String(36), nullable=False),
        sa.PrimaryKeyConstraint("source_id", "field", name="pk_entity_references"),
        sa.ForeignKeyConstraint(
            ["source_id"],
            ["entities.id"],
            name="fk_entity_references_source_id",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["target_id"],
            ["entities.id"],
            name="fk_entity_references_target_id",
            ondelete="RESTRICT",
        ),
    )
    op.create_index("ix_entity_references_target_id", "entity_references", ["target_id"])
    op.create_table(
        "model_names",
        sa.Column("name", sa.String(256), nullable=False),
        sa.Column("entity_id", sa.String(36), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_model_names"),
        sa.ForeignKeyConstraint(
            ["entity_id"], ["entities.id"], name="fk_model_names_entity_id", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_model_names_entity_id", "model_names", ["entity_id"])


def _create_changes() -> None:
    op.create_table(
        "catalog_revision",
        sa.Column("id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_catalog_revision"),
        sa.CheckConstraint("id = 1", name=op.f("ck_catalog_revision_single_row")),
    )
    op.create_table(
        "catalog_changes",
        sa.Column("revision", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("entity_id", sa.String(36), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("action", sa.String(8), nullable=False),
        sa.Column("changed_at", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("revision", "entity_id", name="pk_catalog_changes"),
    )
