"""What a caller may ask of the inference plane's server: sizes in bytes, times in seconds."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network

import msgspec


class ServerLimits(msgspec.Struct, frozen=True):
    """Bounds on connections and requests; the defaults are those that operators are promised.

    ``header_bytes`` counts the request line and all fields. A body must bring
    ``body_bytes_per_second`` once ``body_grace_seconds`` have passed, and every begun
    ``body_block_bytes`` must be there within ``body_block_seconds``. ``read_ahead_bytes`` is how
    much is read that nobody asked for yet: the body of a request that is still being judged, or
    the next request on the connection. All large bodies together may hold ``body_memory_bytes``
    before the first byte of their answers; where they hold more, those that came later wait for
    ``body_wait_seconds`` at most. ``connections`` may be open, and ``connections_per_address``
    of one address or IPv6 network of 64 bits, except those of ``uncounted``. ``sweep_seconds`` is
    how often deadlines are looked at, and so by how much each may be exceeded.
    """

    header_bytes: int = 32 * 1024
    header_fields: int = 100
    target_bytes: int = 8 * 1024
    header_seconds: float = 10.0
    idle_seconds: float = 75.0
    body_grace_seconds: float = 10.0
    body_bytes_per_second: int = 1024
    body_block_bytes: int = 32 * 1024 * 1024
    body_block_seconds: float = 120.0
    body_memory_bytes: int = 64 * 1024 * 1024
    body_wait_seconds: float = 60.0
    write_stall_seconds: float = 60.0
    linger_seconds: float = 5.0
    write_high_water_bytes: int = 32 * 1024
    read_ahead_bytes: int = 64 * 1024
    connections: int = 1 << 20
    connections_per_address: int = 8192
    uncounted: tuple[IPv4Network | IPv6Network, ...] = ()
    sweep_seconds: float = 1.0
