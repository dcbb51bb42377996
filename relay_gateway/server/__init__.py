"""The composition root: builds everything, owns signals, the order of starting and of stopping.

Nothing below imports this package, and nothing but it knows all the parts.
"""

from relay_gateway.server.administration import CatalogAdmin, Finding, open_catalog
from relay_gateway.server.listen import Started, serve
from relay_gateway.server.parts import migrate

__all__ = ["CatalogAdmin", "Finding", "Started", "migrate", "open_catalog", "serve"]
