"""Heads that pass through in proxy mode: everything but what is the gateway's or the connection's.

Order, spelling and duplicates stay. What is left out is a fixed list, see :data:`PER_CONNECTION`,
:data:`KEPT_FROM_UPSTREAMS` and :data:`KEPT_FROM_CALLERS`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from relay_gateway.errors import RequestRefusedError
from relay_gateway.http.message import Header, Headers
from relay_gateway.pipeline.ports import Caller

PER_CONNECTION: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""Fields that end with a connection (RFC 9110 §7.6.1), besides those that ``Connection`` names."""
KEPT_FROM_UPSTREAMS: Final = frozenset({b"cookie", b"expect"})
"""Cookies are those of the gateway's own address; an expectation has been met here."""
KEPT_FROM_CALLERS: Final = frozenset({b"set-cookie", b"set-cookie2"})
"""They would be set for the gateway's address, which is not the upstream's to use."""

_FRAMING: Final = frozenset({b"host", b"content-length", b"transfer-encoding"})
# Readers that take header fields for variables see the same name in all of these.
_ALIKE = bytes.maketrans(b"_. ", b"---")


class HeadSieve:
    """Sieves heads; ``prefixes`` begin the names of the gateway's own fields."""

    def __init__(self, prefixes: Sequence[str]) -> None:
        self._own = tuple(prefix.lower().encode().translate(_ALIKE) for prefix in prefixes)

    def request_block(self, caller: Caller, authority: bytes) -> bytes:
        """The caller's header lines as ``authority`` gets them, with the framing of the body."""
        lines = [
            b"%b: %b\r\n" % (name, authority if name.lower() == b"host" else value)
            for name, value in self._passing(caller.headers, KEPT_FROM_UPSTREAMS, _FRAMING)
        ]
        if b"host" not in caller.headers:
            lines.insert(0, b"Host: %b\r\n" % authority)
        return b"".join(lines)

    def answer_block(self, headers: Headers) -> bytes:
        """An upstream's header lines as the caller gets them, without those that frame the body."""
        kept = self._passing(headers, KEPT_FROM_CALLERS | {b"content-length"}, frozenset())
        return b"".join([b"%b: %b\r\n" % field for field in kept])

    def _passing(
        self, headers: Headers, left_out: frozenset[bytes], framing: frozenset[bytes]
    ) -> Iterator[Header]:
        dropped = (PER_CONNECTION | left_out | _named_by_connection(headers)) - framing
        for name, value in headers.fields:
            lower = name.lower()
            if lower not in dropped and not self._is_own(lower):
                yield name, value

    def _is_own(self, lower: bytes) -> bool:
        return lower.translate(_ALIKE).startswith(self._own)


def refuse_leak(relay_key: str, caller: Caller, block: bytes) -> None:
    """Refuses (400) a request that would show its relay key to the upstream."""
    secret = relay_key.encode("latin-1", "replace")
    if secret in block or secret in caller.query or relay_key in caller.path:
        raise RequestRefusedError(
            400,
            "invalid_request",
            "the relay key is also in a header or an address that goes to the upstream; in proxy "
            "mode it belongs in the gateway's own header alone",
        )


def _named_by_connection(headers: Headers) -> frozenset[bytes]:
    named = b",".join(headers.all(b"connection")).lower().split(b",")
    return frozenset(name.strip() for name in named)
