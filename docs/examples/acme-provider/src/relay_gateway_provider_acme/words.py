"""Words of the format, and what they mean to the gateway."""

from __future__ import annotations

from typing import Any

from relay_gateway.plugin import count
from relay_gateway.plugin.canonical import StopKind, Usage

FORMAT = "acme.talk"

STOPS = {
    "end": StopKind.END,
    "max_tokens": StopKind.LENGTH,
    "context_full": StopKind.CONTEXT,
    "stop_text": StopKind.STOP_SEQUENCE,
    "tool_calls": StopKind.TOOL_CALLS,
    "refused": StopKind.REFUSAL,
    "paused": StopKind.PAUSED,
}
STOP_WORDS = {kind: word for word, kind in STOPS.items()}

FIGURES = {
    "input": ("tokens_in", "input"),
    "output": ("tokens_out", "output"),
    "cache_read": ("tokens_cached", "cacheRead"),
    "reasoning": ("tokens_thought", "reasoning"),
}
"""Canonical figure: its word here, and the gateway's meter without ``tokens.``."""


def read_usage(found: object) -> Usage:
    """The ``usage`` of an answer."""
    said = found if isinstance(found, dict) else {}
    return Usage(**{figure: count(said.get(word)) for figure, (word, _) in FIGURES.items()})


def write_usage(usage: Usage) -> dict[str, Any]:
    """``usage`` as an answer tells it; what nobody said is left out."""
    figures = {word: getattr(usage, figure) for figure, (word, _) in FIGURES.items()}
    return {word: figure for word, figure in figures.items() if figure is not None}
