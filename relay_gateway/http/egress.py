"""Which addresses the gateway dials: checked on resolved addresses, at the moment of connecting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

from relay_gateway.errors import UpstreamConnectError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


def _networks(*texts: str) -> tuple[Network, ...]:
    return tuple(ip_network(text) for text in texts)


NEVER_DIALLED: tuple[tuple[str, tuple[Network, ...]], ...] = (
    (
        "a cloud metadata address",
        _networks(
            "169.254.169.254/32",
            "168.63.129.16/32",
            "100.100.100.200/32",
            "192.0.0.192/32",
            "fd00:ec2::/32",
            "fd20:ce::254/128",
        ),
    ),
    ("a link-local address", _networks("169.254.0.0/16", "fe80::/10", "fec0::/10")),
    ("a multicast address", _networks("224.0.0.0/4", "ff00::/8")),
    ("an unspecified address", _networks("0.0.0.0/8", "::/128")),
    ("a reserved address", _networks("240.0.0.0/4", "192.0.0.0/24", "2001:db8::/32", "3fff::/20")),
    ("a tunnelling address", _networks("2001::/32", "64:ff9b:1::/48")),
)
"""Refused for every scheme and every configuration, with the word for it."""

NEAR = _networks(
    "127.0.0.0/8",
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "100.64.0.0/10",
    "::1/128",
    "fc00::/7",
)
"""Loopback and private networks: the only ones that are spoken to without TLS."""

_UNICAST = ip_network("2000::/3")
"""All public IPv6 hosts; spelled out because ``is_global`` differs between Python versions."""
_NAT64 = ip_network("64:ff9b::/96")
_COMPATIBLE = ip_network("::/96")


def embedded(address: Address) -> Address:
    """The IPv4 address inside an IPv6 one (mapped, NAT64, 6to4, compatible), else ``address``."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    low = int(address) & 0xFFFFFFFF
    if address in _NAT64 or (address in _COMPATIBLE and low > 1):
        return IPv4Address(low)
    return address


class EgressRules:
    """What may be dialled. ``deny`` are the operator's own forbidden networks."""

    __slots__ = ("_deny",)

    def __init__(self, deny: Sequence[Network] = ()) -> None:
        self._deny = tuple(deny)

    def check(self, scheme: str, host: str, addresses: Iterable[Address]) -> None:
        """Raises :class:`UpstreamConnectError` unless every address of ``host`` may be dialled.

        One forbidden address condemns the name: an answer that mixes allowed and forbidden ones is
        what DNS rebinding looks like.
        """
        for address in addresses:
            reason = self._refusal(scheme, address)
            if reason is not None:
                raise UpstreamConnectError(
                    f"{host!r} resolves to {address}, {reason}; point the host elsewhere",
                    sent=False,
                )

    def _refusal(self, scheme: str, address: Address) -> str | None:
        real = embedded(address)
        for word, networks in NEVER_DIALLED:
            if _within(real, networks):
                return f"{word} that is never dialled"
        if _within(real, self._deny) or _within(address, self._deny):
            return "which is inside a network that the egress rules deny"
        if _within(real, NEAR):
            return None
        if isinstance(real, IPv6Address) and real not in _UNICAST:
            return "a reserved address that is never dialled"
        if scheme == "http":
            return "a public address, and plain http is only for loopback and private ones"
        return None


def _within(address: Address, networks: Iterable[Network]) -> bool:
    return any(address in network for network in networks)
