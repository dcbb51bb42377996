"""Usage objects of the OpenAI API, read into the gateway's meters.

Figures repeat and grow in some streams: the last one said wins. Members that are missing leave what
was said before; members that are no figures are as if missing.
"""

from __future__ import annotations

from relay_gateway.plugin import Reading, count

_CHAT = (
    ("input", ("prompt_tokens",)),
    ("output", ("completion_tokens",)),
    ("cacheRead", ("prompt_tokens_details", "cached_tokens")),
    ("cacheWrite", ("prompt_tokens_details", "cache_write_tokens")),
    ("audioInput", ("prompt_tokens_details", "audio_tokens")),
    ("reasoning", ("completion_tokens_details", "reasoning_tokens")),
    ("audioOutput", ("completion_tokens_details", "audio_tokens")),
)

_RESPONSES = (
    ("input", ("input_tokens",)),
    ("output", ("output_tokens",)),
    ("cacheRead", ("input_tokens_details", "cached_tokens")),
    ("cacheWrite", ("input_tokens_details", "cache_write_tokens")),
    ("reasoning", ("output_tokens_details", "reasoning_tokens")),
)


def read_chat_usage(reading: Reading, usage: object) -> bool:
    """Takes the ``usage`` of a chat completion, completion or embedding; false when it is none."""
    if not isinstance(usage, dict):
        return False
    _read(reading, usage, _CHAT)
    _count_reasoning_as_output(reading.tokens, usage)
    return True


def read_responses_usage(reading: Reading, usage: object) -> None:
    """Takes the ``usage`` of a response."""
    if isinstance(usage, dict):
        _read(reading, usage, _RESPONSES)


def figure(found: object, *path: str) -> int | None:
    """The figure at ``path`` below ``found``, ``None`` when there is none."""
    for step in path:
        if not isinstance(found, dict):
            return None
        found = found.get(step)
    return count(found)


def _read(
    reading: Reading,
    usage: dict[str, object],
    places: tuple[tuple[str, tuple[str, ...]], ...],
) -> None:
    for meter, path in places:
        value = figure(usage, *path)
        if value is not None:
            reading.tokens[meter] = value


def _count_reasoning_as_output(tokens: dict[str, int], usage: dict[str, object]) -> None:
    """Some hosts leave reasoning out of ``completion_tokens``; their total gives it away."""
    output = figure(usage, "completion_tokens")
    prompt = figure(usage, "prompt_tokens")
    total = figure(usage, "total_tokens")
    reasoning = figure(usage, "completion_tokens_details", "reasoning_tokens")
    if output is None or prompt is None or total is None or not reasoning:
        return
    if total == prompt + output + reasoning:  # a count itself, and so is each part of it
        tokens["output"] = output + reasoning
