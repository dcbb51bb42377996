"""Vendor-opaque blobs: signatures and encrypted reasoning, which must come back byte for byte.

A blob is only of use to the provider that made it, but its way back may lead through a client that
speaks another wire format. There it travels *sealed*: one base64 string that any format can carry
where it has room for a signature, and that :func:`unseal` turns into the same blob again.
"""

from __future__ import annotations

import binascii
from typing import Final

import msgspec

SEAL_PREFIX: Final = "Q" * 64
"""How every sealed blob begins: base64 whose length is a multiple of four, so that any may follow.
A body without these letters holds none, and every request is searched for them: a long run of one
letter that is rare in text and data is found missing ten times faster than a word."""

_TO_STANDARD: Final = str.maketrans("-_", "+/")


class Blob(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a provider wants back unchanged.

    ``format`` is the wire format it was read from, ``kind`` tells that format's codec what it is,
    ``id`` belongs to it where the provider names the thing it signs.
    """

    format: str
    data: str = msgspec.field()
    kind: str = "signature"
    id: str = ""


_decoder = msgspec.json.Decoder(Blob)


def seal(blob: Blob) -> str:
    """``blob`` as one base64 string, for a format that it does not come from."""
    return SEAL_PREFIX + binascii.b2a_base64(msgspec.json.encode(blob), newline=False).decode()


def unseal(text: str) -> Blob | None:
    """The blob that was sealed as ``text``, or ``None`` when ``text`` is a provider's own.

    Clients that decode such texts may write them again in the alphabet for URLs.
    """
    if not text.startswith(SEAL_PREFIX):
        return None
    try:
        packed = text[len(SEAL_PREFIX) :].translate(_TO_STANDARD).encode("ascii")
        return _decoder.decode(binascii.a2b_base64(packed, strict_mode=True))
    except (ValueError, UnicodeEncodeError):
        return None
