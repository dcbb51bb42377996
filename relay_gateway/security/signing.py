"""Signatures with the master key, for what only a gateway that has the key may have written."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence

from relay_gateway.secret import Secret
from relay_gateway.security.master_key import derived_key


class Signer:
    """Signs for one purpose with the first master key, and knows the signatures of all of them."""

    def __init__(self, master_keys: Sequence[Secret], purpose: bytes) -> None:
        self._keys = [derived_key(key, purpose) for key in master_keys]

    @property
    def possible(self) -> bool:
        """Whether there is a key."""
        return bool(self._keys)

    def sign(self, content: bytes) -> str:
        """A signature of 64 hex digits; there must be a key."""
        return _signature(self._keys[0], content)

    def accepts(self, content: bytes, signature: str) -> bool:
        """Whether one of the keys has signed ``content``."""
        made = [_signature(key, content) for key in self._keys]
        return any(hmac.compare_digest(one, signature) for one in made)


def _signature(key: bytes, content: bytes) -> str:
    return hmac.new(key, content, hashlib.sha256).hexdigest()
