"""The admin bearer: whether a presented token is the configured one."""

from __future__ import annotations

import hashlib
import hmac

from relay_gateway.secret import Secret


class AdminToken:
    """Compares presented tokens with the configured one, in time that depends on neither.

    Only the digest is kept; comparing digests also hides the length of the token.
    """

    __slots__ = ("_digest",)

    def __init__(self, token: Secret) -> None:
        self._digest = _digest(token.reveal())

    def matches(self, presented: str) -> bool:
        """Whether ``presented`` is the admin token."""
        return hmac.compare_digest(self._digest, _digest(presented))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
