"""Relay keys: minting, the checksum by which one is recognised, and the digest that is kept.

A relay key is ``sk-relay-``, 43 random base62 characters (256 bits) and 6 base62 characters of the
CRC-32 (ISO-HDLC, as :func:`zlib.crc32`) of all that precedes them. Base62 digits are ``0-9A-Za-z``
in this order; the checksum is written most significant digit first, padded with ``0``.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import string
import zlib

import msgspec

from relay_gateway.secret import Secret

KEY_PREFIX = "sk-relay-"
RANDOM_LENGTH = 43
CHECKSUM_LENGTH = 6
DISPLAY_LENGTH = 16
ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase

_FORM = re.compile(rf"{KEY_PREFIX}[0-9A-Za-z]{{{RANDOM_LENGTH + CHECKSUM_LENGTH}}}")


class MintedKey(msgspec.Struct, frozen=True, eq=False):
    """A new relay key: what its owner gets once, and what the gateway keeps.

    ``digest`` is the SHA-256 of the plaintext in lower-case hex, ``prefix`` its first 16
    characters.
    """

    plaintext: Secret
    digest: str
    prefix: str


def mint_relay_key() -> MintedKey:
    """A new relay key from the operating system's random source."""
    body = KEY_PREFIX + "".join(secrets.choice(ALPHABET) for _ in range(RANDOM_LENGTH))
    plaintext = body + _checksum(body)
    return MintedKey(Secret(plaintext), digest(plaintext), plaintext[:DISPLAY_LENGTH])


def has_valid_checksum(plaintext: str) -> bool:
    """Whether ``plaintext`` has the form of a relay key and was not mistyped.

    Says nothing about whether the key exists; it spares a look-up for what cannot be one.
    """
    if _FORM.fullmatch(plaintext) is None:
        return False
    return plaintext[-CHECKSUM_LENGTH:] == _checksum(plaintext[:-CHECKSUM_LENGTH])


def digest(plaintext: str) -> str:
    """The SHA-256 of a relay key in lower-case hex: the only form that is stored or looked up."""
    return hashlib.sha256(plaintext.encode()).hexdigest()


def _checksum(text: str) -> str:
    value = zlib.crc32(text.encode())
    digits = []
    for _ in range(CHECKSUM_LENGTH):
        value, digit = divmod(value, len(ALPHABET))
        digits.append(ALPHABET[digit])
    return "".join(reversed(digits))
