"""AES-256-GCM envelope: a fresh key per value, wrapped by the master key, bound to its row."""

from __future__ import annotations

import json
import secrets
from datetime import datetime

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from relay_gateway.plugin import RowBinding, Secret
from relay_gateway_secret_stored.refs import SealedRef, decode, encode
from relay_gateway_secret_stored.ring import WrappingKey

NONCE_BYTES = 12
"""96 bits, random: each data key is used once, and a wrapping key far below 2³² times."""


class UndecryptableError(Exception):
    """The parts do not belong together, or not to this row; nothing more is told."""


def seal_value(
    value: Secret, key: WrappingKey, binding: RowBinding, updated_at: datetime
) -> SealedRef:
    """Encrypts ``value`` so that only ``binding`` (row, field, generation) gives it back."""
    data_key = AESGCM.generate_key(bit_length=256)
    nonce, key_nonce = secrets.token_bytes(NONCE_BYTES), secrets.token_bytes(NONCE_BYTES)
    plaintext = value.reveal().encode("ascii")
    ciphertext = AESGCM(data_key).encrypt(nonce, plaintext, _bound("value", binding, key.id))
    wrapped_key = AESGCM(key.key).encrypt(key_nonce, data_key, _bound("key", binding, key.id))
    return SealedRef(
        key_id=key.id,
        updated_at=updated_at,
        nonce=encode(nonce),
        ciphertext=encode(ciphertext),
        key_nonce=encode(key_nonce),
        wrapped_key=encode(wrapped_key),
    )


def open_value(sealed: SealedRef, key: WrappingKey, binding: RowBinding) -> Secret:
    """The value; raises :class:`UndecryptableError` when anything differs from the sealing."""
    try:
        data_key = AESGCM(key.key).decrypt(
            decode(sealed.key_nonce), decode(sealed.wrapped_key), _bound("key", binding, key.id)
        )
        value = AESGCM(data_key).decrypt(
            decode(sealed.nonce), decode(sealed.ciphertext), _bound("value", binding, key.id)
        )
        return Secret(value.decode("ascii"))
    except (InvalidTag, ValueError):
        raise UndecryptableError from None


def _bound(layer: str, binding: RowBinding, key_id: str) -> bytes:
    """The associated data of one layer: a JSON array has one reading only, whatever the names."""
    parts = ["v1", layer, binding.kind, binding.id, binding.field, key_id, binding.generation]
    return json.dumps(parts, separators=(",", ":")).encode("ascii")
