"""Streams tell the truth: no status before the first event, no clean end for half an answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import httpx
import pytest

from relay_gateway.http.sse import EventSplitter, parse_event
from relay_gateway.plugin import Problem
from relay_gateway.plugin.canonical import Message, StopKind, Text
from relay_gateway.testing.conversations import request
from relay_gateway.testing.polyglot import Polyglot
from relay_gateway.testing.script import (
    EVENT_STREAM_HEADERS,
    Close,
    Hang,
    Reset,
    Send,
    Step,
    chunk,
    head,
    response,
    sse_response,
)
from relay_gateway.testing.speakers.scene import GREETING
from relay_gateway.testing.upstream import ScriptedUpstream

from .spoken import ASKERS, EVERY_PAIR, FORMATS, PAIRS, SOME_PAIRS, Asker

UNLIKE_PAIRS_OF_HOSTS = pytest.mark.parametrize(
    ("first", "second"),
    [pair for pair in PAIRS if pair[0] != pair[1]],
    ids=str,
)


def said(text: str) -> Any:
    asked = request(Message("user", (Text(text),)), stream=True, max_output_tokens=64)
    asked.stream_usage = True
    return asked


def events_of(body: bytes) -> list[tuple[bytes, bytes]]:
    """Name and data of every event that is not only a comment."""
    raw = EventSplitter().feed(body)
    return [event for event in map(parse_event, raw) if any(event)]


def error_in(asker: Asker, event: tuple[bytes, bytes]) -> str:
    """The message of an error event in the dialect of ``asker``."""
    name, data = event
    body = json.loads(data)
    if asker.name == "responses" and name == b"response.failed":
        return str(body["response"]["error"]["message"])
    if asker.name == "responses":
        assert (name, body["type"]) == (b"error", "error")
        return str(body["message"])
    if asker.name == "messages":
        assert (name, body["type"]) == (b"error", "error")
    return str(body["error"]["message"])


def starts_in(asker: Asker, events: Sequence[tuple[bytes, bytes]]) -> int:
    """How often a stream says that it begins."""
    marks: dict[str, Callable[[bytes], bool]] = {
        "chat": lambda data: b'"role":"assistant"' in data.replace(b'": "', b'":"'),
        "responses": lambda data: b'"response.created"' in data,
        "messages": lambda data: b'"message_start"' in data,
        "gemini": lambda _: False,  # nothing in this format says so
    }
    return sum(marks[asker.name](data) for _, data in events)


@EVERY_PAIR
@pytest.mark.parametrize("ending", ["cut", "reset"])
def test_f35_half_a_stream_ends_with_an_error_event_and_a_broken_connection(
    mended: Polyglot, source: str, target: str, ending: str
) -> None:
    asker = ASKERS[source]
    answer = asker.ask(mended, target, said(ending))
    assert (answer.status, answer.complete) == (200, False)
    events = events_of(answer.body)
    assert error_in(asker, events[-1]) == "the answer of the upstream broke off"
    assert starts_in(asker, events) == (source != "gemini")
    record = mended.log(answer.request_id)
    assert record["outcome"] == {"cut": "upstream_error", "reset": "aborted"}[ending]
    assert record["errorCode"] == {"cut": "stream_truncated", "reset": "upstream_closed"}[ending]


@EVERY_PAIR
def test_f47_an_error_event_inside_a_stream_is_passed_on_and_counts_as_a_failure(
    mended: Polyglot, source: str, target: str
) -> None:
    asker = ASKERS[source]
    answer = asker.ask(mended, target, said("late error"))
    assert answer.status == 200
    assert error_in(asker, events_of(answer.body)[-1]) == "told to fail"
    record = mended.log(answer.request_id)
    assert (record["outcome"], record["errorCode"]) == (
        "upstream_error", "upstream_stream_error",
    )  # fmt: skip


@SOME_PAIRS
def test_f47_a_host_that_says_in_its_streams_that_it_fails_is_left_alone(
    mended: Polyglot, source: str, target: str
) -> None:
    for _ in range(5):
        assert ASKERS[source].ask(mended, target, said("late error")).status == 200
    hosts = mended.admin.get("/hosts", params={"limit": 100}).json()["items"]
    states = {one["metadata"]["displayName"]: one["status"]["state"] for one in hosts}
    assert [name for name, state in states.items() if state == "ejected"] == [target]


HEAD = Send(head(200, EVENT_STREAM_HEADERS))
FALSE_STARTS: dict[str, Sequence[Step]] = {
    "nothing after the head": [HEAD, Close()],
    "a reset after the head": [HEAD, Reset()],
    "an empty stream": sse_response([]),
    "comments only": sse_response([b": busy\n\n", b":\n\n"]),
    "half an event": [*sse_response([b"data: {"], ending=[Close()])],
    "an overload": response(529, b'{"error":{"message":"busy"}}'),
}


@SOME_PAIRS
@pytest.mark.parametrize("start", FALSE_STARTS)
def test_a_stream_that_never_began_is_asked_for_elsewhere(
    mended: Polyglot, bad_upstream: ScriptedUpstream, source: str, target: str, start: str
) -> None:
    bad_upstream.answer = lambda _: FALSE_STARTS[start]
    asker = ASKERS[source]
    answer = asker.ask(mended, f"{target}-then-{target}", said("Hello"))
    assert asker.read(answer, streamed=True).parts == (Text(GREETING),)
    assert (len(bad_upstream.ledger), len(mended.ledger)) == (1, 1)
    record = mended.log(answer.request_id)
    assert (record["outcome"], len(record["attempts"])) == ("ok", 2)
    assert starts_in(asker, events_of(answer.body)) == (source != "gemini")


@SOME_PAIRS
@pytest.mark.parametrize("told", [b"", b": busy\n\n"], ids=["nothing", "comments"])
def test_f54_a_caller_that_leaves_before_the_first_event_ends_the_work_of_the_host(
    mended: Polyglot, bad_upstream: ScriptedUpstream, source: str, target: str, told: bytes
) -> None:
    said_so_far = [Send(chunk(told))] if told else []
    bad_upstream.answer = lambda _: [HEAD, *said_so_far, Hang()]
    bad_upstream.cancellations.clear()
    asker, model = ASKERS[source], f"{target}-then-{target}"
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(
            mended.url + asker.path(model, True),
            headers={"authorization": f"Bearer {mended.relay_key}"},
            json=json.loads(asker.body(model, said("Hello"))),
            timeout=httpx.Timeout(5, read=0.2),
        )
    mended.run(bad_upstream.wait_for_cancellation())
    assert (len(bad_upstream.ledger), len(mended.ledger)) == (1, 0)


@EVERY_PAIR
def test_an_error_as_first_event_is_asked_for_elsewhere(
    mended: Polyglot, bad_upstream: ScriptedUpstream, source: str, target: str
) -> None:
    event = FORMATS[target].dialect().error_event(Problem(529, "overloaded_error", "busy"))
    bad_upstream.answer = lambda _: sse_response([event])
    asker = ASKERS[source]
    answer = asker.ask(mended, f"{target}-then-{target}", said("Hello"))
    assert asker.read(answer, streamed=True).stop.kind is StopKind.END
    assert len(bad_upstream.ledger) == 1
    statuses = [attempt["status"] for attempt in mended.log(answer.request_id)["attempts"]]
    assert statuses[1:] == [200]
    assert statuses[0] >= 500


@pytest.mark.parametrize(
    ("source", "streamed"), [(name, len(name) % 2 == 0) for name in ASKERS], ids=str
)
@UNLIKE_PAIRS_OF_HOSTS
def test_the_next_host_may_speak_another_format(
    mended: Polyglot,
    bad_upstream: ScriptedUpstream,
    source: str,
    first: str,
    second: str,
    *,
    streamed: bool,
) -> None:
    """Whoever asks: from a native host to a translated one, the other way round, and from one
    translation to another."""
    bad_upstream.answer = lambda _: response(500, b'{"error":{"message":"busy"}}')
    asker, asked = ASKERS[source], said("Hello")
    asked.stream = streamed
    answer = asker.ask(mended, f"{first}-then-{second}", asked)
    assert asker.read(answer, streamed=streamed).parts == (Text(GREETING),)
    record = mended.log(answer.request_id)
    assert record["upstreamWireFormat"] == FORMATS[second].name
    assert [one["status"] for one in record["attempts"]] == [500, 200]
    assert (len(bad_upstream.ledger), len(mended.ledger)) == (1, 1)
