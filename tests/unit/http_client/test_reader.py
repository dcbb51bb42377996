from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_gateway.errors import UpstreamProtocolError
from relay_gateway.http.reader import MAX_FRAMING_BYTES, MAX_HEAD_BYTES, ResponseReader

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def read(*pieces: bytes, bodyless: bool = False) -> tuple[ResponseReader, bytes]:
    reader = ResponseReader()
    reader.begin(bodyless=bodyless)
    body = b""
    for piece in pieces:
        body += reader.feed(piece)
    return reader, body


def test_a_response_is_read_with_its_fields_as_they_were() -> None:
    reader, body = read(HEAD + b"X-A:  b c \t\r\nx-a:\r\nContent-Length: 3\r\n\r\nabc")
    assert (reader.status, body) == (200, b"abc")
    assert reader.headers.fields == [(b"X-A", b"b c"), (b"x-a", b""), (b"Content-Length", b"3")]
    assert (reader.complete, reader.keep_alive, reader.trailing) == (True, True, False)


@pytest.mark.parametrize("status", [204, 304])
def test_responses_that_never_have_a_body_end_with_their_head(status: int) -> None:
    reader, _ = read(b"HTTP/1.1 %d X\r\nContent-Length: 5\r\n\r\n" % status)
    assert (reader.complete, reader.keep_alive) == (True, True)


