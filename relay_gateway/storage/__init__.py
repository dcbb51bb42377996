"""The database: the only package that speaks SQL."""

from relay_gateway.storage.catalog import CatalogStore
from relay_gateway.storage.engine import create_engine
from relay_gateway.storage.migrate import migrate
from relay_gateway.storage.rows import CatalogRows, EntityChange, NewEntity, Page

__all__ = [
    "CatalogRows",
    "CatalogStore",
    "EntityChange",
    "NewEntity",
    "Page",
    "create_engine",
    "migrate",
]
