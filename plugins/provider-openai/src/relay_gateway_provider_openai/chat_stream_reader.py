"""Reads streams of Chat Completions into canonical events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from relay_gateway.errors import UpstreamProtocolError
from relay_gateway.plugin.canonical import (
    ArgumentsDelta,
    Failed,
    Finished,
    PartStarted,
    PartStopped,
    Reasoning,
    ReasoningDelta,
    Refusal,
    RefusalDelta,
    Signed,
    Started,
    Stop,
    StopKind,
    StreamEvent,
    Text,
    TextDelta,
    ToolCall,
    UsageSeen,
)
from relay_gateway.plugin.codec import StreamDecoder
from relay_gateway.plugin.sequencer import JsonEnd
from relay_gateway_provider_openai.chat_answers import STOPS
from relay_gateway_provider_openai.chat_meter import DONE
from relay_gateway_provider_openai.chat_thoughts import Thoughts
from relay_gateway_provider_openai.logprobs import read_logprobs
from relay_gateway_provider_openai.usage import chat_usage


class _Delta(msgspec.Struct, gc=False):
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[Any] | None = None
    tool_calls: list[Any] | None = None


class _Choice(msgspec.Struct, gc=False):
    index: int | None = 0
    delta: _Delta | None = None
    finish_reason: str | None = None
    logprobs: Any = None


class _Chunk(msgspec.Struct):
    id: Any = None
    model: Any = None
    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode


class _Call:
    """A tool call that is being written."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.end = JsonEnd()
        self.stopped = False


class ChatStreamReader(StreamDecoder):
    """Reads one stream. The end is ``[DONE]``, or the end of the stream after a finish reason."""

    def __init__(self) -> None:
        self._started = False
        self._done = False
        self._count = 0
        self._open: tuple[type[Text | Refusal | Reasoning], int] | None = None
        self._thoughts = Thoughts()
        self._calls: dict[int, _Call] = {}
        self._kinds: set[type] = set()
        self._reason: str | None = None

    def event(self, name: bytes, data: bytes) -> list[StreamEvent]:
        """One chunk."""
        if data == DONE:
            return self.end()
        if not data or self._done:
            return []
        try:
            chunk = _decode(data)
        except (ValueError, RecursionError) as error:
            raise UpstreamProtocolError("the upstream's chunk is not of the format") from error
        if chunk.error or name == b"error":
            self._done = True
            return [_failure(chunk.error)]
        return list(self._chunk(chunk))

    def end(self) -> list[StreamEvent]:
        """The end, if there was a finish reason."""
        if self._done or self._reason is None:
            return []
        self._done = True
        if self._reason == "error":
            return [Failed(502, "upstream_error", "the upstream ended its answer with an error")]
        return [Finished(Stop(self._kind()))]

    def _kind(self) -> StopKind:
        kind = STOPS.get(self._reason or "", StopKind.END)
        if kind is StopKind.END and self._calls:
            return StopKind.TOOL_CALLS
        if kind is StopKind.END and Refusal in self._kinds:
            return StopKind.REFUSAL
        return kind

    def _chunk(self, chunk: _Chunk) -> Iterator[StreamEvent]:
        if not self._started:
            self._started = True
            yield Started(str(chunk.id or ""), str(chunk.model or ""))
        for choice in chunk.choices or ():
            if choice.index:
                raise UpstreamProtocolError("the upstream sent more than one choice")
            if choice.delta is not None:
                yield from self._delta(choice.delta, choice.logprobs)
            if choice.finish_reason:
                self._reason = choice.finish_reason
                yield from self._stop_all()
        if chunk.usage is not None:
            yield UsageSeen(chat_usage(chunk.usage))

    def _delta(self, delta: _Delta, logprobs: Any) -> Iterator[StreamEvent]:
        for detail in delta.reasoning_details or ():
            yield from self._detail(detail)
        thought = delta.reasoning_content or delta.reasoning
        if thought and not delta.reasoning_details:
            yield from self._opened(Reasoning, Reasoning())
            self._thoughts.add(thought)
            yield ReasoningDelta(self._count - 1, thought, summary=False)
        if delta.content or (logprobs and delta.content is not None):
            yield from self._opened(Text, Text(""))
            found = logprobs.get("content") if isinstance(logprobs, dict) else None
            yield TextDelta(self._count - 1, delta.content, read_logprobs(found) or ())
        if delta.refusal:
            yield from self._opened(Refusal, Refusal(""))
            yield RefusalDelta(self._count - 1, delta.refusal)
        for entry in delta.tool_calls or ():
            yield from self._call(entry)

    def _detail(self, detail: Any) -> Iterator[StreamEvent]:
        """An entry of ``reasoning_details``: more of the one before it, its signature, or another
        one."""
        if not self._thoughts.continues(detail):
            yield from self._close()
        yield from self._opened(Reasoning, Reasoning())
        for text, summary in self._thoughts.take(detail):
            yield ReasoningDelta(self._count - 1, text, summary=summary)

    def _opened(
        self, kind: type[Text | Refusal | Reasoning], part: Text | Refusal | Reasoning
    ) -> Iterator[StreamEvent]:
        """Opens a part of ``kind`` unless one is open."""
        if self._open is not None and self._open[0] is kind:
            return
        yield from self._close()
        self._kinds.add(kind)
        self._open = (kind, self._count)
        yield PartStarted(self._count, part)
        self._count += 1

    def _close(self) -> Iterator[StreamEvent]:
        if self._open is None:
            return
        index = self._open[1]
        if self._open[0] is Reasoning:
            yield Signed(index, self._thoughts.finish())
        yield PartStopped(index)
        self._open = None

    def _call(self, entry: Any) -> Iterator[StreamEvent]:
        if not isinstance(entry, dict):
            return
        function = entry.get("function")
        function = function if isinstance(function, dict) else {}
        number = entry.get("index")
        key = number if isinstance(number, int) else self._key(entry)
        call = self._calls.get(key)
        if call is None:
            yield from self._close()
            call = self._calls[key] = _Call(self._count)
            self._count += 1
            name, call_id = function.get("name"), entry.get("id")
            yield PartStarted(call.index, ToolCall(str(call_id or ""), str(name or ""), ""))
        arguments = function.get("arguments")
        if isinstance(arguments, str) and arguments:
            yield from _written(call, arguments)

    def _key(self, entry: dict[str, Any]) -> int:
        """The place of a call without an index: a new one when it has an id, else the last."""
        return len(self._calls) if entry.get("id") else max(0, len(self._calls) - 1)

    def _stop_all(self) -> Iterator[StreamEvent]:
        yield from self._close()
        for call in self._calls.values():
            if not call.stopped:
                call.stopped = True
                yield PartStopped(call.index)


def _written(call: _Call, arguments: str) -> Iterator[StreamEvent]:
    """More arguments. A complete object ends the call, so that the next one need not wait."""
    if call.stopped:
        if arguments.isspace():
            return
        raise UpstreamProtocolError("the upstream went on after complete arguments")
    yield ArgumentsDelta(call.index, arguments)
    call.end.feed(arguments)
    if call.end.complete:
        call.stopped = True
        yield PartStopped(call.index)


def _failure(error: Any) -> Failed:
    found = error if isinstance(error, dict) else {}
    message = found.get("message") or (error if isinstance(error, str) else "")
    code, status = found.get("code") or found.get("type"), found.get("status") or found.get("code")
    return Failed(
        status if isinstance(status, int) and 400 <= status < 600 else 502,
        str(code or "upstream_error"),
        str(message or "the upstream reported an error"),
    )
