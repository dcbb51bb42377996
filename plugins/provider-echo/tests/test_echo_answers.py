"""What echo answers in each wire format: whole, streamed, and cut at a limit."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from anthropic.types import Message, MessageTokensCount, RawMessageStreamEvent
from hypothesis import given
from hypothesis import strategies as st
from openai.types import CreateEmbeddingResponse
from openai.types.chat import (
    ChatCompletion,
    ChatCompletionChunk,
)
from openai.types.completion import Completion
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from relay_gateway_provider_echo.words import count_words, pieces_of

Ask = Callable[..., Awaitable[Any]]


def chat(text: str, **more: Any) -> dict[str, Any]:
    return {"model": "echo", "messages": [{"role": "user", "content": text}]} | more


def messages(text: str, **more: Any) -> dict[str, Any]:
    return chat(text, max_tokens=1000) | more


def response(text: str, **more: Any) -> dict[str, Any]:
    return {"model": "echo", "input": text} | more


def completion(text: str, **more: Any) -> dict[str, Any]:
    return {"model": "echo", "prompt": text} | more


async def test_chat_completion_is_as_the_sdk_expects_it(ask: Ask) -> None:
    answer = await ask("openai.chat", chat("Hello there"))
    assert answer.status == 200
    assert answer.headers[b"content-type"] == b"application/json"
    assert answer.headers[b"content-length"] == b"%d" % len(answer.chunks[0])
    found = ChatCompletion.model_validate(answer.json, strict=True)
    assert found.choices[0].message.content == "echo: Hello there"
    assert found.choices[0].finish_reason == "stop"
    assert found.created == 1_790_000_000
    assert found.usage is not None
    assert (found.usage.prompt_tokens, found.usage.completion_tokens) == (2, 3)


async def test_chat_stream_says_one_word_per_chunk_and_ends_with_done(ask: Ask) -> None:
    answer = await ask("openai.chat", chat("Hello there", stream=True), streamed=True)
    assert answer.headers[b"content-type"] == b"text/event-stream; charset=utf-8"
    assert answer.chunks[-1] == b"data: [DONE]\n\n"
    events = [event for _, event in answer.events]
    assert not any("usage" in event for event in events)
    chunks = [ChatCompletionChunk.model_validate(event, strict=True) for event in events]
    deltas = [chunk.choices[0].delta for chunk in chunks]
    assert deltas[0].role == "assistant"
    assert [delta.content for delta in deltas] == ["", "echo:", " Hello", " there", None]
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * 4 + ["stop"]


async def test_chat_stream_carries_usage_only_in_its_last_chunk_and_only_if_asked(ask: Ask) -> None:
    body = chat("Hello there", stream=True, stream_options={"include_usage": True})
    answer = await ask("openai.chat", body, streamed=True)
    *others, last = [event for _, event in answer.events]
    assert last["choices"] == []
    assert last["usage"]["total_tokens"] == 5
    assert all(event["usage"] is None and event["choices"] for event in others)


async def test_completion_is_answered_whole_and_streamed(ask: Ask) -> None:
    whole = Completion.model_validate((await ask("openai.completions", completion("Hi"))).json)
    assert whole.choices[0].text == "echo: Hi"
    body = completion("Hi", stream=True, stream_options={"include_usage": True})
    streamed = await ask("openai.completions", body, streamed=True)
    events = [event for _, event in streamed.events]
    texts = [choice["text"] for event in events for choice in event["choices"]]
    assert "".join(texts) == "echo: Hi"
    assert (events[-1]["choices"], events[-1]["usage"]["completion_tokens"]) == ([], 2)
    assert streamed.chunks[-1] == b"data: [DONE]\n\n"


async def test_response_is_as_the_sdk_expects_it(ask: Ask) -> None:
    answer = await ask("openai.responses", response("Hello there", instructions="Be brief"))
    found = Response.model_validate(answer.json)
    assert found.output_text == "echo: Hello there"
    assert found.status == "completed"
    assert found.usage is not None
    assert (found.usage.input_tokens, found.usage.output_tokens) == (4, 3)


async def test_response_stream_has_the_events_of_the_api_in_their_order(ask: Ask) -> None:
    answer = await ask("openai.responses", response("Hi", stream=True), streamed=True)
    adapter: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    events = [adapter.validate_python(event) for _, event in answer.events]
    assert [event.type for event in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [name for name, _ in answer.events] == [event.type for event in events]
    assert [event.sequence_number for event in events] == list(range(10))
    assert events[0].response.usage is None
    assert events[-1].response.output_text == "echo: Hi"


async def test_message_is_as_the_sdk_expects_it(ask: Ask) -> None:
    answer = await ask("anthropic.messages", messages("Hello there", system="Be brief"))
    found = Message.model_validate(answer.json)
    assert [block.to_dict() for block in found.content] == [
        {"type": "text", "text": "echo: Hello there"}
    ]
    assert found.stop_reason == "end_turn"
    assert (found.usage.input_tokens, found.usage.output_tokens) == (4, 3)


async def test_message_stream_has_the_events_of_the_api_in_their_order(ask: Ask) -> None:
    answer = await ask("anthropic.messages", messages("Hi", stream=True), streamed=True)
    assert [name for name, _ in answer.events] == [
        "message_start",
        "content_block_start",
        "ping",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    adapter: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
    events = [adapter.validate_python(event) for name, event in answer.events if name != "ping"]
    assert events[0].message.usage.input_tokens == 1
    assert [events[index].delta.text for index in (2, 3)] == ["echo:", " Hi"]
    assert events[5].delta.stop_reason == "end_turn"
    assert events[5].usage.output_tokens == 2


async def test_counted_tokens_are_those_that_the_message_then_uses(ask: Ask) -> None:
    body = chat("one two three", system=[{"type": "text", "text": "four five"}])
    answer = await ask("anthropic.count_tokens", body, streamed=True)
    assert MessageTokensCount.model_validate(answer.json).input_tokens == 5


@pytest.mark.parametrize(
    ("wire_format", "body", "path", "wanted"),
    [
        ("openai.chat", chat("a b c", max_tokens=2), ("choices", 0, "finish_reason"), "length"),
        (
            "openai.chat",
            chat("a b c", max_completion_tokens=2, max_tokens=9),
            ("choices", 0, "finish_reason"),
            "length",
        ),
        (
            "openai.completions",
            completion("a b", max_tokens=1),
            ("choices", 0, "finish_reason"),
            "length",
        ),
        (
            "openai.responses",
            response("a b", max_output_tokens=1),
            ("incomplete_details", "reason"),
            "max_output_tokens",
        ),
        ("openai.responses", response("a b", max_output_tokens=1), ("status",), "incomplete"),
        ("anthropic.messages", messages("a b", max_tokens=1), ("stop_reason",), "max_tokens"),
    ],
)
async def test_answer_ends_at_the_limit_and_says_so(
    ask: Ask, wire_format: str, body: Any, path: tuple[str | int, ...], wanted: str
) -> None:
    found = (await ask(wire_format, body)).json
    for step in path:
        found = found[step]
    assert found == wanted


async def test_stream_of_a_response_cut_at_the_limit_ends_as_incomplete(ask: Ask) -> None:
    body = response("a b", max_output_tokens=1, stream=True)
    name, event = (await ask("openai.responses", body, streamed=True)).events[-1]
    assert name == "response.incomplete"
    assert event["response"]["usage"]["output_tokens"] == 1


async def test_last_user_message_is_answered_and_all_of_them_are_counted(ask: Ask) -> None:
    body = {
        "model": "echo",
        "messages": [
            {"role": "system", "content": "one two"},
            {"role": "user", "content": "three"},
            {"role": "assistant", "content": "four"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "five six"},
                    {"type": "image_url", "image_url": {"url": "data:,"}},
                ],
            },
        ],
    }
    found = (await ask("openai.chat", body)).json
    assert found["choices"][0]["message"]["content"] == "echo: five six"
    assert found["usage"]["prompt_tokens"] == 6


async def test_same_request_gets_the_same_bytes_and_another_request_another_id(ask: Ask) -> None:
    first, again, other = [await ask("openai.chat", chat(text)) for text in ("a", "a", "b")]
    assert first.chunks == again.chunks
    assert first.json["id"] != other.json["id"]


async def test_embeddings_are_unit_vectors_in_both_encodings(ask: Ask) -> None:
    body = {"model": "echo-embedding", "input": ["one two", "three"], "dimensions": 8}
    plain = CreateEmbeddingResponse.model_validate((await ask("openai.embeddings", body)).json)
    assert [len(item.embedding) for item in plain.data] == [8, 8]
    assert plain.data[0].embedding != plain.data[1].embedding
    for item in plain.data:
        assert math.isclose(math.hypot(*item.embedding), 1, abs_tol=1e-6)
    assert (plain.usage.prompt_tokens, plain.usage.total_tokens) == (3, 3)
    encoded = (await ask("openai.embeddings", body | {"encoding_format": "base64"})).json
    for item, raw in zip(plain.data, encoded["data"], strict=True):
        assert list(struct.unpack("<8f", base64.b64decode(raw["embedding"]))) == item.embedding


@pytest.mark.parametrize(
    ("value", "vectors", "tokens"),
    [("one two", 1, 2), ([1, 2, 3], 1, 3), ([[1, 2], [3]], 2, 3), (["a"], 1, 1)],
)
async def test_embeddings_take_texts_and_tokens(
    ask: Ask, value: Any, vectors: int, tokens: int
) -> None:
    found = (await ask("openai.embeddings", {"model": "e", "input": value}, streamed=True)).json
    assert [len(item["embedding"]) for item in found["data"]] == [256] * vectors
    assert found["usage"]["prompt_tokens"] == tokens


@given(text=st.text())
def test_pieces_join_to_the_text_and_are_as_many_as_its_words(text: str) -> None:
    pieces = pieces_of(text)
    assert "".join(pieces) == text
    assert len(pieces) == (count_words([text]) or (1 if text else 0))
