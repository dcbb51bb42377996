"""Usage objects of the OpenAI API, read into the gateway's meters.

Figures repeat and grow in some streams: the last one said wins. Members that are missing leave what
was said before; members that are no figures are as if missing.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from relay_gateway.plugin import Reading, count

MOST: Final = (1 << 63) - 1
"""The largest figure that a meter takes."""

Figures = tuple[tuple[str, str], ...]
"""Meters and the members that say their figures."""


class Names(NamedTuple):
    """What the members of a usage object are called: its own figures, and by member the details
    that others of its members hold."""

    own: Figures
    details: tuple[tuple[str, Figures], ...]


_CHAT = Names(
    own=(("input", "prompt_tokens"), ("output", "completion_tokens")),
    details=(
        (
            "prompt_tokens_details",
            (
                ("cacheRead", "cached_tokens"),
                ("cacheWrite", "cache_write_tokens"),
                ("audioInput", "audio_tokens"),
            ),
        ),
        (
            "completion_tokens_details",
            (("reasoning", "reasoning_tokens"), ("audioOutput", "audio_tokens")),
        ),
    ),
)
_RESPONSES = Names(
    own=(("input", "input_tokens"), ("output", "output_tokens")),
    details=(
        (
            "input_tokens_details",
            (("cacheRead", "cached_tokens"), ("cacheWrite", "cache_write_tokens")),
        ),
        ("output_tokens_details", (("reasoning", "reasoning_tokens"),)),
    ),
)
_MEDIA = Names(
    own=(("input", "input_tokens"), ("output", "output_tokens")),
    details=(
        ("input_tokens_details", (("cacheRead", "cached_tokens"),)),
        ("input_token_details", (("audioInput", "audio_tokens"),)),
    ),
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


def _read(reading: Reading, usage: dict[str, Any], names: Names) -> None:
    _take(reading.tokens, usage, names.own)
    for member, figures in names.details:
        found = usage.get(member)
        if type(found) is dict:
            _take(reading.tokens, found, figures)


def _take(tokens: dict[str, int], found: dict[str, Any], figures: Figures) -> None:
    for meter, member in figures:
        said = found.get(member)
        if type(said) is int and 0 <= said <= MOST:
            tokens[meter] = said


def _count_reasoning_as_output(tokens: dict[str, int], usage: dict[str, object]) -> None:
    """Some hosts leave reasoning out of ``completion_tokens``; their total gives it away."""
    reasoning = tokens.get("reasoning")
    if not reasoning or "output" not in tokens or "input" not in tokens:
        return
    output = count(usage.get("completion_tokens"))
    total = count(usage.get("total_tokens"))
    if output is not None and total == tokens["input"] + output + reasoning:
        tokens["output"] = output + reasoning
