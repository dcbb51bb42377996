from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from relay_gateway.http.sse import EventSplitter, parse_event

FRAGMENTS = [b"\n", b"\r", b"\r\n", b"data: x", b"data:{}", b": c", b"event: e"]
STREAMS = st.tuples(
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
    st.lists(st.sampled_from(FRAGMENTS), max_size=24).map(b"".join),
).map(b"".join)


def split(*chunks: bytes) -> tuple[list[bytes], bytes]:
    splitter = EventSplitter()
    events = [event for chunk in chunks for event in splitter.feed(chunk)]
    return events, splitter.rest()


def dispatched(stream: bytes) -> list[tuple[bytes, bytes]]:
    """What the standard's own line-by-line algorithm dispatches: the reference for the splitter."""
    events: list[tuple[bytes, bytes]] = []
    name: bytes = b""
    data: bytes | None = None
    text = stream.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    for line in text.split(b"\n")[:-1]:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if not line:
            if data is not None:
                events.append((name, data))
            name, data = b"", None
        elif field == b"data":
            data = value if data is None else data + b"\n" + value
        elif field == b"event":
            name = value
    return events


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_events_are_cut_behind_their_blank_line(end: bytes) -> None:
    one, two = b"data: 1" + end + end, b"event: e" + end + b"data: 2" + end + end
    assert split(one) == ([one], b"")
    assert split(one + two + b"data: 3" + end) == ([one, two], b"data: 3" + end)


def test_an_event_is_given_out_as_soon_as_it_is_complete() -> None:
    splitter = EventSplitter()
    assert splitter.feed(b"data: 1\n") == []
    assert splitter.feed(b"\n") == [b"data: 1\n\n"]
    assert splitter.feed(b"data: 2\r\n\r") == [b"data: 2\r\n\r"]
    assert splitter.feed(b"\n") == []
    assert splitter.feed(b"data: 3\n\n") == [b"\ndata: 3\n\n"]


def test_an_event_that_is_one_chunk_is_handed_on_without_a_copy() -> None:
    chunk = b'data: {"a": 1}\n\n'
    assert EventSplitter().feed(chunk)[0] is chunk


@given(stream=STREAMS, cuts=st.lists(st.integers(0, 150), max_size=10))
@example(stream=b"data: x\r\n\r\n", cuts=list(range(11)))
@example(stream=b"\n\n\ndata: x\n\n\n", cuts=[1, 2])
@example(stream=b"data: a\n", cuts=[7])
def test_no_byte_is_lost_and_the_events_are_those_of_the_standard(
    stream: bytes, cuts: list[int]
) -> None:
    points = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[start:end] for start, end in pairwise(points)]
    events, rest = split(*pieces)
    assert b"".join(events) + rest == stream
    assert all(events)
    found = [parse_event(event) for event in events]
    assert [event for event in found if event[1]] == [
        event for event in dispatched(stream) if event[1]
    ]


def read(pieces: list[bytes], *, one_at_a_time: bool) -> list[tuple[bytes, bytes]]:
    """The events of a stream, those that come alone read at once where that is wanted."""
    splitter, events = EventSplitter(), []
    for piece in pieces:
        only = splitter.only(piece) if one_at_a_time else None
        if only is not None:
            events.append(only)
        else:
            events += [parse_event(event) for event in splitter.feed(piece)]
    return events


PLAIN = [b"data: x\n\n", b"event: e\ndata: {}\n\n", b"data: \n\n", b"event: e\n\n"]
ODD = [b"data: a\ndata: b\n\n", b"data: x\r\n\r\n", b"data: x", b"\n\n", b"\n", b"\r", b": c\n\n"]


@given(
    st.lists(st.sampled_from([*PLAIN, *ODD, b"event: e\rdata: x\n\n", PLAIN[0] * 2]), max_size=9)
)
def test_an_event_that_comes_alone_is_read_as_any_other(pieces: list[bytes]) -> None:
    assert read(pieces, one_at_a_time=True) == read(pieces, one_at_a_time=False)


@pytest.mark.parametrize("piece", PLAIN[:3])
def test_an_event_that_comes_alone_needs_no_feeding(piece: bytes) -> None:
    assert EventSplitter().only(piece) == parse_event(piece)


def test_every_cut_of_one_stream_gives_the_same_events() -> None:
    stream = b": hi\n\nevent: a\r\ndata: 1\r\ndata: 2\r\n\r\ndata: \xc3\xa4\r\rdata: 3\n\n"
    expected = [(b"a", b"1\n2"), (b"", b"\xc3\xa4"), (b"", b"3")]
    for first in range(len(stream) + 1):
        for second in range(first, len(stream) + 1):
            events, rest = split(stream[:first], stream[first:second], stream[second:])
            assert b"".join(events) + rest == stream
            found = [parse_event(event) for event in events]
            assert [event for event in found if event != (b"", b"")] == expected


def test_an_event_past_the_limit_ends_the_cutting_and_loses_nothing() -> None:
    splitter = EventSplitter(limit=10)
    assert splitter.feed(b"data: 1\n\ndata") == [b"data: 1\n\n"]
    before = splitter.overflowed
    assert splitter.feed(b": 2345678") == [b"data: 2345678"]
    assert (before, splitter.overflowed) == (False, True)
    assert splitter.feed(b"\n\ndata: 3\n\n") == [b"\n\ndata: 3\n\n"]
    assert splitter.rest() == b""


def test_the_limit_is_per_event_and_not_per_stream() -> None:
    splitter = EventSplitter(limit=20)
    for _ in range(100):
        assert len(splitter.feed(b"data: 12") + splitter.feed(b"345\n\n")) == 1
    assert not splitter.overflowed


@pytest.mark.parametrize(
    ("raw", "event"),
    [
        (b"data: {}\n\n", (b"", b"{}")),
        (b"data:{}\n\n", (b"", b"{}")),
        (b"event: e\ndata: {}\n\n", (b"e", b"{}")),
        (b"event:  e\ndata: {}\n\n", (b" e", b"{}")),
        (b"event: a\rb\ndata: {}\n\n", (b"a", b"{}")),
        (b"data:  two\n\n", (b"", b" two")),
        (b"data: a\ndata: b\n\n", (b"", b"a\nb")),
        (b"data\ndata\n\n", (b"", b"\n")),
        (b"event: e\ndata: {}\nid: 7\nretry: 5\n\n", (b"e", b"{}")),
        (b"event: a\nevent: b\ndata: {}\r\n\r\n", (b"b", b"{}")),
        (b"data: a:b\r\r", (b"", b"a:b")),
        (b"\n\ndata: x\n\n", (b"", b"x")),
        (b"\xef\xbb\xbfdata: x\n\n", (b"", b"x")),
        (b"data: x\x0b\x0cy\n\n", (b"", b"x\x0b\x0cy")),
        (b": comment\n\n", (b"", b"")),
        (b"event: ping\n\n", (b"ping", b"")),
        (b"datax: 1\nDATA: 2\n\n", (b"", b"")),
        (b"", (b"", b"")),
    ],
)
def test_a_raw_event_is_read_as_the_standard_says(raw: bytes, event: tuple[bytes, bytes]) -> None:
    assert parse_event(raw) == event
