"""``Target``: where an upstream is, how to reach it and how patient to be with it."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import TypedDict, Unpack
from urllib.parse import urlsplit

from relay_gateway.catalog.snapshot import ProxyCredential

DEFAULT_PORTS = {"http": 80, "https": 443}


class TargetOptions(TypedDict, total=False):
    """What :meth:`Target.from_url` takes besides the address."""

    connect_timeout: float
    first_byte_timeout: float
    idle_timeout: float
    total_timeout: float
    max_connections: int
    ca_file: str | None
    proxy_url: str | None
    proxy_credential: ProxyCredential | None


@dataclass(frozen=True, slots=True)
class Target:
    """Where and how to connect; equal targets share a pool of connections.

    ``authority`` is the value of the ``Host`` header. Timeouts are in seconds: ``connect`` covers
    name look-up, TCP, proxy and TLS; ``first_byte`` runs from the end of the request to the end of
    the response head; ``idle`` is the longest silence within a body; ``total`` bounds the whole
    exchange, 0 meaning that nothing does. ``ca_file`` replaces the system's trust store.
    ``proxy_url`` is an egress proxy that is asked for a tunnel (``CONNECT``), ``proxy_credential``
    says where its user name and password come from.
    """

    scheme: str
    host: str
    port: int
    authority: bytes
    connect_timeout: float = 5.0
    first_byte_timeout: float = 120.0
    idle_timeout: float = 120.0
    total_timeout: float = 0.0
    max_connections: int = 512
    ca_file: str | None = None
    proxy_url: str | None = None
    proxy_credential: ProxyCredential | None = field(default=None, repr=False)
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        key = (self.scheme, self.host, self.port, self.ca_file, self.proxy_url)
        object.__setattr__(self, "_hash", hash(key))

    def __hash__(self) -> int:
        # Targets are looked up once per request: hashing every field each time would cost 1 µs.
        return self._hash

    @classmethod
    def from_url(cls, base_url: str, **options: Unpack[TargetOptions]) -> Target:
        """The target of an ``http`` or ``https`` address; path and query are not part of it.

        Raises ``ValueError`` for another scheme, a missing host or a bad port.
        """
        parts = urlsplit(base_url)
        if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
            raise ValueError("an upstream address must be http:// or https:// with a host")
        port = parts.port or DEFAULT_PORTS[parts.scheme]
        authority = authority_of(parts.hostname, port, default=DEFAULT_PORTS[parts.scheme])
        return cls(parts.scheme, parts.hostname, port, authority, **options)

    @property
    def name(self) -> str:
        """Scheme, host and port for messages."""
        return f"{self.scheme}://{authority_of(self.host, self.port).decode('ascii', 'replace')}"

    @property
    def shortest_timeout(self) -> float:
        """The shortest time, in seconds, that any deadline of this target may run."""
        timeouts = (self.first_byte_timeout, self.idle_timeout, self.total_timeout)
        return min(timeout for timeout in timeouts if timeout > 0)


def authority_of(host: str, port: int, *, default: int = 0) -> bytes:
    """``host:port`` as in a ``Host`` header: IPv6 in brackets, the default port left out."""
    try:
        literal = ipaddress.ip_address(host)
    except ValueError:
        name = host
    else:
        name = f"[{host}]" if literal.version == 6 else host
    return (name if port == default else f"{name}:{port}").encode("ascii")
