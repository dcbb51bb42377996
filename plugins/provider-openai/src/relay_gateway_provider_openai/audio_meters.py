"""Reads usage from speech and transcriptions, whole or streamed.

Shapes: OpenAI's API reference, "Audio" and its streaming events. Transcriptions are charged by the
token or by the second, and their ``usage`` says which; a host that sends none often says how long
the recording was. Streams of compatible hosts may look like those of chat completions.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from relay_gateway.plugin import CONTENT, FAILED, TERMINAL, UsageMeter, count
from relay_gateway_provider_openai.chat_meter import DONE
from relay_gateway_provider_openai.figures import MOST, read_usage

_FLAGS = {
    "speech.audio.delta": CONTENT,
    "speech.audio.done": TERMINAL,
    "transcript.text.delta": CONTENT,
    "transcript.text.segment": CONTENT,
    "transcript.text.done": TERMINAL,
}


class _Answer(msgspec.Struct):
    type: Any = None
    model: Any = None
    usage: Any = None
    duration: Any = None
    choices: Any = None
    error: Any = None


_ANSWER = msgspec.json.Decoder(_Answer)


class AudioMeter(UsageMeter):
    """Meter of ``openai.speech`` and ``openai.transcriptions``. Seconds are rounded up, as they are
    charged."""

    def body(self, body: bytes) -> None:
        """A whole answer in JSON; a recording or a plain text says nothing."""
        answer = _decode(body)
        if answer is not None:
            self._note(answer)

    def event(self, name: bytes, data: bytes) -> int:
        """One event, told by its ``type``."""
        if data == DONE:
            return TERMINAL
        answer = _decode(data)
        if name == b"error" or (answer is not None and answer.error):
            return FAILED
        if answer is None:
            return 0
        self._note(answer)
        if isinstance(answer.type, str):
            return _FLAGS.get(answer.type, 0)
        return CONTENT if _has_text(answer.choices) else 0

    def _note(self, answer: _Answer) -> None:
        if isinstance(answer.model, str) and answer.model:
            self.reading.upstream_model = answer.model
        read_usage(self.reading, answer.usage)
        usage = answer.usage if isinstance(answer.usage, dict) else {}
        seconds = _seconds(usage.get("seconds"))
        if seconds is None and not self.reading.tokens:
            seconds = _seconds(answer.duration)
        if seconds is not None:
            self.reading.units["audioSeconds"] = seconds


def _decode(data: bytes) -> _Answer | None:
    try:
        return _ANSWER.decode(data)
    except (ValueError, RecursionError):
        return None


def _seconds(value: object) -> int | None:
    if type(value) is float and 0 <= value <= MOST:  # neither infinite nor a NaN, then
        return math.ceil(value)
    return count(value)


def _has_text(choices: object) -> bool:
    if not isinstance(choices, list):
        return False
    deltas = (choice.get("delta") for choice in choices if isinstance(choice, dict))
    return any(isinstance(delta, dict) and bool(delta.get("content")) for delta in deltas)
