"""Reads streams of Messages into canonical events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from relay_gateway.errors import UpstreamProtocolError
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
    Signed,
    Started,
    StreamEvent,
    Text,
    TextDelta,
    ToolCall,
    UsageSeen,
)
from relay_gateway.plugin.codec import StreamDecoder
from relay_gateway_provider_anthropic.messages_answers import read_usage, stop_of
from relay_gateway_provider_anthropic.words import ERROR_STATUSES, FORMAT, REDACTED


class _Block(msgspec.Struct, gc=False):
    type: str
    text: str = ""
    thinking: str = ""
    signature: str = ""
    data: str = ""
    id: str = ""
    name: str = ""
    input: msgspec.Raw = msgspec.Raw(b"{}")


class _Details(msgspec.Struct, gc=False):
    explanation: str | None = None


class _Delta(msgspec.Struct, gc=False):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: _Details | None = None


class _Start(msgspec.Struct, gc=False):
    id: str = ""
    model: str = ""
    usage: Any = None


class _Event(msgspec.Struct):
    type: str
    index: int = 0
    message: _Start | None = None
    content_block: _Block | None = None
    delta: _Delta | None = None
    usage: Any = None
    error: Any = None


_decode = msgspec.json.Decoder(_Event).decode


class _Open:
    """A content block that is being written."""

    def __init__(self, index: int, block: _Block) -> None:
        self.index = index
        self.block = block
        self.signature = block.signature
        self.has_arguments = False


class MessagesStreamReader(StreamDecoder):
    """Reads one stream. ``message_stop`` ends it; blocks of server tools are left out."""

    def __init__(self) -> None:
        self._started = False
        self._done = False
        self._count = 0
        self._open: dict[int, _Open] = {}
        self._stop = stop_of(None, None, None)

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
        if event.type == "error":
            self._done = True
            yield _failure(event.error)
            return
        if event.type == "ping":
            yield Ping()
            return
        if not self._started:
            yield from self._start(event.message or _Start())
        match event.type:
            case "content_block_start" if event.content_block is not None:
                yield from self._block(event.index, event.content_block)
            case "content_block_delta" if event.delta is not None:
                yield from self._delta(event.index, event.delta)
            case "content_block_stop":
                yield from self._stopped(event.index)
            case "message_delta":
                yield from self._message_delta(event)
            case "message_stop":
                yield from self._finish()

    def _start(self, message: _Start) -> Iterator[StreamEvent]:
        self._started = True
        yield Started(message.id, message.model)
        if message.usage is not None:
            yield UsageSeen(read_usage(message.usage))

    def _block(self, index: int, block: _Block) -> Iterator[StreamEvent]:
        part: Text | Reasoning | ToolCall
        match block.type:
            case "text":
                part = Text("")
            case "thinking" | "redacted_thinking":
                part = Reasoning()
            case "tool_use":
                part = ToolCall(block.id, block.name, "")
            case _:
                return
        self._open[index] = _Open(self._count, block)
        yield PartStarted(self._count, part)
        if block.text:
            yield TextDelta(self._count, block.text)
        if block.thinking:
            yield ReasoningDelta(self._count, block.thinking)
        self._count += 1

    def _delta(self, index: int, delta: _Delta) -> Iterator[StreamEvent]:
        found = self._open.get(index)
        if found is None:
            return
        match delta.type:
            case "text_delta":
                yield TextDelta(found.index, delta.text)
            case "thinking_delta":
                yield ReasoningDelta(found.index, delta.thinking)
            case "signature_delta":
                found.signature += delta.signature
            case "input_json_delta" if delta.partial_json:
                found.has_arguments = True
                yield ArgumentsDelta(found.index, delta.partial_json)

    def _stopped(self, index: int) -> Iterator[StreamEvent]:
        found = self._open.pop(index, None)
        if found is None:
            return
        block = found.block
        if block.type == "thinking":
            yield Signed(found.index, Blob(FORMAT, found.signature))
        elif block.type == "redacted_thinking":
            yield Signed(found.index, Blob(FORMAT, block.data, REDACTED))
        elif block.type == "tool_use" and not found.has_arguments:
            yield ArgumentsDelta(found.index, bytes(block.input).decode())
        yield PartStopped(found.index)

    def _message_delta(self, event: _Event) -> Iterator[StreamEvent]:
        delta = event.delta
        if delta is not None and delta.stop_reason is not None:
            explanation = delta.stop_details.explanation if delta.stop_details else None
            self._stop = stop_of(delta.stop_reason, delta.stop_sequence, explanation)
        if event.usage is not None:
            yield UsageSeen(read_usage(event.usage))

    def _finish(self) -> Iterator[StreamEvent]:
        self._done = True
        for index in list(self._open):
            yield from self._stopped(index)
        yield Finished(self._stop)


def _failure(error: Any) -> Failed:
    found = error if isinstance(error, dict) else {}
    kind = str(found.get("type") or "api_error")
    message = str(found.get("message") or "the upstream reported an error")
    return Failed(ERROR_STATUSES.get(kind, 500), kind, message)
