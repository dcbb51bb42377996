"""Reasoning effort in OpenAI's words."""

from __future__ import annotations

from relay_gateway.plugin.canonical import ReasoningOptions

_LOW = 4_096
_MEDIUM = 16_384


def effort_of(options: ReasoningOptions | None) -> str | None:
    """The effort that comes nearest to ``options``; a budget counts by its size.

    ``None`` leaves it to the model, as an adaptive mode does.
    """
    if options is None:
        return None
    if options.mode == "off":
        return "none"
    if options.effort is not None:
        return options.effort
    if options.budget is None:
        return None
    if options.budget <= _LOW:
        return "low"
    return "medium" if options.budget <= _MEDIUM else "high"
