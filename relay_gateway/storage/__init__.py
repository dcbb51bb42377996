"""The database: the only package that speaks SQL."""

from relay_gateway.storage.audit import AuditLog
from relay_gateway.storage.catalog import CatalogStore
from relay_gateway.storage.engine import create_engine
from relay_gateway.storage.idempotency import CreateKey
from relay_gateway.storage.instances import (
    InstanceStore,
    KnownInstance,
    KnownInstances,
    LifeSign,
)
from relay_gateway.storage.listing import InvalidCursorError, Listing
from relay_gateway.storage.login_failures import LoginFailures
from relay_gateway.storage.master_keys import MasterKeyStore
from relay_gateway.storage.migrate import migrate
from relay_gateway.storage.rows import (
    Batch,
    CatalogRows,
    EntityChange,
    EntityRemoval,
    EntityUpdate,
    NewEntity,
    Page,
)
from relay_gateway.storage.sessions import SessionStore
from relay_gateway.storage.settings import SettingsStore
from relay_gateway.storage.spending import SpendingStore
from relay_gateway.storage.uses import RelayKeyUses

__all__ = [
    "AuditLog",
    "Batch",
    "CatalogRows",
    "CatalogStore",
    "CreateKey",
    "EntityChange",
    "EntityRemoval",
    "EntityUpdate",
    "InstanceStore",
    "InvalidCursorError",
    "KnownInstance",
    "KnownInstances",
    "LifeSign",
    "Listing",
    "LoginFailures",
    "MasterKeyStore",
    "NewEntity",
    "Page",
    "RelayKeyUses",
    "SessionStore",
    "SettingsStore",
    "SpendingStore",
    "create_engine",
    "migrate",
]
