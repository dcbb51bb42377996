"""The composition root: builds everything, owns signals, the order of starting and of stopping.

Nothing below imports this package, and nothing but it knows all the parts.
"""

from relay_gateway.server.administration import CatalogAdmin, open_catalog
from relay_gateway.server.database import migrate
from relay_gateway.server.finding import Finding
from relay_gateway.server.listen import Started, serve
from relay_gateway.server.relay_key_admin import KnownRelayKey, RelayKeyOrder

__all__ = [
    "CatalogAdmin",
    "Finding",
    "KnownRelayKey",
    "RelayKeyOrder",
    "Started",
    "migrate",
    "open_catalog",
    "serve",
]
