"""Reads usage from chat completions and completions, whole or streamed.

Shapes: OpenAI's API reference, "Chat Completions" and its "Streaming" section; the tolerance is
for compatible hosts, which leave out ``[DONE]``, send usage with the last choice or report errors
inside a stream.
"""

from __future__ import annotations

from typing import Any

import msgspec

from relay_gateway.plugin import CONTENT, FAILED, LAST, TERMINAL, USAGE_ONLY, UsageMeter
from relay_gateway_provider_openai.figures import read_chat_usage

DONE = b"[DONE]"


class _Delta(msgspec.Struct, gc=False):
    content: Any = None
    refusal: Any = None
    tool_calls: Any = None
    audio: Any = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta | None = None
    text: Any = None
    finish_reason: Any = None


class _Envelope(msgspec.Struct):
    model: Any = None
    usage: Any = None
    error: Any = None
    service_tier: Any = None


class _Answer(_Envelope):
    choices: list[_Choice] | None = None


_ANSWER = msgspec.json.Decoder(_Answer)
_ENVELOPE = msgspec.json.Decoder(_Envelope)


class ChatMeter(UsageMeter):
    """Meter of ``openai.chat`` and ``openai.completions``."""

    def body(self, body: bytes) -> None:
        """A whole answer."""
        answer = _decode(body)
        if answer is not None:
            self._note(answer)
            for choice in answer.choices or ():
                self._finish(choice)

    def event(self, name: bytes, data: bytes) -> int:
        """One chunk. The end is ``[DONE]`` or a finish reason, since many hosts omit the former."""
        if data == DONE:
            return TERMINAL | LAST
        chunk = _decode(data)
        if chunk is None:
            return FAILED if name == b"error" else 0
        usual = chunk.usage is None and chunk.service_tier is None
        has_usage = False if usual and self.reading.upstream_model else self._note(chunk)
        if chunk.error or name == b"error":
            return FAILED
        if not chunk.choices:
            return USAGE_ONLY if has_usage and chunk.choices is not None else 0
        flags = 0
        for choice in chunk.choices:
            if choice.finish_reason is not None:
                flags |= self._finish(choice)
            delta = choice.delta
            if (delta is not None and delta.content) or _shows_something(choice):
                flags |= CONTENT
        return flags

    def _note(self, answer: _Answer) -> bool:
        if self.reading.upstream_model is None and isinstance(answer.model, str):
            self.reading.upstream_model = answer.model or None
        if isinstance(answer.service_tier, str):
            self.reading.tier = answer.service_tier or None
        return answer.usage is not None and read_chat_usage(self.reading, answer.usage)

    def _finish(self, choice: _Choice) -> int:
        reason = choice.finish_reason
        if not isinstance(reason, str) or not reason:
            return 0
        if self.reading.finish_reason is None:
            self.reading.finish_reason = reason
        return FAILED if reason == "error" else TERMINAL


def _decode(data: bytes) -> _Answer | None:
    try:
        return _ANSWER.decode(data)
    except (ValueError, RecursionError):
        return _without_choices(data)


def _without_choices(data: bytes) -> _Answer | None:
    """What can be had of an answer with choices of another shape or half a character."""
    try:
        envelope = _ENVELOPE.decode(data)
    except (ValueError, RecursionError):
        return None
    return _Answer(envelope.model, envelope.usage, envelope.error, envelope.service_tier)


def _shows_something(choice: _Choice) -> bool:
    delta = choice.delta
    if delta is None:
        return bool(choice.text)
    return bool(delta.content or delta.tool_calls or delta.refusal or delta.audio)
