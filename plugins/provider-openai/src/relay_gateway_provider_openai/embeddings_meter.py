"""Reads usage from embeddings."""

from __future__ import annotations

from typing import Any

import msgspec

from relay_gateway.plugin import UsageMeter
from relay_gateway_provider_openai.figures import read_chat_usage


class _Answer(msgspec.Struct):
    model: Any = None
    usage: Any = None


_ANSWER = msgspec.json.Decoder(_Answer)


class EmbeddingsMeter(UsageMeter):
    """Meter of ``openai.embeddings``. The vectors themselves are skipped, never decoded."""

    def body(self, body: bytes) -> None:
        """A whole answer."""
        try:
            answer = _ANSWER.decode(body)
        except (ValueError, RecursionError):
            return
        if isinstance(answer.model, str) and answer.model:
            self.reading.upstream_model = answer.model
        read_chat_usage(self.reading, answer.usage)

    def event(self, name: bytes, data: bytes) -> int:
        """Embeddings are not streamed; an event of a host that does so anyway says nothing."""
        return 0
