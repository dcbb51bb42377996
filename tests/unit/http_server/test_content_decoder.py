"""Encoded content is read piece by piece, and never becomes more than it may."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

import brotli
import pytest
import zstandard

from relay_gateway.http.content_decoder import (
    FREE_BYTES,
    UndecodableError,
    decoder_for,
    is_encoded,
)

PLENTY = 1 << 30
TEXT = b"".join(b'{"id":%d,"text":"some words"}' % number for number in range(5000))


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


CODINGS: dict[str, tuple[bytes, Callable[[bytes], bytes]]] = {
    "gzip": (b"gzip", gzip.compress),
    "x-gzip": (b" X-Gzip ", gzip.compress),
    "deflate": (b"deflate", zlib.compress),
    "bare deflate": (b"deflate", raw_deflate),
    "br": (b"br", brotli.compress),
    "zstd": (b"zstd", zstandard.compress),
}


@pytest.mark.parametrize("size", [1, 2, 7, 1000, 1 << 20])
@pytest.mark.parametrize("coding", CODINGS)
def test_content_is_decoded_wherever_it_is_cut(coding: str, size: int) -> None:
    name, encode = CODINGS[coding]
    decoder, packed = decoder_for(name, PLENTY), encode(TEXT)
    assert decoder is not None
    pieces = [decoder.feed(packed[at : at + size]) for at in range(0, len(packed), size)]
    assert b"".join(pieces) == TEXT


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_several_members_one_after_the_other_are_one_content(coding: str) -> None:
    name, encode = CODINGS[coding]
    decoder = decoder_for(name, PLENTY)
    assert decoder is not None
    assert decoder.feed(encode(b"one ") + encode(b"two")) == b"one two"


def test_an_event_is_read_as_soon_as_it_was_flushed() -> None:
    packer = zlib.compressobj(wbits=31)
    decoder = decoder_for(b"gzip", PLENTY)
    assert decoder is not None
    for event in (b"data: 1\n\n", b"data: 2\n\n"):
        assert decoder.feed(packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH)) == event


@pytest.mark.parametrize("coding", CODINGS)
def test_t30_a_bomb_is_not_decoded_to_its_end(coding: str) -> None:
    name, encode = CODINGS[coding]
    decoder = decoder_for(name, PLENTY)
    assert decoder is not None
    with pytest.raises(UndecodableError, match="becomes more than"):
        decoder.feed(encode(bytes(50_000_000)))


def test_t31_the_limit_counts_over_all_pieces() -> None:
    decoder, packed = decoder_for(b"gzip", 1000), gzip.compress(bytes(1001), 0)
    assert decoder is not None
    assert len(decoder.feed(packed[:500])) <= 500
    with pytest.raises(UndecodableError, match="1000 bytes"):
        decoder.feed(packed[500:])


def test_short_texts_may_shrink_to_almost_nothing() -> None:
    decoder = decoder_for(b"gzip", PLENTY)
    assert decoder is not None
    assert len(decoder.feed(gzip.compress(bytes(FREE_BYTES)))) == FREE_BYTES


@pytest.mark.parametrize("coding", CODINGS)
def test_content_that_is_not_what_it_says_is_refused(coding: str) -> None:
    decoder = decoder_for(CODINGS[coding][0], PLENTY)
    assert decoder is not None
    with pytest.raises(UndecodableError, match="not what"):
        decoder.feed(b'\xff{"model":"m"}' * 100)


@pytest.mark.parametrize("name", [b"gzip, br", b"compress", b"", None, b"gzip,gzip"])
def test_several_encodings_and_unknown_ones_are_not_read(name: bytes | None) -> None:
    assert decoder_for(name, PLENTY) is None


def test_identity_is_no_encoding() -> None:
    assert not is_encoded(None)
    assert not is_encoded(b" Identity ")
    assert is_encoded(b"gzip")
