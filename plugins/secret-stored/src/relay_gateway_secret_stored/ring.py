"""The master key ring: the first key seals, every key opens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from relay_gateway.errors import PluginLoadError
from relay_gateway.plugin import Secret
from relay_gateway_secret_stored.refs import decode

KEY_BYTES = 32
HOW_TO_MAKE = (
    "make one with POST /master-key/generate or `openssl rand -base64 32` and set RELAY_MASTER_KEY"
)


@dataclass(frozen=True, slots=True)
class WrappingKey:
    """A key derived from one master key. ``id`` tells nothing about the key."""

    id: str
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class KeyRing:
    """Wrapping keys, current one first; possibly none."""

    keys: tuple[WrappingKey, ...]

    @property
    def current(self) -> WrappingKey | None:
        """The key that seals."""
        return self.keys[0] if self.keys else None

    @property
    def by_id(self) -> Mapping[str, WrappingKey]:
        """Every key that opens, by its id."""
        return {key.id: key for key in self.keys}


def parse_ring(entries: Sequence[Secret]) -> KeyRing:
    """Derives the ring from master keys in base64.

    Raises :class:`PluginLoadError` naming the position of a key that is malformed or guessable.
    """
    keys: dict[str, WrappingKey] = {}
    for position, entry in enumerate(entries, start=1):
        key = _wrapping_key(_master_key(entry, f"{position} of {len(entries)}"))
        keys.setdefault(key.id, key)
    return KeyRing(tuple(keys.values()))


def _master_key(entry: Secret, position: str) -> bytes:
    try:
        key = decode(entry.reveal())
    except ValueError:
        # Not chained: what a decoder says may quote the key.
        raise PluginLoadError(
            f"RELAY_MASTER_KEY: key {position} is not standard base64; {HOW_TO_MAKE}"
        ) from None
    if len(key) != KEY_BYTES:
        raise PluginLoadError(
            f"RELAY_MASTER_KEY: key {position} has {len(key)} bytes instead of {KEY_BYTES}; "
            f"{HOW_TO_MAKE}"
        )
    if len({(later - earlier) % 256 for earlier, later in pairwise(key)}) == 1:
        raise PluginLoadError(
            f"RELAY_MASTER_KEY: key {position} is a pattern (one byte repeated, or a count) that "
            f"can be guessed; {HOW_TO_MAKE}"
        )
    return key


def _wrapping_key(master: bytes) -> WrappingKey:
    return WrappingKey(
        id=_derive(master, b"key id", 8).hex(), key=_derive(master, b"wrapping key", KEY_BYTES)
    )


def _derive(master: bytes, purpose: bytes, length: int) -> bytes:
    """HKDF-SHA256 (RFC 5869), so that neither the id nor one use of a key tells of another use."""
    info = b"relay-gateway/stored/v1/" + purpose
    return HKDF(algorithm=SHA256(), length=length, salt=None, info=info).derive(master)
