"""Reads streams of Responses into canonical events."""

from __future__ import annotations

from collections.abc import Generator, Iterator
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
    StreamEvent,
    Text,
    TextDelta,
    ToolCall,
    UsageSeen,
)
from relay_gateway.plugin.codec import StreamDecoder
from relay_gateway_provider_openai.logprobs import read_logprobs
from relay_gateway_provider_openai.responses_answers import blob_of, parts_of, stop_of
from relay_gateway_provider_openai.usage import responses_usage

Key = tuple[int, int]
"""Index of an item in the output and of a content in it; -1 for the item as a whole."""


class _Event(msgspec.Struct):
    type: str
    response: dict[str, Any] | None = None
    item: dict[str, Any] | None = None
    output_index: int = 0
    content_index: int = 0
    summary_index: int = 0
    delta: Any = None
    logprobs: Any = None
    code: Any = None
    message: Any = None


_decode = msgspec.json.Decoder(_Event).decode


class ResponsesStreamReader(StreamDecoder):
    """Reads one stream. ``response.completed`` or ``response.incomplete`` ends it."""

    def __init__(self) -> None:
        self._started = False
        self._done = False
        self._count = 0
        self._open: dict[Key, int] = {}
        self._seen: set[Key] = set()
        self._kinds: set[type] = set()

    def event(self, name: bytes, data: bytes) -> list[StreamEvent]:
        """One event; its ``type`` says which."""
        if not data or self._done or data == b"[DONE]":
            return []
        try:
            event = _decode(data)
        except (ValueError, RecursionError) as error:
            raise UpstreamProtocolError("the upstream's event is not of the format") from error
        return list(self._read(event))

    def _read(self, event: _Event) -> Iterator[StreamEvent]:
        match event.type:
            case "response.created" | "response.in_progress":
                yield from self._start(event.response or {})
            case "response.output_text.delta":
                index = yield from self._part(event.output_index, event.content_index, Text(""))
                logprobs = read_logprobs(event.logprobs) or ()
                yield TextDelta(index, str(event.delta), logprobs)
            case "response.refusal.delta":
                part = Refusal("")
                index = yield from self._part(event.output_index, event.content_index, part)
                yield RefusalDelta(index, str(event.delta))
            case "response.reasoning_summary_text.delta":
                index = yield from self._part(event.output_index, -1, Reasoning())
                yield ReasoningDelta(
                    index, str(event.delta), summary=True, section=event.summary_index
                )
            case "response.reasoning_text.delta":
                index = yield from self._part(event.output_index, -1, Reasoning())
                yield ReasoningDelta(
                    index, str(event.delta), summary=False, section=event.content_index
                )
            case "response.function_call_arguments.delta":
                yield from self._arguments(event)
            case _:
                yield from self._frame(event)

    def _frame(self, event: _Event) -> Iterator[StreamEvent]:
        match event.type:
            case "response.output_item.added":
                yield from self._item_added(event.output_index, event.item or {})
            case "response.content_part.done":
                yield from self._stop((event.output_index, event.content_index))
            case "response.output_item.done":
                yield from self._item_done(event.output_index, event.item or {})
            case "response.completed" | "response.incomplete":
                yield from self._finish(event.response or {})
            case "response.failed":
                self._done = True
                yield _failure((event.response or {}).get("error"))
            case "error":
                self._done = True
                yield _failure({"code": event.code, "message": event.message})

    def _start(self, response: dict[str, Any]) -> Iterator[StreamEvent]:
        if not self._started:
            self._started = True
            yield Started(str(response.get("id") or ""), str(response.get("model") or ""))

    def _part(
        self, output: int, content: int, part: Text | Refusal | Reasoning | ToolCall
    ) -> Generator[StreamEvent, None, int]:
        """Opens the part unless it is open; the generator's value is its index."""
        yield from self._start({})
        key = (output, content)
        if key not in self._open:
            self._open[key] = self._count
            self._seen.add(key)
            self._kinds.add(type(part))
            self._count += 1
            yield PartStarted(self._open[key], part)
        return self._open[key]

    def _stop(self, key: Key) -> Iterator[StreamEvent]:
        index = self._open.pop(key, None)
        if index is not None:
            yield PartStopped(index)

    def _item_added(self, output: int, item: dict[str, Any]) -> Iterator[StreamEvent]:
        if item.get("type") == "function_call":
            call = ToolCall(str(item.get("call_id") or ""), str(item.get("name") or ""), "")
            yield from self._part(output, -1, call)
        elif item.get("type") == "reasoning":
            yield from self._part(output, -1, Reasoning())

    def _arguments(self, event: _Event) -> Iterator[StreamEvent]:
        key = (event.output_index, -1)
        if key not in self._open:
            raise UpstreamProtocolError("the upstream sent arguments of a call it did not begin")
        if event.delta:
            self._seen.add((event.output_index, 0))
            yield ArgumentsDelta(self._open[key], str(event.delta))

    def _item_done(self, output: int, item: dict[str, Any]) -> Iterator[StreamEvent]:
        """The end of an item; what it says that no delta said is made up for."""
        for content, part in enumerate(parts_of(item)):
            if isinstance(part, Text | Refusal):
                yield from self._late_text(output, content, part)
            elif isinstance(part, ToolCall):
                index = yield from self._part(output, -1, ToolCall(part.id, part.name, ""))
                if (output, 0) not in self._seen and part.arguments:
                    yield ArgumentsDelta(index, part.arguments)
            elif isinstance(part, Reasoning):
                index = yield from self._part(output, -1, Reasoning())
                yield Signed(index, blob_of(item))
        for key in [key for key in self._open if key[0] == output]:
            yield from self._stop(key)

    def _late_text(self, output: int, content: int, part: Text | Refusal) -> Iterator[StreamEvent]:
        if (output, content) in self._seen:
            return
        if isinstance(part, Text):
            index = yield from self._part(output, content, Text(""))
            yield TextDelta(index, part.text)
        else:
            index = yield from self._part(output, content, Refusal(""))
            yield RefusalDelta(index, part.text)

    def _finish(self, response: dict[str, Any]) -> Iterator[StreamEvent]:
        self._done = True
        yield from self._start(response)
        for key in list(self._open):
            yield from self._stop(key)
        if response.get("usage") is not None:
            yield UsageSeen(responses_usage(response["usage"]))
        yield Finished(stop_of(response, self._kinds))


def _failure(error: object) -> Failed:
    found = error if isinstance(error, dict) else {}
    code = str(found.get("code") or "upstream_error")
    status = 429 if "rate_limit" in code else 502
    return Failed(status, code, str(found.get("message") or "the upstream reported an error"))
