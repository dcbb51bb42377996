"""Lists that can be searched and sorted by index, and creates that can be repeated."""

from __future__ import annotations

import json
from collections.abc import Iterator

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_SORTED = ("display_name", "created_at", "updated_at")


def upgrade() -> None:
    """Adds what lists read and what repeated creates are recognised by."""
    if op.get_bind().dialect.name == "postgresql":
        # Texts sort by code point, as on SQLite, whatever the locale of the database is.
        op.execute('ALTER TABLE entities ALTER COLUMN slug TYPE varchar(63) COLLATE "C"')
        op.execute('ALTER TABLE entities ALTER COLUMN display_name TYPE text COLLATE "C"')
    op.add_column("entities", sa.Column("search_text", sa.Text, nullable=False, server_default=""))
    _fill_search_text()
    for name in _SORTED:
        op.create_index(f"ix_entities_kind_{name}_id", "entities", ["kind", name, "id"])
    op.create_table(
        "repeated_creates",
        sa.Column("key_digest", sa.String(64), nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("answer", sa.Text, nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("key_digest", name="pk_repeated_creates"),
    )
    op.create_index("ix_repeated_creates_created_at", "repeated_creates", ["created_at"])


def _fill_search_text() -> None:
    table = sa.table(
        "entities",
        *(sa.column(name) for name in ("id", "slug", "display_name", "description")),
        sa.column("spec"),
        sa.column("search_text"),
    )
    connection = op.get_bind()
    rows = connection.execute(sa.select(table)).mappings().all()
    for row in rows:
        text = "\n".join(_words(row)).casefold()
        connection.execute(sa.update(table).where(table.c.id == row["id"]).values(search_text=text))


def _words(row: sa.RowMapping) -> Iterator[str]:
    spec = json.loads(row["spec"]) if isinstance(row["spec"], str) else row["spec"]
    yield from (row["display_name"], row["slug"], row["description"])
    if isinstance(spec.get("name"), str):
        yield spec["name"]
    aliases = spec.get("aliases")
    yield from (item for item in aliases or () if isinstance(item, str))
