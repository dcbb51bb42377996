"""Cuts canonical answers into stream events, and puts events together again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from relay_gateway.http.sse import EventSplitter, parse_event
from relay_gateway.plugin import StreamDecoder
from relay_gateway.plugin.canonical import (
    ArgumentsDelta,
    Blob,
    CanonicalResponse,
    Failed,
    Finished,
    Part,
    PartStarted,
    PartStopped,
    Ping,
    Reasoning,
    ReasoningDelta,
    Refusal,
    RefusalDelta,
    Signed,
    Started,
    StreamEvent,
    Text,
    TextDelta,
    TokenLogprob,
    ToolCall,
    Usage,
    UsageSeen,
)


def events_of(
    answer: CanonicalResponse, piece: int = 3, *, interleaved: bool = False
) -> list[StreamEvent]:
    """The stream of ``answer``, with texts cut after every ``piece`` characters; ``interleaved``
    writes its tool calls side by side."""
    streams = [list(_part_events(index, part, piece)) for index, part in enumerate(answer.parts)]
    calls = sum(isinstance(part, ToolCall) for part in answer.parts)
    last = len(streams) - calls if interleaved else len(streams)
    rounds = zip_longest(*streams[last:])
    middle = [event for stream in streams[:last] for event in stream]
    middle += [event for each in rounds for event in each if event is not None]
    if answer.logprobs:
        middle = _with_logprobs(middle, answer.logprobs)
    usage = UsageSeen(answer.usage)
    return [Started(answer.id, answer.model), *middle, usage, Finished(answer.stop)]


def _with_logprobs(
    events: Sequence[StreamEvent], logprobs: tuple[TokenLogprob, ...]
) -> list[StreamEvent]:
    """The events with all log probabilities at the first piece of text."""
    place = next(n for n, event in enumerate(events) if isinstance(event, TextDelta))
    first = events[place]
    assert isinstance(first, TextDelta)
    return [*events[:place], TextDelta(first.index, first.text, logprobs), *events[place + 1 :]]


def _part_events(index: int, part: Part, piece: int) -> Iterator[StreamEvent]:
    match part:
        case Text(text=text):
            yield PartStarted(index, Text(""))
            yield from (TextDelta(index, each) for each in _cut(text, piece))
        case Refusal(text=text):
            yield PartStarted(index, Refusal(""))
            yield from (RefusalDelta(index, each) for each in _cut(text, piece))
        case ToolCall(arguments=arguments):
            yield PartStarted(index, ToolCall(part.id, part.name, ""))
            yield from (ArgumentsDelta(index, each) for each in _cut(arguments, piece))
        case Reasoning():
            yield PartStarted(index, Reasoning())
            yield from _thoughts(index, part, piece)
        case _:
            raise AssertionError(f"{type(part).__name__} is not part of an answer")
    yield PartStopped(index)


def _thoughts(index: int, part: Reasoning, piece: int) -> Iterator[StreamEvent]:
    for summary, texts in ((True, part.summary), (False, part.content)):
        for section, text in enumerate(texts):
            for each in _cut(text, piece):
                yield ReasoningDelta(index, each, summary=summary, section=section)
    if part.blob is not None:
        yield Signed(index, part.blob)


def _cut(text: str, piece: int) -> Iterator[str]:
    return (text[start : start + piece] for start in range(0, len(text), piece))


class _Open:
    def __init__(self, part: Text | Refusal | Reasoning | ToolCall) -> None:
        self.part = part
        self.texts: dict[tuple[bool, int], str] = {}
        self.blob: Blob | None = None
        self.stopped = False

    def add(self, text: str, key: tuple[bool, int] = (False, 0)) -> None:
        self.texts[key] = self.texts.get(key, "") + text

    def whole(self) -> Part:
        text = "".join(self.texts.values())
        match self.part:
            case Text():
                return Text(text)
            case Refusal():
                return Refusal(text)
            case ToolCall(id=call_id, name=name):
                return ToolCall(call_id, name, text)
            case Reasoning():
                summary = tuple(each for key, each in self.texts.items() if key[0])
                content = tuple(each for key, each in self.texts.items() if not key[0])
                return Reasoning(summary, content, self.blob)


def assembled(events: Iterable[StreamEvent]) -> CanonicalResponse:
    """The answer that ``events`` tell; an assertion fails where they break the grammar."""
    assembly = _Assembly()
    for event in events:
        assembly.take(event)
    return assembly.answer()


class _Assembly:
    def __init__(self) -> None:
        self._started: Started | None = None
        self._finished: Finished | None = None
        self._parts: dict[int, _Open] = {}
        self._usage = Usage()
        self._logprobs: list[TokenLogprob] = []

    def take(self, event: StreamEvent) -> None:
        assert self._finished is None, f"{event} after the end"
        if isinstance(event, Started):
            assert self._started is None, "a stream starts once"
            self._started = event
            return
        assert self._started is not None or isinstance(event, Ping), f"{event} before the start"
        match event:
            case PartStarted(index=index, part=part):
                assert index == len(self._parts), "parts are numbered in their order"
                beside = [each.part for each in self._parts.values() if not each.stopped]
                assert not beside or isinstance(part, ToolCall), "only tool calls overlap"
                assert all(isinstance(each, ToolCall) for each in beside), "only tool calls overlap"
                self._parts[index] = _Open(part)
            case PartStopped(index=index):
                self._part(index).stopped = True
            case UsageSeen(usage=usage):
                self._usage = usage.over(self._usage)
            case Finished():
                assert all(part.stopped for part in self._parts.values()), "a part never stopped"
                self._finished = event
            case Failed():
                raise AssertionError(f"the stream failed: {event}")
            case _:
                self._delta(event)

    def _delta(self, event: StreamEvent) -> None:
        match event:
            case TextDelta(index=index, text=text, logprobs=logprobs):
                self._part(index).add(text)
                self._logprobs += logprobs
            case RefusalDelta(index=index, text=text) | ArgumentsDelta(index=index, text=text):
                self._part(index).add(text)
            case ReasoningDelta(index=index, text=text, summary=summary, section=section):
                self._part(index).add(text, (summary, section))
            case Signed(index=index, blob=blob):
                self._part(index).blob = blob

    def _part(self, index: int) -> _Open:
        assert index in self._parts, f"part {index} did not start"
        assert not self._parts[index].stopped, f"part {index} goes on after it stopped"
        return self._parts[index]

    def answer(self) -> CanonicalResponse:
        assert self._started is not None, "the stream never started"
        assert self._finished is not None, "the stream never finished"
        return CanonicalResponse(
            id=self._started.id,
            model=self._started.model,
            parts=tuple(part.whole() for part in self._parts.values()),
            stop=self._finished.stop,
            usage=self._usage,
            logprobs=tuple(self._logprobs) or None,
        )


def read_stream(decoder: StreamDecoder, chunks: Iterable[bytes]) -> list[StreamEvent]:
    """What ``decoder`` says to a stream that comes in ``chunks`` and ends after them."""
    splitter = EventSplitter()
    events = [
        event
        for chunk in chunks
        for raw in splitter.feed(chunk)
        for event in decoder.event(*parse_event(raw))
    ]
    return [*events, *decoder.end()]
