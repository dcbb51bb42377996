"""Echo keeps the promises of every local provider, in each wire format that it speaks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from relay_gateway.plugin import PluginConfig, Reading, UpstreamProvider
from relay_gateway.testing.conformance import LocalProviderConformance, LocalSample
from relay_gateway.testing.context import plugin_context
from relay_gateway_provider_echo.provider import EchoProvider

CHAT = b'{"model":"echo","messages":[{"role":"user","content":"Hello there"}]%s}'
ASKED = b'{"model":"echo","input":"Hello there"%s}'
PROMPT = b'{"model":"echo","prompt":"Hello there"%s}'
RERANKED = b'{"model":"echo","query":"Hello","documents":["Good day","Hello there"]}'
LIMIT = b',"max_tokens":9'
STREAM = b',"stream":true'
WITH_USAGE = STREAM + b',"stream_options":{"include_usage":true}'
TOOL = (
    b'{"model":"echo","messages":[{"role":"user","content":"!tool weather {}"}],'
    b'"tools":[{"type":"function","function":{"name":"weather"}}],"stream":true}'
)


def chat_reading(tier: str | None = "default") -> Reading:
    """Two words in, three out (``echo: Hello there``), and an explicit zero for all else."""
    tokens = {"input": 2, "output": 3, "cacheRead": 0, "reasoning": 0}
    return Reading(
        tokens | {"audioInput": 0, "audioOutput": 0},
        finish_reason="stop",
        upstream_model="acme",
        tier=tier,
    )


def response_reading() -> Reading:
    tokens = {"input": 2, "output": 3, "cacheRead": 0, "cacheWrite": 0, "reasoning": 0}
    return Reading(tokens, finish_reason="completed", upstream_model="acme", tier="default")


def message_reading() -> Reading:
    tokens = {"input": 2, "output": 3, "cacheRead": 0, "cacheWrite": 0, "cacheWrite1h": 0}
    return Reading(tokens, finish_reason="end_turn", upstream_model="acme", tier="standard")


class TestEcho(LocalProviderConformance):
    @pytest.fixture
    def provider(self, tmp_path: Path) -> UpstreamProvider:
        return EchoProvider(PluginConfig(), plugin_context(tmp_path))

    @pytest.fixture
    def local_samples(self) -> Sequence[LocalSample]:
        called = Reading(finish_reason="tool_calls", upstream_model="acme", tier="default")
        unmetered = Reading(finish_reason="stop", upstream_model="acme", tier="default")
        counted = Reading({"input": 2}, upstream_model="acme")
        return [
            LocalSample("openai.chat", CHAT % b"", chat_reading()),
            LocalSample("openai.chat", CHAT % STREAM, unmetered, streamed=True),
            LocalSample("openai.chat", TOOL, called, streamed=True),
            LocalSample("openai.chat", CHAT % WITH_USAGE, chat_reading(), True, usage_only=[5]),
            LocalSample("openai.responses", ASKED % b"", response_reading()),
            LocalSample("openai.responses", ASKED % STREAM, response_reading(), streamed=True),
            LocalSample("openai.completions", PROMPT % b"", chat_reading(tier=None)),
            LocalSample(
                "openai.completions",
                PROMPT % WITH_USAGE,
                chat_reading(tier=None),
                True,
                usage_only=[4],
            ),
            LocalSample("openai.embeddings", ASKED % b"", counted),
            LocalSample("openai.moderations", ASKED % b"", Reading()),
            LocalSample("openai.rerank", RERANKED, Reading({"input": 5}, upstream_model="acme")),
            LocalSample("anthropic.messages", CHAT % LIMIT, message_reading()),
            LocalSample("anthropic.messages", CHAT % (LIMIT + STREAM), message_reading(), True),
            LocalSample("anthropic.count_tokens", CHAT % b"", Reading()),
        ]
