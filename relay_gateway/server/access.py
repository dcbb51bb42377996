"""How the control plane may be reached, from the settings."""

from __future__ import annotations

from relay_gateway.control.services import AccessRules
from relay_gateway.http.addresses import AddressReader
from relay_gateway.security.access import is_loopback
from relay_gateway.settings import Settings


def access_rules(settings: Settings) -> AccessRules:
    """What is configured, and what follows from the address where nothing is.

    On a loopback address cookies go over plain HTTP, and a name that a foreign name server has
    pointed there (DNS rebinding) is not answered.
    """
    local = is_loopback(settings.control_host)
    secure = settings.cookie_secure
    return AccessRules(
        cookie_secure=not local if secure is None else secure,
        cors_origins=frozenset(settings.cors_origins),
        allowed_hosts=settings.allowed_hosts if settings.allowed_hosts or local else None,
        metrics_public=settings.metrics_public,
        header_prefix=settings.header_prefixes[0],
        addresses=AddressReader(settings.trusted_proxies),
    )
