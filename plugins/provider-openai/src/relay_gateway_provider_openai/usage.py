"""Usage figures of the OpenAI API, to and from the canonical ones."""

from __future__ import annotations

from typing import Any

from relay_gateway.plugin.canonical import Usage
from relay_gateway_provider_openai.figures import figure


def chat_usage(found: object) -> Usage:
    """The ``usage`` of a chat completion."""
    reasoning = figure(found, "completion_tokens_details", "reasoning_tokens")
    return Usage(
        input=figure(found, "prompt_tokens"),
        output=_with_reasoning(found, reasoning),
        cache_read=figure(found, "prompt_tokens_details", "cached_tokens"),
        cache_write=figure(found, "prompt_tokens_details", "cache_write_tokens"),
        reasoning=reasoning,
        audio_input=figure(found, "prompt_tokens_details", "audio_tokens"),
        audio_output=figure(found, "completion_tokens_details", "audio_tokens"),
    )


def _with_reasoning(found: object, reasoning: int | None) -> int | None:
    """Tokens written; some hosts leave reasoning out of them, which shows in the total."""
    prompt, written = figure(found, "prompt_tokens"), figure(found, "completion_tokens")
    total = figure(found, "total_tokens")
    if None in (prompt, written, total, reasoning):
        return written
    assert prompt is not None  # noqa: S101 - for the type checker
    assert written is not None  # noqa: S101
    assert reasoning is not None  # noqa: S101
    return written + reasoning if total == prompt + written + reasoning else written


def write_chat_usage(usage: Usage) -> dict[str, Any]:
    """``usage`` as a chat completion tells it; figures nobody said count as 0."""
    prompt, completion = usage.input or 0, usage.output or 0
    cached = {"cached_tokens": usage.cache_read or 0, "audio_tokens": usage.audio_input or 0}
    if usage.cache_write is not None:
        cached["cache_write_tokens"] = usage.cache_write
    details = {
        "reasoning_tokens": usage.reasoning or 0,
        "audio_tokens": usage.audio_output or 0,
        "accepted_prediction_tokens": 0,
        "rejected_prediction_tokens": 0,
    }
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": cached,
        "completion_tokens_details": details,
    }


def responses_usage(found: object) -> Usage:
    """The ``usage`` of a response."""
    return Usage(
        input=figure(found, "input_tokens"),
        output=figure(found, "output_tokens"),
        cache_read=figure(found, "input_tokens_details", "cached_tokens"),
        cache_write=figure(found, "input_tokens_details", "cache_write_tokens"),
        reasoning=figure(found, "output_tokens_details", "reasoning_tokens"),
    )


def write_responses_usage(usage: Usage) -> dict[str, Any]:
    """``usage`` as a response tells it; figures nobody said count as 0."""
    read, written = usage.input or 0, usage.output or 0
    return {
        "input_tokens": read,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read or 0,
            "cache_write_tokens": usage.cache_write or 0,
        },
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
        "total_tokens": read + written,
    }
