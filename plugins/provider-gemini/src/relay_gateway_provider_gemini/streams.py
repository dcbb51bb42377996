"""Streams of streamGenerateContent, to and from canonical events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from relay_gateway.errors import UpstreamProtocolError
from relay_gateway.plugin import Problem
from relay_gateway.plugin.canonical import (
    ArgumentsDelta,
    Blob,
    Failed,
    Finished,
    Part,
    PartStarted,
    PartStopped,
    Reasoning,
    ReasoningDelta,
    RefusalDelta,
    Signed,
    Started,
    Stop,
    StopKind,
    StreamEvent,
    Text,
    TextDelta,
    TokenLogprob,
    ToolCall,
    Usage,
    UsageSeen,
)
from relay_gateway.plugin.codec import AnswerContext, StreamDecoder, StreamEncoder
from relay_gateway.plugin.sequencer import MAX_HELD, Sequencer
from relay_gateway_provider_gemini.answers import (
    Chunk,
    head_of,
    part_of,
    read_chunk,
    read_part,
    read_usage,
    signature_of,
    write_logprobs,
    write_usage,
)
from relay_gateway_provider_gemini.dialect import GeminiDialect
from relay_gateway_provider_gemini.words import FINISH_REASONS, UNSIGNED


class StreamReader(StreamDecoder):
    """Reads one stream. There is no event for the end: it is the end of the stream, once a finish
    reason was given."""

    def __init__(self) -> None:
        self._started = False
        self._done = False
        self._count = 0
        self._calls = 0
        self._id = ""
        self._open: type[Part] | None = None
        self._stop: Stop | None = None
        self._blob: Blob | None = None

    def event(self, name: bytes, data: bytes) -> list[StreamEvent]:
        """One chunk, which is an answer that goes on where the last one ended."""
        if not data or self._done:
            return []
        chunk = read_chunk(data)
        if chunk.error:
            self._done = True
            return [_failure(chunk.error)]
        return list(self._chunk(chunk))

    def end(self) -> list[StreamEvent]:
        """The end, if there was a finish reason."""
        if self._done or self._stop is None:
            return []
        self._done = True
        calls = self._stop.kind is StopKind.END and self._calls > 0
        stop = Stop(StopKind.TOOL_CALLS) if calls else self._stop
        return [*self._close(), Finished(stop)]

    def _chunk(self, chunk: Chunk) -> Iterator[StreamEvent]:
        if not self._started:
            self._started = True
            self._id = chunk.responseId
            yield Started(chunk.responseId, chunk.modelVersion)
        logprobs = chunk.logprobs() or ()
        for found in chunk.parts():
            if not found.get("thought") and found.get("thoughtSignature"):
                yield from self._close()  # it is about this part, not about what was open
            for part in read_part(found, self._id, self._calls):
                yield from self._part(part, logprobs)
                logprobs = () if isinstance(part, Text) else logprobs
        if chunk.usageMetadata is not None:
            yield UsageSeen(read_usage(chunk.usageMetadata))
        self._stop = chunk.stop() or self._stop

    def _part(self, part: Part, logprobs: tuple[TokenLogprob, ...]) -> Iterator[StreamEvent]:
        if isinstance(part, Text):
            yield from self._opened(Text(""))
            yield TextDelta(self._count - 1, part.text, logprobs)
        elif isinstance(part, Reasoning):
            yield from self._thought(part)
        elif isinstance(part, ToolCall):
            self._calls += 1
            yield from self._close()
            yield from self._opened(ToolCall(part.id, part.name, ""))
            yield ArgumentsDelta(self._count - 1, part.arguments)
            yield from self._close()

    def _thought(self, part: Reasoning) -> Iterator[StreamEvent]:
        yield from self._opened(Reasoning())
        for text in part.summary:
            yield ReasoningDelta(self._count - 1, text)
        self._blob = part.blob
        if part.blob is not None and part.blob.kind != UNSIGNED:
            yield from self._close()

    def _opened(self, part: Text | Reasoning | ToolCall) -> Iterator[StreamEvent]:
        if self._open is type(part):
            return
        yield from self._close()
        self._open = type(part)
        self._count += 1
        yield PartStarted(self._count - 1, part)

    def _close(self) -> Iterator[StreamEvent]:
        if self._open is not None:
            if self._open is Reasoning and self._blob is not None:
                yield Signed(self._count - 1, self._blob)
            self._open = None
            yield PartStopped(self._count - 1)


def _failure(error: Any) -> Failed:
    found = error if isinstance(error, dict) else {}
    status, code = found.get("code"), str(found.get("status") or "upstream_error")
    message = str(found.get("message") or "the upstream reported an error")
    return Failed(status if isinstance(status, int) and 400 <= status < 600 else 502, code, message)


class StreamWriter(StreamEncoder):
    """Writes one stream. Tool calls go out whole, as the format has no pieces of them."""

    def __init__(self, context: AnswerContext) -> None:
        self._context = context
        self._sequencer = Sequencer()
        self._head: dict[str, Any] = {}
        self._usage = Usage()
        self._call: ToolCall | None = None
        self._arguments: list[str] = []
        self._kept = 0
        self._section = 0

    def encode(self, event: StreamEvent) -> bytes:
        """The chunks for one event, and for those that had to wait for it."""
        return b"".join([self._write(each) for each in self._sequencer.feed(event)])

    def _write(self, event: StreamEvent) -> bytes:
        match event:
            case TextDelta(text=text, logprobs=logprobs):
                return self._text(text, logprobs)
            case RefusalDelta(text=text):
                return self._chunk({"text": text})
            case ReasoningDelta():
                return self._thought(event)
            case Signed(blob=blob):
                signature = signature_of(blob)
                return self._chunk({"text": "", "thought": True, "thoughtSignature": signature})
            case ArgumentsDelta(text=text):
                return self._keep(text)
            case _:
                return self._frame(event)

    def _frame(self, event: StreamEvent) -> bytes:
        match event:
            case PartStarted(part=part):
                self._call = part if isinstance(part, ToolCall) else None
                self._section = 0
                return b""
            case PartStopped():
                return self._whole_call()
            case Started(id=answer_id, model=model):
                self._head = head_of(answer_id, model, self._context)
                return b""
            case UsageSeen(usage=usage):
                self._usage = usage.over(self._usage)
                return b""
            case Finished(stop=stop):
                return self._finish(stop)
            case _:
                return _failed(event)

    def _text(self, text: str, logprobs: tuple[TokenLogprob, ...]) -> bytes:
        if not logprobs:
            return self._chunk({"text": text}) if text else b""
        return self._chunk({"text": text}, logprobsResult=write_logprobs(logprobs))

    def _thought(self, event: ReasoningDelta) -> bytes:
        """Sections of a thought are paragraphs here."""
        text = event.text
        if event.section != self._section:
            self._section = event.section
            text = "\n\n" + text
        return self._chunk({"text": text, "thought": True})

    def _keep(self, text: str) -> bytes:
        self._kept += len(text)
        if self._kept > MAX_HELD:
            raise UpstreamProtocolError("the arguments of a tool call are too long to be kept")
        self._arguments.append(text)
        return b""

    def _whole_call(self) -> bytes:
        if self._call is None:
            return b""
        call = ToolCall(self._call.id, self._call.name, "".join(self._arguments))
        self._call, self._arguments, self._kept = None, [], 0
        return self._chunk(part_of(call))

    def _finish(self, stop: Stop) -> bytes:
        candidate: dict[str, Any] = {"finishReason": FINISH_REASONS[stop.kind]}
        if stop.detail:
            candidate["finishMessage"] = stop.detail
        return self._chunk({"text": ""}, **candidate)

    def _chunk(self, part: dict[str, Any], **members: Any) -> bytes:
        candidate = {"content": {"role": "model", "parts": [part]}, "index": 0} | members
        usage = {"usageMetadata": write_usage(self._usage)} if "finishReason" in members else {}
        body = {"candidates": [candidate]} | usage | self._head
        return b"data: " + msgspec.json.encode(body) + b"\n\n"


def _failed(event: StreamEvent) -> bytes:
    if not isinstance(event, Failed):
        return b""
    return GeminiDialect().error_event(Problem(event.status, event.code, event.message))
