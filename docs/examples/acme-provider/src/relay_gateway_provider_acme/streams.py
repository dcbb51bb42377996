"""Streams of the format, to and from canonical events.

A stream is ``start``, then for each part ``open``, ``more`` and ``close`` with its number, then
``end`` with the reason and usage; or an object with ``error``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from relay_gateway.errors import UpstreamProtocolError
from relay_gateway.plugin import AnswerContext, Dialect, Problem, StreamDecoder, StreamEncoder
from relay_gateway.plugin.canonical import (
    ArgumentsDelta,
    Blob,
    Failed,
    Finished,
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
    ToolCall,
    Usage,
    UsageSeen,
)
from relay_gateway_provider_acme.answers import Piece, part_of, sealed, stop_of, stop_word
from relay_gateway_provider_acme.words import FORMAT, read_usage, write_usage


class _Event(msgspec.Struct):
    type: str = ""
    number: int = 0
    id: str = ""
    model: str = ""
    part: Piece | None = None
    text: str = ""
    seal: str = ""
    stop: str = ""
    usage: Any = None
    error: Any = None


_decode = msgspec.json.Decoder(_Event).decode


class TalkStreamReader(StreamDecoder):
    """Reads one stream; parts of a type that nobody knows are left out."""

    def __init__(self) -> None:
        self._started = False
        self._done = False
        self._count = 0
        self._open: dict[int, tuple[int, Text | Reasoning | ToolCall]] = {}

    def event(self, name: bytes, data: bytes) -> list[StreamEvent]:
        """One event; its ``type`` says which."""
        if not data or self._done:
            return []
        try:
            event = _decode(data)
        except (ValueError, RecursionError) as error:
            raise UpstreamProtocolError("the upstream's event is not of the format") from error
        return list(self._read(event))

    def _read(self, event: _Event) -> Iterator[StreamEvent]:
        if event.error is not None:
            self._done = True
            yield _failure(event.error)
            return
        if not self._started:
            self._started = True
            yield Started(event.id, event.model)
        if event.type == "open" and event.part is not None:
            yield from self._begin(event.number, event.part)
        elif event.type == "more" and event.number in self._open:
            yield _more(*self._open[event.number], event.text)
        elif event.type == "close" and event.number in self._open:
            yield from self._close(event.number, event.seal)
        elif event.type == "end":
            yield from self._end(event)

    def _begin(self, number: int, piece: Piece) -> Iterator[StreamEvent]:
        part = part_of(Piece(piece.type, id=piece.id, name=piece.name))
        if part is None:
            return
        self._open[number] = (self._count, part)
        yield PartStarted(self._count, part)
        self._count += 1

    def _close(self, number: int, mark: str) -> Iterator[StreamEvent]:
        index, _ = self._open.pop(number)
        if mark:
            yield Signed(index, Blob(FORMAT, mark))
        yield PartStopped(index)

    def _end(self, event: _Event) -> Iterator[StreamEvent]:
        self._done = True
        for number in list(self._open):
            yield from self._close(number, "")
        yield UsageSeen(read_usage(event.usage))
        yield Finished(stop_of(event.stop))


def _more(index: int, part: Text | Reasoning | ToolCall, text: str) -> StreamEvent:
    match part:
        case Text():
            return TextDelta(index, text)
        case Reasoning():
            return ReasoningDelta(index, text)
        case ToolCall():
            return ArgumentsDelta(index, text)


def _failure(error: Any) -> Failed:
    found = error if isinstance(error, dict) else {}
    message = str(found.get("message") or "the upstream reported an error")
    return Failed(500, str(found.get("code") or "error"), message)


class TalkStreamWriter(StreamEncoder):
    """Writes one stream; parts may be open side by side, as they may in the canonical form."""

    def __init__(self, context: AnswerContext) -> None:
        self._context = context
        self._usage = Usage()
        self._declined = False
        self._sections: dict[int, int] = {}
        self._seals: dict[int, str] = {}

    def encode(self, event: StreamEvent) -> bytes:
        """The bytes for one event."""
        match event:
            case TextDelta() | RefusalDelta() | ArgumentsDelta():
                return _event("more", number=event.index, text=event.text)
            case ReasoningDelta():
                return _event("more", number=event.index, text=self._thought(event))
            case PartStarted():
                return self._begin(event)
            case Signed():
                self._seals[event.index] = sealed(event.blob)
                return b""
            case PartStopped():
                mark = self._seals.pop(event.index, "")
                return _event("close", number=event.index, **({"seal": mark} if mark else {}))
            case _:
                return self._frame(event)

    def _frame(self, event: StreamEvent) -> bytes:
        match event:
            case Started():
                answer_id = event.id or self._context.answer_id
                return _event("start", id=answer_id, model=event.model)
            case UsageSeen():
                self._usage = event.usage.over(self._usage)
                return b""
            case Finished():
                word = stop_word(event.stop, declined=self._declined)
                return _event("end", stop=word, usage=write_usage(self._usage))
            case Failed():
                return Dialect().error_event(Problem(event.status, event.code, event.message))
            case _:
                return Dialect.ping if isinstance(event, Ping) else b""

    def _begin(self, event: PartStarted) -> bytes:
        piece = {"type": "text"}
        if isinstance(event.part, ToolCall):
            piece = {"type": "call", "id": event.part.id, "name": event.part.name}
        elif isinstance(event.part, Reasoning):
            piece = {"type": "thought"}
        self._declined = self._declined or isinstance(event.part, Refusal)
        return _event("open", number=event.index, part=piece)

    def _thought(self, event: ReasoningDelta) -> str:
        """Sections of a thought are paragraphs here."""
        before = self._sections.setdefault(event.index, event.section)
        self._sections[event.index] = event.section
        return event.text if before == event.section else "\n\n" + event.text


def _event(kind: str, **members: Any) -> bytes:
    return b"data: " + msgspec.json.encode({"type": kind, **members}) + b"\n\n"
