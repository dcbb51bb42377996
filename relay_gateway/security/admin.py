"""The admin bearer: whether a presented token is the configured one."""

from __future__ import annotations

import hashlib
import hmac
import re

from relay_gateway.errors import SettingsError
from relay_gateway.secret import Secret

DIGEST_PREFIX = "sha256:"
"""What an admin token begins with that is configured as its SHA-256 in hex."""

_DIGEST = re.compile(r"[0-9a-fA-F]{64}")


class AdminToken:
    """Compares presented tokens with the configured one, in time that depends on neither.

    Only the digest is kept; comparing digests also hides the length of the token. The token may be
    configured as ``sha256:`` and its digest. Raises :class:`SettingsError` when that is none.
    """

    __slots__ = ("_digest",)

    def __init__(self, token: Secret) -> None:
        self._digest = _configured_digest(token.reveal())

    def matches(self, presented: str) -> bool:
        """Whether ``presented`` is the admin token."""
        return hmac.compare_digest(self._digest, _digest(presented))


def _configured_digest(text: str) -> bytes:
    if not text.startswith(DIGEST_PREFIX):
        return _digest(text)
    digest = text.removeprefix(DIGEST_PREFIX)
    if _DIGEST.fullmatch(digest) is None:
        raise SettingsError(
            f"admin_token: what follows {DIGEST_PREFIX!r} must be a SHA-256 of 64 hex digits"
        )
    return bytes.fromhex(digest)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
