"""Proof that no member of a body is there twice, without a search for it.

A decoder says the last value of each name. Where names and values make up all of the body, nothing
is left in which an earlier one could hide; where there is white space besides, the body is read
member by member. That costs a comparison at most, where a search for every spelling of a name takes
several times as long as decoding.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

_LEAST_MEMBER: Final = len(',"":1')
_MOST_MEMBERS: Final = 100
_ABSENT: Final = msgspec.Raw(b"")
_NEXT = re.compile(rb'[ \t\r\n]*[{,][ \t\r\n]*"([^"\\]*)"[ \t\r\n]*:[ \t\r\n]*')
_END = re.compile(rb"[ \t\r\n]*\}[ \t\r\n]*")

_USUAL: Final = (
    *("model", "stream", "stream_options", "user", "metadata", "service_tier", "store", "seed"),
    *("messages", "input", "contents", "system", "instructions", "prompt", "text", "suffix"),
    *("max_tokens", "max_completion_tokens", "max_output_tokens", "n", "stop", "stop_sequences"),
    *("temperature", "top_p", "top_k", "presence_penalty", "frequency_penalty", "logit_bias"),
    *("logprobs", "top_logprobs", "tools", "tool_choice", "parallel_tool_calls", "functions"),
    *("function_call", "response_format", "reasoning", "reasoning_effort", "thinking", "verbosity"),
    *("modalities", "audio", "prediction", "include", "previous_response_id", "conversation"),
    *("truncation", "background", "dimensions", "encoding_format", "safety_identifier"),
    *("prompt_cache_key", "context_management", "container", "mcp_servers", "output_config"),
    *("generationConfig", "safetySettings", "systemInstruction", "toolConfig", "cachedContent"),
)
"""Members that large bodies of the known formats have. One with another is searched."""

_Usual = msgspec.defstruct("_Usual", [(name, msgspec.Raw, _ABSENT) for name in _USUAL])
decode_all: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
"""All members of a body, by name. Those of a large hostile one would take seconds."""
_decode_usual: Final = msgspec.json.Decoder(_Usual).decode


def decode_usual(data: bytes) -> dict[str, msgspec.Raw]:
    """The members that are usual, by name, of a body of any size."""
    usual = _decode_usual(data)
    found: list[Any] = [(name, getattr(usual, name)) for name in _USUAL]
    return {name: value for name, value in found if value is not _ABSENT}


def are_all(data: bytes, members: Mapping[str, msgspec.Raw]) -> bool:
    """Whether the JSON object ``data`` has just these members, each of them once. ``False`` may
    also mean that this cannot be told."""
    accounted = 1
    for name, value in members.items():
        accounted += len(name) + 4 + len(memoryview(value))
    return len(data) - accounted < _LEAST_MEMBER or _one_by_one(data, members)


def _one_by_one(data: bytes, members: Mapping[str, msgspec.Raw]) -> bool:
    """Reads name after name. A value ends where the one that the decoder found would end, because
    no JSON value but a number begins like another one, and what follows tells a number's end."""
    if len(members) > _MOST_MEMBERS:
        return False
    left = dict(members)
    position = 0
    while left:
        found = _NEXT.match(data, position)
        value = left.pop(found[1].decode(), None) if found is not None else None
        if found is None or value is None:
            return False
        view = memoryview(value)
        if not data.startswith(view, found.end()):
            return False
        position = found.end() + len(view)
    return _END.fullmatch(data, position) is not None
