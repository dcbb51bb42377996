"""Reads usage from images that were made or edited, whole or streamed.

Shapes: OpenAI's API reference, "Images" and its "Streaming events". Models that are charged by the
token send ``usage``; for others the images of the answer are counted. Never both: an operator who
has a price for one of them would else see every record as unpriced.
"""

from __future__ import annotations

from typing import Any

import msgspec

from relay_gateway.plugin import CONTENT, FAILED, TERMINAL, UsageMeter
from relay_gateway_provider_openai.chat_meter import DONE
from relay_gateway_provider_openai.figures import read_usage


class _Answer(msgspec.Struct):
    type: Any = None
    model: Any = None
    data: Any = None
    usage: Any = None
    error: Any = None


_ANSWER = msgspec.json.Decoder(_Answer)


class ImagesMeter(UsageMeter):
    """Meter of ``openai.images``."""

    def body(self, body: bytes) -> None:
        """A whole answer."""
        answer = _decode(body)
        if answer is None:
            return
        images = len(answer.data) if isinstance(answer.data, list) else None
        self._note(answer, images)

    def event(self, name: bytes, data: bytes) -> int:
        """One event; the images of a stream come one by one, and the last of them ends it."""
        if data == DONE:
            return TERMINAL
        answer = _decode(data)
        if name == b"error" or (answer is not None and answer.error):
            return FAILED
        kind = answer.type if answer is not None else None
        if answer is None or not isinstance(kind, str):
            return 0
        if kind.endswith(".partial_image"):
            return CONTENT
        if not kind.endswith(".completed"):
            return 0
        self._note(answer, self.reading.units.get("images", 0) + 1)
        return CONTENT | TERMINAL

    def _note(self, answer: _Answer, images: int | None) -> None:
        if isinstance(answer.model, str) and answer.model:
            self.reading.upstream_model = answer.model
        read_usage(self.reading, answer.usage)
        if self.reading.tokens:
            self.reading.units.pop("images", None)
        elif images is not None:
            self.reading.units["images"] = images


def _decode(data: bytes) -> _Answer | None:
    try:
        return _ANSWER.decode(data)
    except (ValueError, RecursionError):
        return None
