"""Alembic's entry: runs revisions on the connection that :func:`migrate` opened."""

from __future__ import annotations

from alembic import context

from relay_gateway.storage.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
