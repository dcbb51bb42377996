"""Reads usage from reranked documents.

Shapes: the API references of Cohere (``meta.billed_units.search_units``) and Jina
(``usage.total_tokens``), which other hosts follow. Where searches are told they are what is
charged, and the tokens beside them are for information only.
"""

from __future__ import annotations

from typing import Any

import msgspec

from relay_gateway.plugin import UsageMeter
from relay_gateway_provider_openai.figures import figure


class _Answer(msgspec.Struct):
    model: Any = None
    usage: Any = None
    meta: Any = None


_ANSWER = msgspec.json.Decoder(_Answer)


class RerankMeter(UsageMeter):
    """Meter of ``openai.rerank``."""

    def body(self, body: bytes) -> None:
        """A whole answer."""
        try:
            answer = _ANSWER.decode(body)
        except (ValueError, RecursionError):
            return
        if isinstance(answer.model, str) and answer.model:
            self.reading.upstream_model = answer.model
        searches = _first(
            figure(answer.meta, "billed_units", "search_units"),
            figure(answer.usage, "search_units"),
        )
        tokens = _first(
            figure(answer.usage, "prompt_tokens"),
            figure(answer.usage, "total_tokens"),
            figure(answer.meta, "tokens", "input_tokens"),
        )
        if searches is not None:
            self.reading.units["searches"] = searches
        elif tokens is not None:
            self.reading.tokens["input"] = tokens

    def event(self, name: bytes, data: bytes) -> int:
        """Never part of this format."""
        return 0


def _first(*figures: int | None) -> int | None:
    return next((found for found in figures if found is not None), None)
