"""Where a request comes from, through the proxies that are trusted to say so."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address

from relay_gateway.http.message import Headers


class AddressReader:
    """Tells a caller's address, believing ``X-Forwarded-For`` only from trusted proxies."""

    def __init__(self, trusted: Sequence[IPv4Network | IPv6Network]) -> None:
        self._trusted = tuple(trusted)

    def read(self, peer: str, headers: Headers) -> str:
        """The nearest address on the way here that is not one of our own proxies."""
        if not self._trusted:
            return peer
        hops = b",".join(headers.all(b"x-forwarded-for")).decode("latin-1").split(",")
        address = peer
        for hop in reversed([hop.strip() for hop in hops if hop.strip()]):
            if not self._is_trusted(address) or not _is_address(hop):
                break
            address = hop
        return address

    def _is_trusted(self, address: str) -> bool:
        return _is_address(address) and any(ip_address(address) in net for net in self._trusted)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
