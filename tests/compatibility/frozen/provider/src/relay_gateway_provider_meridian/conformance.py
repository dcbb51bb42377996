"""How the suites of providers and codecs are run against this one, with answers as hosts send."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from relay_gateway.plugin import PluginConfig, Reading, UpstreamProvider, WireCodec
from relay_gateway.testing.conformance import (
    AnswerSample,
    CodecConformance,
    ConversationSample,
    StreamSample,
    UpstreamProviderConformance,
)
from relay_gateway.testing.context import plugin_context
from relay_gateway_provider_meridian.codec import TalkCodec
from relay_gateway_provider_meridian.provider import MeridianProvider
from relay_gateway_provider_meridian.words import FORMAT

__all__ = ["TestMeridianProvider", "TestTalkCodec"]

USAGE = {"read": 30, "written": 12, "cached": 8}
READING = Reading({"input": 30, "output": 12, "cacheRead": 8}, {}, "done", "large-1")
ANSWER = {
    "id": "a1",
    "model": "large-1",
    "parts": [{"type": "text", "text": "Sunny."}],
    "stop": "done",
    "usage": USAGE,
}
EVENTS: Sequence[dict[str, Any]] = (
    {"type": "start", "id": "a1", "model": "large-1"},
    {"type": "open", "number": 0, "part": {"type": "thought"}},
    {"type": "more", "number": 0, "text": "Look outside."},
    {"type": "close", "number": 0, "seal": "c2lnbmVk"},
    {"type": "open", "number": 1, "part": {"type": "text"}},
    {"type": "more", "number": 1, "text": "Sun"},
    {"type": "more", "number": 1, "text": "ny."},
    {"type": "close", "number": 1},
    {"type": "end", "stop": "done", "usage": USAGE},
)
CONVERSATION = {
    "model": "large-1",
    "stream": True,
    "limit": 200,
    "temperature": 0.5,
    "top_p": 0.9,
    "stop_texts": ["END"],
    "user": "u1",
    "call_tools": "auto",
    "tools": [{"name": "weather", "description": "Of a city", "schema": {"type": "object"}}],
    "turns": [
        {"role": "system", "parts": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "parts": [{"type": "text", "text": "Weather in Zürich?"}]},
        {
            "role": "assistant",
            "parts": [
                {"type": "thought", "text": "Ask.", "seal": "c2lnbmVk"},
                {"type": "call", "id": "c1", "name": "weather", "arguments": '{"city":"Zürich"}'},
            ],
        },
        {"role": "tool", "parts": [{"type": "result", "call": "c1", "text": "?", "failed": True}]},
    ],
}


def _data(event: dict[str, Any]) -> bytes:
    return json.dumps(event, ensure_ascii=False).encode()


class TestMeridianProvider(UpstreamProviderConformance):
    """What is asked of a host, and what its answers are taken for."""

    @pytest.fixture
    def provider(self, tmp_path: Path) -> UpstreamProvider:
        """The provider, made but not opened."""
        return MeridianProvider(PluginConfig(), plugin_context(tmp_path, plugin="meridian"))

    @pytest.fixture
    def answer_samples(self) -> Sequence[AnswerSample]:
        """A whole answer."""
        return [AnswerSample(FORMAT, _data(ANSWER), READING)]

    @pytest.fixture
    def stream_samples(self) -> Sequence[StreamSample]:
        """A complete stream."""
        return [StreamSample(FORMAT, [(b"", _data(event)) for event in EVENTS], READING)]


class TestTalkCodec(CodecConformance):
    """What the format says in other formats, and they in it."""

    @pytest.fixture
    def codec(self) -> WireCodec:
        """The codec."""
        return TalkCodec()

    @pytest.fixture
    def conversations(self) -> Sequence[ConversationSample]:
        """A request with everything that the format can say; schemas are the caller's own."""
        return [ConversationSample("all", _data(CONVERSATION), free=frozenset({"schema"}))]

    @pytest.fixture
    def recorded_streams(self) -> Sequence[bytes]:
        """A stream as it is on the wire."""
        return [b"".join(b"data: " + _data(event) + b"\n\n" for event in EVENTS)]
