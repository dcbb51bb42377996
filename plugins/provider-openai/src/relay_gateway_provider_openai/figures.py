"""Usage objects of the OpenAI API, read into the gateway's meters.

Figures repeat and grow in some streams: the last one said wins. Members that are missing leave what
was said before; members that are no figures are as if missing.
"""

from __future__ import annotations

from typing import Final

from relay_gateway.plugin import Reading, count

MOST: Final = (1 << 63) - 1
"""The largest figure that a meter takes."""

# Meter, member of the usage object, and the member of that one for the details.
_CHAT = (
    ("input", "prompt_tokens", None),
    ("output", "completion_tokens", None),
    ("cacheRead", "prompt_tokens_details", "cached_tokens"),
    ("cacheWrite", "prompt_tokens_details", "cache_write_tokens"),
    ("audioInput", "prompt_tokens_details", "audio_tokens"),
    ("reasoning", "completion_tokens_details", "reasoning_tokens"),
    ("audioOutput", "completion_tokens_details", "audio_tokens"),
)

_RESPONSES = (
    ("input", "input_tokens", None),
    ("output", "output_tokens", None),
    ("cacheRead", "input_tokens_details", "cached_tokens"),
    ("cacheWrite", "input_tokens_details", "cache_write_tokens"),
    ("reasoning", "output_tokens_details", "reasoning_tokens"),
)

_MEDIA = (
    ("input", "input_tokens", None),
    ("output", "output_tokens", None),
    ("cacheRead", "input_tokens_details", "cached_tokens"),
    ("audioInput", "input_token_details", "audio_tokens"),
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


def read_usage(reading: Reading, usage: object) -> None:
    """Takes the ``usage`` of an image, a speech or a transcription, in whichever of the two
    families of names it is; images are tokens of input and output like others."""
    if isinstance(usage, dict):
        _read(reading, usage, _CHAT)
        _read(reading, usage, _MEDIA)


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
    places: tuple[tuple[str, str, str | None], ...],
) -> None:
    # One loop without calls: this is done for every answer.
    tokens = reading.tokens
    for meter, member, detail in places:
        found = usage.get(member)
        if detail is not None:
            found = found.get(detail) if type(found) is dict else None
        if type(found) is int and 0 <= found <= MOST:
            tokens[meter] = found


def _count_reasoning_as_output(tokens: dict[str, int], usage: dict[str, object]) -> None:
    """Some hosts leave reasoning out of ``completion_tokens``; their total gives it away."""
    reasoning = tokens.get("reasoning")
    if not reasoning or "output" not in tokens or "input" not in tokens:
        return
    output = count(usage.get("completion_tokens"))
    total = count(usage.get("total_tokens"))
    if output is not None and total == tokens["input"] + output + reasoning:
        tokens["output"] = output + reasoning
