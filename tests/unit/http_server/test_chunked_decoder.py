from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_gateway.errors import RequestRefusedError
from relay_gateway.http.chunked_decoder import ChunkedDecoder

pieces = st.lists(st.binary(min_size=1, max_size=40), max_size=8)
extensions = st.sampled_from([b"", b";a", b";a=b", b' ;a="q"', b";" + b"x" * 900])
trailers = st.sampled_from([b"", b"A: b\r\n", b"A:\r\nB: c\r\n"])


def encode(contents: list[bytes], extension: bytes, trailer: bytes) -> bytes:
    chunks = [b"%x%b\r\n%b\r\n" % (len(piece), extension, piece) for piece in contents]
    return b"".join(chunks) + b"0\r\n" + trailer + b"\r\n"


def decode(decoder: ChunkedDecoder, wire: bytes, cuts: list[int]) -> tuple[bytes, bytes]:
    """Content and what follows, of ``wire`` fed in the parts that ``cuts`` make of it."""
    content, rest = b"", b""
    edges = sorted({0, len(wire), *(cut % (len(wire) + 1) for cut in cuts)})
    for start, end in pairwise(edges):
        if decoder.complete:
            rest += wire[start:end]
            continue
        found, after = decoder.feed(wire[start:end])
        content += b"".join(found)
        rest += after
    return content, rest


@given(pieces, extensions, trailers, st.lists(st.integers(0, 5000)), st.binary(max_size=20))
def test_body_and_what_follows_are_the_same_however_it_is_cut(
    contents: list[bytes], extension: bytes, trailer: bytes, cuts: list[int], following: bytes
) -> None:
    decoder = ChunkedDecoder()
    wire = encode(contents, extension, trailer) + following
    assert decode(decoder, wire, cuts) == (b"".join(contents), following)
    assert decoder.complete


@given(pieces, st.integers(0, 10_000), st.integers(0, 255))
def test_changed_byte_never_crashes_and_never_adds_content(
    contents: list[bytes], position: int, value: int
) -> None:
    wire = bytearray(encode(contents, b"", b""))
    wire[position % len(wire)] = value
    decoder = ChunkedDecoder()
    try:
        found, _ = decoder.feed(bytes(wire))
    except RequestRefusedError:
        return
    assert sum(map(len, found)) < len(wire)


def test_every_cut_of_an_incomplete_body_leaves_it_incomplete() -> None:
    wire = encode([b"hello", b"world"], b";x", b"A: b\r\n")
    for end in range(len(wire)):
        decoder = ChunkedDecoder()
        decoder.feed(wire[:end])
        assert not decoder.complete


@pytest.mark.parametrize(
    "wire",
    [
        b"g\r\n",
        b"\n",
        b"1\nx\r\n",
        b"\r\n",
        b" 1\r\nx\r\n",
        b"1\r\nxy",
        b"1\r\nx\ry",
        b"1\r\nx\n",
        b"0" * 16 + b"\r\n",
        b"1;" + b"a" * 1024,
        b"0\r\nno field\r\n",
        b"0\r\n: a\r\n",
        b"0\r\n" + b"A: %b\r\n" % (b"x" * 900) * 10,
    ],
)
def test_t17_broken_framing_is_refused(wire: bytes) -> None:
    with pytest.raises(RequestRefusedError) as refused:
        ChunkedDecoder().feed(wire)
    assert refused.value.status == 400
