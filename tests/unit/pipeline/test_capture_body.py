"""Copies of bodies: whatever the chunks, the same is kept; what is no text is told by digest."""

from __future__ import annotations

import gzip
import hashlib
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay_gateway.pipeline.capture_body import OVERLAP, BodyCopy, Holding, Room, TakenBody
from relay_gateway.pipeline.capture_form import MAX_HEADERS, FormReader
from relay_gateway.pipeline.capture_types import Kind, kind_of

FORM = b"multipart/form-data; boundary=XX"


def taken(
    content_type: bytes | None,
    chunks: list[bytes],
    *,
    keep: int = 1 << 20,
    encoding: bytes | None = None,
) -> TakenBody:
    """What becomes of a body that comes in ``chunks``."""
    room = Room(1 << 30)
    holding = Holding(room)
    copy = BodyCopy(content_type, encoding, keep, holding)
    for chunk in chunks:
        copy.feed(chunk)
    body = copy.finish(complete=True)
    holding.release()
    assert room.taken == 0
    return body


def form_of(body: TakenBody) -> bytes:
    """The pieces of a form in their order."""
    return b"".join(bytes(piece.content) for piece in body.pieces)


@pytest.mark.parametrize(
    ("content_type", "kind"),
    [
        ("", Kind.JSON),
        ("Application/JSON; charset=utf-8", Kind.JSON),
        ("application/problem+json", Kind.JSON),
        ("application/x-ndjson", Kind.JSON),
        ("text/event-stream", Kind.EVENTS),
        ("text/html", Kind.TEXT),
        ("application/x-www-form-urlencoded", Kind.TEXT),
        ("image/svg+xml", Kind.TEXT),
        ("multipart/form-data; boundary=x", Kind.FORM),
        ("multipart/mixed; boundary=x", Kind.OPAQUE),
        ("application/octet-stream", Kind.OPAQUE),
        ("image/png", Kind.OPAQUE),
    ],
)
def test_text_is_told_from_everything_else_by_its_media_type(content_type: str, kind: Kind) -> None:
    assert kind_of(content_type) is kind


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300), st.sets(st.integers(0, 300)), st.sampled_from([None, b"gzip"]))
def test_the_same_is_kept_however_a_body_is_cut(
    content: bytes, cuts: set[int], encoding: bytes | None
) -> None:
    body = gzip.compress(content, mtime=0) if encoding else content
    places = sorted({0, len(body), *(cut for cut in cuts if cut < len(body))})
    chunks = [body[a:b] for a, b in pairwise(places)]
    found = taken(b"text/plain", chunks, encoding=encoding)
    assert found.size == len(body)
    if b"\0" in content:
        assert (found.kind, found.content) == (Kind.OPAQUE, b"")
        assert found.sha256 == hashlib.sha256(body).hexdigest()
    else:
        assert (found.content, found.sha256, found.truncated) == (content, None, False)


def test_no_more_is_held_than_is_kept_and_a_little() -> None:
    room = Room(1 << 30)
    copy = BodyCopy(b"text/plain", None, 100, Holding(room))
    for _ in range(1000):
        copy.feed(b"x" * 1000)
    assert room.taken == 100 + OVERLAP
    body = copy.finish(complete=True)
    assert (len(body.content), body.size, body.truncated) == (100 + OVERLAP, 1_000_000, True)


def test_t65_a_payload_without_room_is_lost_whole_and_gives_its_room_back() -> None:
    room = Room(150)
    first, second = Holding(room), Holding(room)
    request = BodyCopy(b"text/plain", None, 1000, first)
    answer = BodyCopy(b"text/plain", None, 1000, first)
    other = BodyCopy(b"text/plain", None, 1000, second)
    request.feed(b"a" * 100)
    other.feed(b"b" * 40)
    answer.feed(b"c" * 20)
    assert (first.lost, second.lost, room.taken) == (True, False, 40)
    answer.feed(b"c")
    other.feed(b"b" * 100)
    assert (room.taken, other.finish(complete=True).content) == (140, b"b" * 140)
    assert request.finish(complete=True).content == b""


def test_a_body_that_is_not_complete_has_the_announced_size() -> None:
    copy = BodyCopy(b"application/json", None, 100, Holding(Room(1000)))
    copy.feed(b"{")
    body = copy.finish(complete=False, expected=500)
    assert (body.content, body.size, body.truncated, body.sha256) == (b"{", 500, True, None)


def _form(file: bytes) -> bytes:
    return (
        b"preamble\r\n--XX\r\n"
        b'Content-Disposition: form-data; name="prompt"\r\n\r\nhello\r\n--XY\r\n'
        b'\r\n--XX\r\nContent-Disposition: form-data; name="meta"\r\n'
        b'Content-Type: application/json\r\n\r\n{"a":1}'
        b'\r\n--XX\r\nContent-Disposition: form-data; name="empty"\r\n\r\n'
        b'\r\n--XX\r\nContent-Disposition: form-data; name="f"; filename="a.png"\r\n'
        b"Content-Type: image/png\r\n\r\n" + file + b"\r\n--XX--\r\n"
    )


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=60), st.sets(st.integers(0, 500)))
def test_a_form_is_read_the_same_however_it_is_cut(file: bytes, cuts: set[int]) -> None:
    file = file.replace(b"\r\n--XX", b"")
    body = _form(file)
    places = sorted({0, len(body), *(cut for cut in cuts if cut < len(body))})
    found = taken(FORM, [body[a:b] for a, b in pairwise(places)])
    told = b"[file of %d bytes, sha256 %b]" % (
        len(file), hashlib.sha256(file).hexdigest().encode(),
    )  # fmt: skip
    expected = _form(told).removeprefix(b"preamble\r\n")
    assert form_of(found) == expected
    fields = {piece.field: (piece.kind, bytes(piece.content)) for piece in found.pieces}
    assert fields["prompt"] == (Kind.TEXT, b"hello\r\n--XY\r\n")
    assert fields["meta"] == (Kind.JSON, b'{"a":1}')
    assert fields["empty"] == (Kind.TEXT, b"")
    assert found.sha256 == hashlib.sha256(body).hexdigest()


def test_a_form_that_breaks_off_in_a_file_tells_what_came_of_it() -> None:
    body = _form(b"x" * 1000)[:-300]
    found = taken(FORM, [body])
    size = 1000 - 300 + len(b"\r\n--XX--\r\n")
    assert form_of(found).endswith(
        b"[file of %d bytes, sha256 %b]" % (size, hashlib.sha256(b"x" * size).hexdigest().encode())
    )


def test_a_form_with_endless_headers_or_parts_is_kept_up_to_them() -> None:
    reader = FormReader(b"XX", 1 << 20)
    reader.feed(b"--XX\r\n" + b"a" * (MAX_HEADERS + 10))
    reader.feed(b"b" * 1000)
    reader.finish()
    assert (reader.cut, reader.size) == (True, 4)
    many = taken(FORM, [b"--XX\r\n\r\nx\r\n" * 5000])
    assert many.truncated
    assert form_of(many).count(b"--XX") == 1025


def test_a_form_without_a_boundary_is_told_by_its_digest() -> None:
    found = taken(b"multipart/form-data", [b"--XX"])
    assert (found.kind, found.content, found.sha256 is None) == (Kind.OPAQUE, b"", False)
