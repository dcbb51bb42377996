"""The master key ring: making a key, and refusing keys that would not protect anything."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Sequence

from relay_gateway.errors import SettingsError
from relay_gateway.secret import Secret
from relay_gateway.settings.data_dir import new_master_key

KEY_BYTES = 32


def generate_master_key() -> Secret:
    """A new master key: 32 random bytes in standard base64. Nothing is installed by this."""
    return Secret(new_master_key())


def derived_key(master_key: Secret, purpose: bytes) -> bytes:
    """The key of 32 bytes that ``master_key`` gives for one purpose; it tells nothing about the
    master key or about what it gives for another."""
    return hmac.digest(base64.b64decode(master_key.reveal()), purpose, "sha256")


def check_master_keys(ring: Sequence[Secret]) -> None:
    """Refuses a key ring with an entry that is no key, is weak, or comes twice.

    Raises :class:`SettingsError` naming the position of the entry, never its value.
    """
    seen: set[bytes] = set()
    for position, entry in enumerate(ring, start=1):
        key = _decode(entry.reveal(), position)
        if len(set(key)) == 1:
            raise SettingsError(
                f"master key {position} is one byte repeated, which protects nothing; "
                "make one with `openssl rand -base64 32`"
            )
        if key in seen:
            raise SettingsError(f"master key {position} is in the ring twice; remove one of them")
        seen.add(key)


def _decode(text: str, position: int) -> bytes:
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise SettingsError(
            f"master key {position} is not standard base64; it must be {KEY_BYTES} bytes in base64"
        ) from None
    if len(key) != KEY_BYTES:
        raise SettingsError(
            f"master key {position} has {len(key)} bytes instead of {KEY_BYTES}; "
            "make one with `openssl rand -base64 32`"
        )
    return key
