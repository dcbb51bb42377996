"""The tables of the catalog. Migrations build them; a test compares the two."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    Column,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.types import TypeDecorator, TypeEngine


class Document(TypeDecorator[Any]):
    """A JSON object; binary on PostgreSQL, so that later filters can be indexed."""

    impl = JSON
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """The type of the database at hand."""
        if dialect.name != "postgresql":
            return dialect.type_descriptor(JSON())
        # Not a variant of JSON, which would load this dialect for every database.
        from sqlalchemy.dialects.postgresql import JSONB

        return dialect.type_descriptor(JSONB())


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
    Column(
        "slug",
        String(63).with_variant(String(63, collation="C"), "postgresql"),
        nullable=False,
    ),
    Column("display_name", Text().with_variant(Text(collation="C"), "postgresql"), nullable=False),
    Column("description", Text, nullable=False),
    Column("labels", Document, nullable=False),
    Column("managed_by", String(16), nullable=False),
    Column("spec", Document, nullable=False),
    Column("sealed", Document, nullable=False),
    Column("version", Integer, nullable=False),
    Column("created_at", String(32), nullable=False),
    Column("updated_at", String(32), nullable=False),
    Column("search_text", Text, nullable=False, server_default=""),
    UniqueConstraint("kind", "slug"),
    Index(None, "kind", "id"),
    Index(None, "kind", "display_name", "id"),
    Index(None, "kind", "created_at", "id"),
    Index(None, "kind", "updated_at", "id"),
)
"""All kinds. Times are RFC 3339 UTC text, so that they read the same from every database.
``search_text`` is what a search looks through; slugs and names sort by code point."""

entity_columns = tuple(column for column in entities.c if column.name != "search_text")
"""What an entity consists of."""

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

relay_key_uses = Table(
    "relay_key_uses",
    metadata,
    Column("relay_key_id", ForeignKey("entities.id", ondelete="CASCADE"), primary_key=True),
    Column("last_used_at", String(32), nullable=False),
)
"""When relay keys were last used, to the minute; no part of the catalog and of its revision."""

repeated_creates = Table(
    "repeated_creates",
    metadata,
    Column("key_digest", String(64), primary_key=True),
    Column("fingerprint", String(64), nullable=False),
    Column("answer", Text, nullable=False),
    Column("created_at", String(32), nullable=False),
    Index(None, "created_at"),
)
"""What creates with an idempotency key answered; the key itself is not kept."""

sessions = Table(
    "sessions",
    metadata,
    Column("token_hash", String(64), primary_key=True),
    Column("username", Text, nullable=False),
    Column("password_mark", String(64), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("seen_at", BigInteger, nullable=False),
    Index(None, "created_at"),
)
"""Times are seconds since the epoch. ``password_mark`` ties a session to the password it began
with."""

settings_versions = Table(
    "settings_versions",
    metadata,
    Column("section", String(36), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("value", Document, nullable=False),
    Column("changed_at", String(32), nullable=False),
    Column("changed_by", Text, nullable=False),
    Column("revision", BigInteger, nullable=False),
)
"""Every state that a section of the settings has had; the one with the highest version is in
force. ``value`` has only the fields that somebody set."""

audit_records = Table(
    "audit_records",
    metadata,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("occurred_at", String(32), nullable=False),
    Column("action", String(64), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("target", Text, nullable=True),
    Column("slug", Text, nullable=True),
    Column("actor", Text, nullable=False),
    Column("method", String(32), nullable=False),
    Column("session", String(64), nullable=True),
    Column("address", Text, nullable=True),
    Column("request_id", String(36), nullable=True),
    Column("revision", BigInteger, nullable=True),
    Column("before", Text, nullable=True),
    Column("after", Text, nullable=True),
    Column("detail", Text, nullable=True),
    Column("previous_hash", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
    Index(None, "target", "sequence"),
    Index(None, "actor", "sequence"),
    Index(None, "occurred_at"),
)
"""Appended to and never changed, which triggers enforce. Documents are JSON as it was hashed."""

audit_head = Table(
    "audit_head",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("sequence", BigInteger, nullable=False),
    Column("hash", String(64), nullable=False),
    CheckConstraint("id = 1", name="single_row"),
)
"""One row: the newest audit record. Its lock puts records in one order."""

audit_checkpoint = Table(
    "audit_checkpoint",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("sequence", BigInteger, nullable=False),
    Column("hash", String(64), nullable=False),
    Column("signature", String(64), nullable=True),
    CheckConstraint("id = 1", name="single_row"),
)
"""One row: the last audit record that was pruned, all before it included. Only up to there can
records be deleted; it is signed, so that nobody moves it unnoticed."""

login_failures = Table(
    "login_failures",
    metadata,
    Column("failure_id", String(36), primary_key=True),
    Column("key_digest", String(64), primary_key=True),
    Column("failed_at", BigInteger, nullable=False),
    Index(None, "key_digest", "failed_at"),
    Index(None, "failed_at"),
)
"""Failed logins of the last minutes, each under a digest of its user name and one of its address.
Times are milliseconds since the epoch."""

master_keys = Table(
    "master_keys",
    metadata,
    Column("backend", String(64), primary_key=True),
    Column("key_id", String(64), primary_key=True),
    Column("canary", Document, nullable=False),
    Column("added_at", String(32), nullable=False),
    Column("retired_at", String(32), nullable=True),
    Column("rewrap_began_at", String(32), nullable=True),
    Column("rewrap_ended_at", String(32), nullable=True),
    Column("rewrapped", Integer, nullable=False),
)
"""Master keys that belong to this database, by their ids; ``canary`` is a known value sealed with
each. Nothing is written that is sealed with another key, or with a retired one."""

spending = Table(
    "spending",
    metadata,
    Column("period", String(10), primary_key=True),
    Column("dimension", String(80), primary_key=True),
    Column("value", String(256), primary_key=True),
    Column("currency", String(3), primary_key=True),
    Column("nanos", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Index(None, "revision"),
)
"""What was spent in a period (a day, a week, a month, or ``total``) by one relay key, policy, model
or value of a tag, or by all. ``revision`` is that of the last change."""

spending_head = Table(
    "spending_head",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("revision", BigInteger, nullable=False),
    CheckConstraint("id = 1", name="single_row"),
)
"""One row: how often spending was added to. Its lock puts additions in one order."""

spending_positions = Table(
    "spending_positions",
    metadata,
    Column("spool", String(128), primary_key=True),
    Column("position", BigInteger, nullable=False),
    Column("noted_at", BigInteger, nullable=False),
    Index(None, "noted_at"),
)
"""Up to which record of each spool spending was added, so that no record counts twice. Times are
seconds since the epoch."""

instances = Table(
    "instances",
    metadata,
    Column("gateway_id", String(36), primary_key=True),
    Column("process", String(32), primary_key=True),
    Column("gateway", Text, nullable=False),
    Column("instance", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("state", String(16), nullable=False),
    Column("degraded", Document, nullable=False),
    Column("revision", BigInteger, nullable=True),
    Column("started_at", BigInteger, nullable=False),
    Column("applied_at", BigInteger, nullable=True),
    Column("current_at", BigInteger, nullable=False),
    Column("seen_at", BigInteger, nullable=False),
)
"""The last sign of life of each process of each gateway, and what it said of itself. Times are
milliseconds since the epoch by the clock of the database; ``current_at`` is when the process was
last known to serve the newest revision."""
