"""Alembic environment and revisions of the catalog."""

HEAD = "0007"
"""The newest revision, so that a database which has it is known without loading Alembic."""
