"""The tables of the catalog. Migrations build them; a test compares the two."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
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
)
from sqlalchemy.dialects.postgresql import JSONB

Document = JSON().with_variant(JSONB(), "postgresql")
"""A JSON object; binary on PostgreSQL, so that later filters can be indexed."""

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

entities = Table(
    "entities",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("kind", String(32), nullable=False),
    Column("slug", String(63), nullable=False),
    Column("display_name", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("labels", Document, nullable=False),
    Column("managed_by", String(16), nullable=False),
    Column("spec", Document, nullable=False),
    Column("sealed", Document, nullable=False),
    Column("version", Integer, nullable=False),
    Column("created_at", String(32), nullable=False),
    Column("updated_at", String(32), nullable=False),
    UniqueConstraint("kind", "slug"),
    Index(None, "kind", "id"),
)
"""All kinds. Times are RFC 3339 UTC text, so that they read the same from every database."""

entity_references = Table(
    "entity_references",
    metadata,
    Column("source_id", ForeignKey("entities.id", ondelete="CASCADE"), primary_key=True),
    Column("field", String(255), primary_key=True),
    Column("target_id", ForeignKey("entities.id", ondelete="RESTRICT"), nullable=False),
    Index(None, "target_id"),
)

model_names = Table(
    "model_names",
    metadata,
    Column("name", String(256), primary_key=True),
    Column("entity_id", ForeignKey("entities.id", ondelete="CASCADE"), nullable=False),
    Index(None, "entity_id"),
)
"""Names and exact aliases of models: what must be unique over all of them."""

catalog_revision = Table(
    "catalog_revision",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("revision", BigInteger, nullable=False),
    CheckConstraint("id = 1", name="single_row"),
)
"""One row. Every write updates it first: its lock puts commits and revisions in one order."""

catalog_changes = Table(
    "catalog_changes",
    metadata,
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("entity_id", String(36), primary_key=True),
    Column("kind", String(32), nullable=False),
    Column("action", String(8), nullable=False),
    Column("changed_at", String(32), nullable=False),
)
