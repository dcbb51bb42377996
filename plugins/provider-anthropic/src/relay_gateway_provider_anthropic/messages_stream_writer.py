"""Writes canonical events as a stream of Messages."""

from __future__ import annotations

from typing import Any

import msgspec

from relay_gateway.plugin import Problem
from relay_gateway.plugin.canonical import (
    ArgumentsDelta,
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
    TextDelta,
    ToolCall,
    Usage,
    UsageSeen,
)
from relay_gateway.plugin.codec import AnswerContext, StreamEncoder
from relay_gateway.plugin.sequencer import Sequencer
from relay_gateway_provider_anthropic.dialect import AnthropicDialect
from relay_gateway_provider_anthropic.messages_answers import (
    signature_of,
    start_of,
    stop_members,
    write_usage,
)


class MessagesStreamWriter(StreamEncoder):
    """Writes one stream; content blocks come one after the other, numbered from 0."""

    def __init__(self, context: AnswerContext) -> None:
        self._context = context
        self._sequencer = Sequencer()
        self._usage = Usage()
        self._block = -1
        self._section = 0
        self._declined = False

    def encode(self, event: StreamEvent) -> bytes:
        """The events for one event, and for those that had to wait for it."""
        return b"".join([self._write(each) for each in self._sequencer.feed(event)])

    def _write(self, event: StreamEvent) -> bytes:
        match event:
            case TextDelta(text=text) | RefusalDelta(text=text):
                return self._delta({"type": "text_delta", "text": text}) if text else b""
            case ArgumentsDelta(text=text):
                return self._delta({"type": "input_json_delta", "partial_json": text})
            case ReasoningDelta():
                return self._thought(event)
            case PartStarted(part=part):
                return self._start_block(part)
            case Signed(blob=blob):
                return self._delta({"type": "signature_delta", "signature": signature_of(blob)})
            case _:
                return self._frame(event)

    def _frame(self, event: StreamEvent) -> bytes:
        match event:
            case PartStopped():
                return _event("content_block_stop", {"index": self._block})
            case Started():
                message = start_of(event.id, event.model, self._context)
                return _event(
                    "message_start", {"message": message | {"usage": write_usage(Usage())}}
                )
            case UsageSeen(usage=usage):
                self._usage = usage.over(self._usage)
                return b""
            case Finished():
                return self._finish(event)
            case Failed(status=status, code=code, message=text):
                return AnthropicDialect().error_event(Problem(status, code, text))
            case _:
                return _event("ping", {}) if isinstance(event, Ping) else b""

    def _start_block(self, part: object) -> bytes:
        self._block += 1
        self._section = 0
        block: dict[str, Any] = {"type": "text", "text": ""}
        if isinstance(part, ToolCall):
            block = {"type": "tool_use", "id": part.id, "name": part.name, "input": {}}
        elif isinstance(part, Reasoning):
            block = {"type": "thinking", "thinking": "", "signature": ""}
        self._declined = self._declined or isinstance(part, Refusal)
        return _event("content_block_start", {"index": self._block, "content_block": block})

    def _thought(self, event: ReasoningDelta) -> bytes:
        """Sections of a thought are paragraphs here."""
        text = event.text
        if event.section != self._section:
            self._section = event.section
            text = "\n\n" + text
        return self._delta({"type": "thinking_delta", "thinking": text})

    def _delta(self, delta: dict[str, Any]) -> bytes:
        return _event("content_block_delta", {"index": self._block, "delta": delta})

    def _finish(self, event: Finished) -> bytes:
        delta = stop_members(event.stop, declined=self._declined)
        usage = write_usage(self._usage)
        ended = _event("message_delta", {"delta": delta, "usage": usage})
        return ended + _event("message_stop", {})


def _event(name: str, members: dict[str, Any]) -> bytes:
    data = msgspec.json.encode({"type": name} | members)
    return b"event: %s\ndata: %s\n\n" % (name.encode(), data)
