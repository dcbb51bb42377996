"""The database: the only package that speaks SQL."""

from relay_gateway.storage.audit import AuditLog
from relay_gateway.storage.catalog import CatalogStore
from relay_gateway.storage.engine import create_engine
from relay_gateway.storage.idempotency import CreateKey
from relay_gateway.storage.listing import InvalidCursorError, Listing
from relay_gateway.storage.migrate import migrate
from relay_gateway.storage.rows import CatalogRows, EntityChange, NewEntity, Page
from relay_gateway.storage.sessions import SessionStore
from relay_gateway.storage.settings import SettingsStore

__all__ = [
    "AuditLog",
    "CatalogRows",
    "CatalogStore",
    "CreateKey",
    "EntityChange",
    "InvalidCursorError",
    "Listing",
    "NewEntity",
    "Page",
    "SessionStore",
    "SettingsStore",
    "create_engine",
    "migrate",
]
