"""Requests that echo refuses, faults that it is told to show, and the seeds it ships."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pydantic import ValidationError

import relay_gateway_provider_echo
from relay_gateway.plugin import CatalogSeed
from relay_gateway.testing.conformance import CatalogSeedConformance
from relay_gateway_provider_echo.provider import EchoHost, EchoProvider
from relay_gateway_provider_echo.seeds import SEED

Ask = Callable[..., Awaitable[Any]]

CHAT = "openai.chat"
MESSAGES = "anthropic.messages"


def chat(text: str, **more: Any) -> dict[str, Any]:
    return {"model": "echo", "messages": [{"role": "user", "content": text}]} | more


@pytest.mark.parametrize(
    ("wire_format", "body", "param"),
    [
        (CHAT, b"{", None),
        (CHAT, b'{"model": "\xff"}', None),
        (CHAT, b'{"x":' + b"[" * 5000 + b"]" * 5000 + b"}", None),
        (CHAT, {"model": "echo"}, "messages"),
        (CHAT, {"model": "echo", "messages": []}, "messages"),
        (CHAT, {"model": "echo", "messages": [{"role": "nobody"}]}, "messages[0].role"),
        (CHAT, {"model": "echo", "messages": "Hi"}, "messages"),
        (CHAT, chat("Hi", max_tokens=0), "max_tokens"),
        (CHAT, chat("Hi", n=2), "n"),
        (CHAT, chat("Hi", stream_options={"include_usage": True}), "stream_options"),
        (CHAT, chat("Hi", tool_choice="required"), "tool_choice"),
        ("openai.completions", {"model": "echo"}, "prompt"),
        ("openai.completions", {"model": "echo", "prompt": ["a", "b"]}, "prompt"),
        ("openai.completions", {"model": "echo", "prompt": "a", "n": 3}, "n"),
        ("openai.responses", {"model": "echo"}, "input"),
        ("openai.responses", {"model": "echo", "input": []}, "input"),
        (
            "openai.responses",
            {"model": "echo", "input": "Hi", "previous_response_id": "resp_1"},
            "previous_response_id",
        ),
        ("openai.embeddings", {"model": "echo"}, "input"),
        ("openai.embeddings", {"model": "echo", "input": ""}, "input"),
        ("openai.embeddings", {"model": "echo", "input": []}, "input"),
        ("openai.embeddings", {"model": "echo", "input": "a", "dimensions": 0}, "dimensions"),
        (
            "openai.embeddings",
            {"model": "echo", "input": "a", "encoding_format": "hex"},
            "encoding_format",
        ),
    ],
)
async def test_bad_request_is_a_400_in_openai_shape_that_names_the_field(
    ask: Ask, wire_format: str, body: Any, param: str | None
) -> None:
    answer = await ask(wire_format, body)
    assert answer.status == 400
    error = answer.json["error"]
    assert error["type"] == "invalid_request_error"
    assert error["param"] == param
    assert error["message"]


@pytest.mark.parametrize(
    ("wire_format", "body", "named"),
    [
        (MESSAGES, b"{", "JSON"),
        (MESSAGES, chat("Hi"), "max_tokens"),
        (MESSAGES, chat("Hi", max_tokens=0), "max_tokens"),
        (MESSAGES, {"model": "echo", "max_tokens": 5}, "messages"),
        (
            MESSAGES,
            {"model": "e", "max_tokens": 5, "messages": [{"role": "system", "content": "x"}]},
            "role",
        ),
        (
            MESSAGES,
            chat("Hi", max_tokens=5, tool_choice={"type": "tool", "name": "weather"}),
            "weather",
        ),
        ("anthropic.count_tokens", {"model": "echo", "messages": []}, "messages"),
    ],
)
async def test_bad_request_is_a_400_in_anthropic_shape_that_names_the_field(
    ask: Ask, wire_format: str, body: Any, named: str
) -> None:
    answer = await ask(wire_format, body)
    assert answer.status == 400
    assert answer.json["type"] == "error"
    assert answer.json["error"]["type"] == "invalid_request_error"
    assert named in answer.json["error"]["message"]


@pytest.mark.parametrize(
    "text",
    [
        "!echo",
        "!echo hello",
        "!echo {",
        '!echo {"colour": 1}',
        '!echo {"status": 200}',
        '!echo {"words": -1}',
        '!echo {"delayMs": 700000}',
        '!echo {"text": "a"} and more',
        "!tool",
        "!tool nowhere {}",
    ],
)
async def test_directive_that_cannot_be_read_is_a_400(ask: Ask, text: str) -> None:
    answer = await ask(CHAT, chat(text))
    assert answer.status == 400
    assert text.split(maxsplit=1)[0] in answer.json["error"]["message"]


@pytest.mark.parametrize("text", ["!echoes", "!tools are here", "say !echo {}", "!"])
async def test_text_that_only_looks_like_a_directive_is_echoed(ask: Ask, text: str) -> None:
    answer = await ask(CHAT, chat(text))
    assert answer.json["choices"][0]["message"]["content"] == f"echo: {text}"


async def test_scripted_status_is_answered_with_its_message_and_retry_after(ask: Ask) -> None:
    text = '!echo {"status": 429, "retryAfter": 2, "message": "slow down"}'
    answer = await ask(CHAT, chat(text, stream=True), streamed=True)
    assert answer.status == 429
    assert answer.headers[b"retry-after"] == b"2"
    assert answer.headers[b"content-type"] == b"application/json"
    assert answer.json["error"]["type"] == "rate_limit_error"
    assert answer.json["error"]["message"] == "slow down"
    answer = await ask(MESSAGES, chat('!echo {"status": 529}', max_tokens=5))
    assert (answer.status, answer.json["error"]["type"]) == (529, "overloaded_error")
    assert b"retry-after" not in answer.headers


@pytest.mark.parametrize(("wanted", "given"), [(0, 0), (3, 3), (99, 6)])
async def test_scripted_break_leaves_a_stream_unfinished(ask: Ask, wanted: int, given: int) -> None:
    text = f'!echo {{"text": "a b c d", "breakAfter": {wanted}}}'
    answer = await ask(CHAT, chat(text, stream=True), streamed=True)
    assert answer.broke
    assert len(answer.chunks) == given


async def test_scripted_break_leaves_a_whole_answer_unfinished(ask: Ask) -> None:
    answer = await ask(CHAT, chat('!echo {"breakAfter": 1}'))
    assert (answer.broke, answer.chunks) == (True, [])


async def test_scripted_text_and_number_of_words_are_said(ask: Ask) -> None:
    said = await ask(CHAT, chat('!echo {"text": "Good morning"}'))
    assert said.json["choices"][0]["message"]["content"] == "Good morning"
    counted = await ask(CHAT, chat('!echo {"words": 3}'))
    assert counted.json["choices"][0]["message"]["content"] == "word-1 word-2 word-3"
    assert counted.json["usage"]["completion_tokens"] == 3


async def test_delays_are_those_of_the_directive_and_the_host(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    body = chat('!echo {"text": "a b", "delayMs": 800}', stream=True)
    answer = await ask(CHAT, body, streamed=True, latency_ms=250, chunk_delay_ms=40)
    assert slept == [0.25, 0.8] + [0.04] * (len(answer.chunks) - 1)


def test_delays_of_a_host_are_bounded() -> None:
    assert EchoHost.model_validate({"latencyMs": 5, "chunkDelayMs": 6}).chunk_delay_ms == 6
    for value in (-1, 600_001, "soon"):
        with pytest.raises(ValidationError):
            EchoHost.model_validate({"latencyMs": value})


def test_provider_is_local_and_defines_no_format_of_its_own() -> None:
    assert EchoProvider.local
    assert EchoProvider.defines == ()


def test_hooks_hand_over_the_provider_and_the_seed() -> None:
    assert relay_gateway_provider_echo.relay_register_upstream_providers() == (EchoProvider,)
    assert relay_gateway_provider_echo.relay_register_catalog_seeds() == (SEED,)


class TestSeed(CatalogSeedConformance):
    """The seed keeps what is promised of seeds."""

    @pytest.fixture
    def seed(self) -> CatalogSeed:
        return SEED

    def test_the_models_are_two_and_no_variable_is_looked_for(self) -> None:
        models = {entity.slug for entity in SEED.entities if entity.kind == "model"}
        assert models == {"echo", "echo-embedding"}
        assert SEED.environment_keys == ()
