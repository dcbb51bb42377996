"""Alembic environment and revisions of the catalog."""
