"""Writes canonical events as a stream of Chat Completions."""

from __future__ import annotations

from typing import Any

import msgspec

from relay_gateway.errors import UpstreamProtocolError
from relay_gateway.plugin import Problem
from relay_gateway.plugin.canonical import (
    ArgumentsDelta,
    Blob,
    Failed,
    Finished,
    PartStarted,
    Reasoning,
    ReasoningDelta,
    RefusalDelta,
    Signed,
    Started,
    StopKind,
    StreamEvent,
    TextDelta,
    ToolCall,
    Usage,
    UsageSeen,
)
from relay_gateway.plugin.codec import AnswerContext, StreamEncoder
from relay_gateway.plugin.sequencer import MAX_HELD
from relay_gateway_provider_openai.chat_answers import FINISH_REASONS
from relay_gateway_provider_openai.chat_reasoning import TEXT, detail_of
from relay_gateway_provider_openai.dialect import OpenAIDialect
from relay_gateway_provider_openai.logprobs import write_logprobs
from relay_gateway_provider_openai.usage import write_chat_usage


class ChatStreamWriter(StreamEncoder):
    """Writes one stream. Usage goes out in a chunk of its own at the end, if it was asked for."""

    def __init__(self, context: AnswerContext) -> None:
        self._context = context
        self._head: dict[str, Any] = {}
        self._usage = Usage()
        self._calls: dict[int, int] = {}
        self._details = 0
        self._thoughts: dict[bool, list[str]] = {True: [], False: []}
        self._kept = 0
        self._declined = False

    def encode(self, event: StreamEvent) -> bytes:
        """The chunks for one event."""
        match event:
            case TextDelta(text=text, logprobs=logprobs):
                found = {"content": write_logprobs(logprobs), "refusal": None} if logprobs else None
                return self._chunk({"content": text}, found)
            case ArgumentsDelta(index=index, text=text):
                call = {"index": self._calls[index], "function": {"arguments": text}}
                return self._chunk({"tool_calls": [call]})
            case PartStarted(index=index, part=ToolCall() as call):
                return self._tool_call(index, call)
            case ReasoningDelta():
                return self._thought(event)
            case Signed(blob=blob):
                return self._signed(blob)
            case _:
                return self._frame(event)

    def _frame(self, event: StreamEvent) -> bytes:
        match event:
            case RefusalDelta(text=text):
                self._declined = True
                return self._chunk({"refusal": text})
            case Started():
                return self._start(event)
            case UsageSeen(usage=usage):
                self._usage = usage.over(self._usage)
                return b""
            case Finished():
                return self._finish(event)
            case Failed(status=status, code=code, message=message):
                return OpenAIDialect().error_event(Problem(status, code, message))
            case _:
                return b""

    def _start(self, event: Started) -> bytes:
        self._head = {
            "id": event.id or f"chatcmpl-{self._context.answer_id}",
            "object": "chat.completion.chunk",
            "created": self._context.created,
            "model": event.model or self._context.request.model,
        }
        return self._chunk({"role": "assistant", "content": ""})

    def _tool_call(self, index: int, call: ToolCall) -> bytes:
        number = self._calls[index] = len(self._calls)
        function = {"name": call.name, "arguments": ""}
        entry = {"index": number, "id": call.id, "type": "function", "function": function}
        return self._chunk({"tool_calls": [entry]})

    def _thought(self, event: ReasoningDelta) -> bytes:
        """Text to show; it is kept until its signature comes, as the two go back together."""
        self._kept += len(event.text)
        if self._kept > MAX_HELD:
            raise UpstreamProtocolError("the upstream's reasoning is too long to be signed")
        self._thoughts[event.summary].append(event.text)
        return self._chunk({"reasoning_content": event.text})

    def _signed(self, blob: Blob) -> bytes:
        summary, content = ("".join(self._thoughts[kind]) for kind in (True, False))
        self._thoughts = {True: [], False: []}
        if blob.kind == TEXT:
            return b""
        thought = Reasoning((summary,) if summary else (), (content,) if content else ())
        entry = detail_of(thought, blob, self._details)
        self._details += 1
        return self._chunk({"reasoning_details": [entry]})

    def _finish(self, event: Finished) -> bytes:
        reason = FINISH_REASONS[event.stop.kind]
        written = b""
        if event.stop.kind is StopKind.REFUSAL:
            reason = "stop" if self._declined else reason
            if not self._declined and event.stop.detail:
                written = self._chunk({"refusal": event.stop.detail})
        written += self._chunk({}, reason=reason)
        if self._context.request.stream_usage:
            usage = write_chat_usage(self._usage)
            written += _event(self._head | {"choices": [], "usage": usage})
        return written + b"data: [DONE]\n\n"

    def _chunk(
        self, delta: dict[str, Any], logprobs: Any = None, reason: str | None = None
    ) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": reason}
        body = self._head | {"choices": [choice]}
        return _event(body | {"usage": None} if self._context.request.stream_usage else body)


def _event(body: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(body) + b"\n\n"
