"""Where credentials are sent: which changes of an entity send existing ones somewhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}


def redirections(kind: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """The fields whose change sends the credentials of host keys to another place than before, or
    past another proxy or certificate check; ``before`` and ``after`` are specs of one ``kind``."""
    if kind == "host":
        pairs = {
            "baseUrl": (_origin(before.get("baseUrl")), _origin(after.get("baseUrl"))),
            "proxyUrl": (before.get("proxyUrl"), after.get("proxyUrl")),
            "tls": (_authority(before), _authority(after)),
        }
    elif kind == "host key":
        pairs = {"hostId": (before.get("hostId"), after.get("hostId"))}
    else:
        return ()
    return tuple(name for name, (old, new) in pairs.items() if old != new)


def _origin(url: object) -> tuple[object, ...]:
    """Scheme, host and port, as far as they can be read."""
    try:
        parts = urlsplit(str(url))
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return (url,)
    return parts.scheme, (parts.hostname or "").rstrip("."), port


def _authority(spec: Mapping[str, Any]) -> object:
    """Who vouches for the certificate."""
    tls = spec.get("tls")
    return tls.get("caFile") if isinstance(tls, Mapping) else None
