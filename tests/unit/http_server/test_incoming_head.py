from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay_gateway.errors import RequestRefusedError
from relay_gateway.http.incoming_head import HeadReader
from relay_gateway.http.limits import ServerLimits

HEAD = (
    b"POST /v1/chat/completions?x=1 HTTP/1.1\r\nHost: a\r\nAccept: */*\r\nX: one \t\r\n"
    b"x: two\r\nContent-Length: 3\r\n\r\n"
)


@given(st.lists(st.integers(0, len(HEAD) + 3)))
def test_head_is_the_same_however_it_is_cut(cuts: list[int]) -> None:
    reader = HeadReader(ServerLimits())
    wire = HEAD + b"abc"
    edges = sorted({0, len(wire), *cuts})
    rest = b""
    for start, end in pairwise(edges):
        found = reader.feed(wire[start:end]) if reader.head is None else wire[start:end]
        rest += found or b""
    head = reader.head
    assert head is not None
    assert rest == b"abc"
    assert (head.method, head.path, head.query) == ("POST", "/v1/chat/completions", b"x=1")
    assert (head.version, head.length, head.keep_alive) == ("1.1", 3, True)
    assert head.headers.fields[2:4] == [(b"X", b"one"), (b"x", b"two")]
    assert not reader.begun


def test_several_heads_are_read_one_after_the_other() -> None:
    reader = HeadReader(ServerLimits())
    rest: bytes | None = b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % n for n in range(3))
    for number in range(3):
        assert rest is not None
        rest = reader.feed(rest)
        assert reader.head is not None
        assert reader.head.path == f"/{number}"
    assert rest == b""


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET / HTTP/1.1\n", 400),
        (b"GET / HTTP/1.1\r\nHost : a", 400),
        (b"GET / HTTP/1.1\r\nX: a\r\n b", 400),
        (b"\x16\x03\x01\x02", 400),
        (b"GET /" + b"a" * 300, 414),
        (b"GET /" + b"a" * 300 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 500, 431),
        (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"A: b\r\n" * 4 + b"\r\n", 431),
    ],
)
def test_t28_hopeless_head_is_refused_before_its_end(data: bytes, status: int) -> None:
    reader = HeadReader(ServerLimits(header_bytes=400, header_fields=4, target_bytes=200))
    with pytest.raises(RequestRefusedError) as refused:
        reader.feed(data)
    assert refused.value.status == status


def test_empty_line_alone_does_not_begin_a_request() -> None:
    reader = HeadReader(ServerLimits())
    assert reader.feed(b"\r\n") is None
    assert not reader.begun
    assert reader.feed(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") == b""


_BROKEN = st.sampled_from([b"", b"-1", b"0x1", b"1 ", b"9" * 19])
_LENGTHS = st.one_of(st.integers(0, 10**6), _BROKEN)
_TARGETS = st.sampled_from([b"/a", b"/a", b"/b?c=d"])
_FIELDS = st.sampled_from(
    [b"", b"", b"X: y\r\n", b"Expect: 100-continue\r\n", b"content-length: 1\r\n"]
)


@st.composite
def heads(draw: st.DrawFn) -> bytes:
    length = draw(_LENGTHS)
    digits = length if isinstance(length, bytes) else b"%d" % length
    parts = (draw(_TARGETS), draw(_FIELDS), digits, draw(_FIELDS))
    return b"POST %b HTTP/1.1\r\nHost: a\r\n%bContent-Length: %b\r\n%b\r\n" % parts


def read(reader: HeadReader, wire: bytes) -> object:
    try:
        rest = reader.feed(wire)
    except RequestRefusedError as refusal:
        return refusal.status, refusal.message
    head = reader.head
    assert head is not None
    fields = head.headers.fields
    found = head.headers.get(b"content-length")
    return (
        rest,
        head.method,
        head.path,
        head.query,
        head.length,
        head.expects_continue,
        fields,
        found,
    )


@settings(deadline=None)
@given(st.lists(heads(), min_size=1, max_size=6))
def test_t28_a_head_like_the_one_before_is_read_as_if_it_were_the_first(wires: list[bytes]) -> None:
    one = HeadReader(ServerLimits())
    for wire in wires:
        alone = read(HeadReader(ServerLimits()), wire + b"body")
        assert read(one, wire + b"body") == alone
        if isinstance(alone, tuple) and len(alone) == 2:
            break  # the connection ends with a refusal


def test_what_was_worked_out_of_a_head_is_kept_while_only_its_length_differs() -> None:
    reader = HeadReader(ServerLimits())
    memories = []
    for length, name in [(1, b"a"), (20, b"a"), (20, b"a"), (20, b"b")]:
        reader.feed(b"POST / HTTP/1.1\r\nHost: %b\r\nContent-Length: %d\r\n\r\n" % (name, length))
        assert reader.head is not None
        assert reader.head.length == length
        memories.append(reader.head.memory)
    assert memories[0] is memories[1] is memories[2]
    assert memories[3] is not memories[0]
