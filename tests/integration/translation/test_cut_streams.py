"""Translated streams cut at each byte and disturbed at random: nobody takes half an answer for a
whole one, and how an answer comes changes nothing about it."""

from __future__ import annotations

from types import ModuleType

import pytest

from relay_gateway.errors import UpstreamClosedError
from relay_gateway.plugin import WireFormat
from relay_gateway.testing.speakers import chat, generate, messages, responses
from relay_gateway.testing.speakers.scene import Asked, reply_to
from relay_gateway.testing.translated_streams import (
    TranslationMaker,
    judge_cut,
    judge_translation,
    translate,
)

from .spoken import FORMATS, UNLIKE_PAIRS

CASES = 1500
SPEAKERS: dict[str, ModuleType] = {
    "chat": chat,
    "responses": responses,
    "messages": messages,
    "gemini": generate,
}
SPOKEN: dict[str, tuple[WireFormat, ModuleType]] = {
    name: (wire_format, SPEAKERS[name]) for name, wire_format in FORMATS.items()
}


async def test_r23_translated_streams_are_told_the_same_however_they_come() -> None:
    maker = TranslationMaker(SPOKEN, seed=23)
    for _ in range(CASES):
        judge_translation(maker, SPOKEN)


@UNLIKE_PAIRS
@pytest.mark.parametrize("text", ["think", "Hello"])
async def test_f35_translated_streams_cut_at_each_byte_never_end_cleanly(
    source: str, target: str, text: str
) -> None:
    tools = {"get_weather": None, "get_time": None} if text == "think" else {}
    asked = Asked(text, "m", streamed=True, tools=tools)
    data = b"".join(SPEAKERS[target].events(reply_to(asked), asked))
    whole = translate([data], FORMATS[target], FORMATS[source])
    assert whole.complete
    for at in range(0, len(data), 3):
        judge_cut(data[:at], whole, FORMATS[target], FORMATS[source])
    closed = UpstreamClosedError("the peer closed")
    for at in range(1, len(data) + 1, 7):
        judge_cut(data[:at], whole, FORMATS[target], FORMATS[source], closed)


@pytest.mark.parametrize("source", [name for name in FORMATS if name != "chat"])
async def test_f35_a_stream_without_a_reason_to_stop_is_recorded_as_broken(source: str) -> None:
    asked = Asked("Hello", "m", streamed=True)
    events = chat.events(reply_to(asked), asked)
    pieces = [event for event in events if b'"finish_reason":"' not in event]
    assert pieces[-1] == b"data: [DONE]\n\n"
    told = translate([b"".join(pieces)], FORMATS["chat"], FORMATS[source])
    assert (told.complete, told.outcome) == (False, "upstream_error")
    assert b"broke off" in told.data