def test_the_answer_to_head_ends_with_its_head_and_the_connection_with_it() -> None:
    reader, body = read(HEAD + b"Content-Length: 5\r\n\r\nhello", bodyless=True)
    assert (reader.complete, reader.keep_alive, body) == (True, False, b"")


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", id="CL+TE"),
        pytest.param(HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", id="TE+CL"),
        pytest.param(HEAD + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\n", id="equal CLs"),
        pytest.param(HEAD + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\n", id="other CLs"),
        pytest.param(HEAD + b"Content-Length: 3, 3\r\n\r\n", id="CL list"),
        pytest.param(HEAD + b"Content-Length: +3\r\n\r\n", id="CL +3"),
        pytest.param(HEAD + b"Content-Length: -3\r\n\r\n", id="CL -3"),
        pytest.param(HEAD + b"Content-Length: 0x3\r\n\r\n", id="CL hex"),
        pytest.param(HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n", id="TE gzip, chunked"),
        pytest.param(HEAD + b"Transfer-Encoding: gzip\r\n\r\n", id="TE gzip"),
        pytest.param(HEAD + b"Transfer-Encoding: chunked, gzip\r\n\r\n", id="TE chunked, gzip"),
        pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n" * 2 + b"\r\n", id="two TE"),
        pytest.param(b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", id="TE in 1.0"),
        pytest.param(b"HTTP/1.1 200 OK\nContent-Length: 0\n\n", id="bare LF"),
        pytest.param(HEAD + b"X: a\r\n b\r\n\r\n", id="obs-fold"),
        pytest.param(HEAD + b"X: a\0b\r\n\r\n", id="NUL"),
        pytest.param(HEAD + b"X : a\r\n\r\n", id="space before colon"),
        pytest.param(b"HTTP/2.0 200 OK\r\n\r\n", id="HTTP/2.0"),
        pytest.param(b"HTTP/0.9 200 OK\r\n\r\n", id="HTTP/0.9"),
        pytest.param(b"ICY 200 OK\r\n\r\n", id="other protocol"),
        pytest.param(b"RTSP/1.0 200 OK\r\n\r\n", id="RTSP"),
        pytest.param(b"\r\nHTTP/1.1 200 OK\r\n\r\n", id="leading line"),
        pytest.param(b"HTTP/1.1 099 OK\r\n\r\n", id="status 99"),
        pytest.param(b"HTTP/1.1 600 OK\r\n\r\n", id="status 600"),
        pytest.param(b"HTTP/1.1 101 Go\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", id="101"),
        pytest.param(CHUNKED + b"zz\r\n", id="chunk size zz"),
        pytest.param(CHUNKED + b"0x3\r\nabc\r\n", id="chunk size 0x3"),
        pytest.param(CHUNKED + b"ffffffffffffffff0\r\n", id="chunk size overflow"),
        pytest.param(CHUNKED + b"3\r\nabcX\r\n", id="chunk longer than said"),
        pytest.param(CHUNKED + b"3\nabc\r\n", id="chunk size ended by LF"),
    ],
)
def test_what_is_not_a_sound_response_is_refused_in_one_piece_and_in_bytes(answer: bytes) -> None:
    with pytest.raises(UpstreamProtocolError):
        read(answer)
    with pytest.raises(UpstreamProtocolError):
        read(*[answer[at : at + 1] for at in range(len(answer))])


def test_the_body_before_a_fault_can_still_be_taken() -> None:
    reader = ResponseReader()
    with pytest.raises(UpstreamProtocolError, match="chunk size"):
        reader.feed(CHUNKED + b"3\r\nabc\r\nzz\r\n")
    assert reader.take() == b"abc"


@pytest.mark.parametrize(
    ("start", "filler"),
    [(HEAD, b"X: y\r\n"), (HEAD + b"X: ", b"y" * 50), (b"HTTP/1.1 200 ", b"K" * 50)],
)
def test_f38_a_head_without_end_is_refused(start: bytes, filler: bytes) -> None:
    with pytest.raises(UpstreamProtocolError):
        read(start, *[filler] * (MAX_HEAD_BYTES // len(filler) + 2))


@pytest.mark.parametrize("start", [b"3;", b"0\r\n"])
def test_f38_chunk_extensions_and_trailers_without_end_are_refused(start: bytes) -> None:
    filler = b"x=yyyyyyyyyy;" if start == b"3;" else b"X: yyyyyyyyyyyy\r\n"
    with pytest.raises(UpstreamProtocolError):
        read(CHUNKED + start, *[filler] * (MAX_FRAMING_BYTES // len(filler) + 2))


def test_framing_between_bodies_does_not_add_up() -> None:
    chunk = b"1;" + b"x" * 1000 + b"\r\na\r\n"
    reader, body = read(CHUNKED, *[chunk] * 200, b"0\r\n\r\n")
    assert (body, reader.complete) == (b"a" * 200, True)


def test_a_body_without_framing_ends_only_with_the_connection() -> None:
    reader, body = read(HEAD + b"\r\n", b"abc", b"def")
    assert (body, reader.complete) == (b"abcdef", False)
    assert reader.finish()
    assert not reader.keep_alive


@pytest.mark.parametrize(
    "start",
    [b"", HEAD, HEAD + b"Content-Length: 3\r\n\r\nab", CHUNKED + b"3\r\nabc\r\n"],
)
def test_f35_the_end_of_the_connection_does_not_complete_anything_else(start: bytes) -> None:
    reader = ResponseReader()
    if start:
        reader.feed(start)
    assert not reader.finish()


def test_f49_bytes_behind_the_end_are_noticed_and_not_delivered() -> None:
    answer = HEAD + b"Content-Length: 3\r\n\r\nabc"
    reader, body = read(answer + answer)
    assert (reader.complete, reader.trailing, body) == (True, True, b"abc")
    assert len(reader.headers.fields) == 1


def test_one_reader_reads_the_responses_of_a_connection_one_after_the_other() -> None:
    reader = ResponseReader()
    for body in (b"abc", b"", b"de"):
        reader.begin(bodyless=False)
        brought = reader.feed(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert (reader.complete, reader.keep_alive, brought) == (True, True, body)


@given(
    bodies=st.lists(st.binary(min_size=1, max_size=40), max_size=6),
    cuts=st.lists(st.integers(0, 400), max_size=8),
    chunked=st.booleans(),
)
def test_the_body_is_the_same_wherever_the_stream_is_cut(
    bodies: list[bytes], cuts: list[int], *, chunked: bool
) -> None:
    whole = b"".join(bodies)
    if chunked:
        framed = b"".join(b"%x\r\n%b\r\n" % (len(body), body) for body in bodies)
        stream = b"HTTP/1.1 100 Continue\r\n\r\n" + CHUNKED + framed + b"0\r\nX-T: 1\r\n\r\n"
    else:
        stream = HEAD + b"Content-Length: %d\r\n\r\n" % len(whole) + whole
    points = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[start:end] for start, end in pairwise(points)]
    reader, body = read(*pieces)
    assert (body, reader.complete, reader.keep_alive) == (whole, True, True)
