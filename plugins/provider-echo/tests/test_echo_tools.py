"""Tool calls of echo in each wire format, whole and streamed, and what follows their results."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from anthropic.types import Message
from openai.types.chat import (
    ChatCompletion,
    ChatCompletionChunk,
    ChatCompletionMessageFunctionToolCall,
)
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from relay_gateway_provider_echo.reply import sample

Ask = Callable[..., Awaitable[Any]]

WEATHER: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "unit": {}},
    "required": ["city", "days"],
}


def chat(text: str, **more: Any) -> dict[str, Any]:
    return {"model": "echo", "messages": [{"role": "user", "content": text}]} | more


def messages(text: str, **more: Any) -> dict[str, Any]:
    return chat(text, max_tokens=1000) | more


def response(text: str, **more: Any) -> dict[str, Any]:
    return {"model": "echo", "input": text} | more


def chat_tools(name: str = "weather") -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": name, "parameters": WEATHER}}]


def response_tools(name: str = "weather") -> list[dict[str, Any]]:
    return [{"type": "function", "name": name, "parameters": WEATHER}]


def message_tools(name: str = "weather") -> list[dict[str, Any]]:
    return [{"name": name, "input_schema": WEATHER}]


@pytest.mark.parametrize(
    ("text", "choice", "arguments"),
    [
        ('!tool weather {"city": "Paris"}', "auto", {"city": "Paris"}),
        ("!tool weather", None, {"city": "!tool weather", "days": 0}),
        ("Paris", "required", {"city": "Paris", "days": 0}),
        (
            "Paris",
            {"type": "function", "function": {"name": "weather"}},
            {"city": "Paris", "days": 0},
        ),
    ],
)
async def test_chat_calls_a_tool_when_the_text_or_the_tool_choice_asks_for_it(
    ask: Ask, text: str, choice: Any, arguments: dict[str, Any]
) -> None:
    body = chat(text, tools=chat_tools(), tool_choice=choice)
    found = ChatCompletion.model_validate((await ask("openai.chat", body)).json, strict=True)
    assert found.choices[0].finish_reason == "tool_calls"
    assert found.choices[0].message.content is None
    (call,) = found.choices[0].message.tool_calls or []
    assert isinstance(call, ChatCompletionMessageFunctionToolCall)
    assert call.function.name == "weather"
    assert msgspec.json.decode(call.function.arguments) == arguments


async def test_chat_streams_the_arguments_of_a_tool_call(ask: Ask) -> None:
    body = chat('!tool weather {"city": "New York"}', tools=chat_tools(), stream=True)
    events = [event for _, event in (await ask("openai.chat", body, streamed=True)).events]
    chunks = [ChatCompletionChunk.model_validate(event, strict=True) for event in events]
    opening = (chunks[0].choices[0].delta.tool_calls or [])[0]
    assert opening.id is not None
    assert opening.function is not None
    assert (opening.function.name, opening.function.arguments) == ("weather", "")
    calls = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or ()]
    joined = "".join(call.function.arguments or "" for call in calls if call.function)
    assert msgspec.json.decode(joined) == {"city": "New York"}
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "weather"}])
async def test_response_calls_a_tool_whole_and_streamed(ask: Ask, choice: Any) -> None:
    body = response("Paris", tools=response_tools(), tool_choice=choice)
    (item,) = Response.model_validate((await ask("openai.responses", body)).json).output
    assert item.type == "function_call"
    assert msgspec.json.decode(item.arguments) == {"city": "Paris", "days": 0}
    streamed = await ask("openai.responses", body | {"stream": True}, streamed=True)
    adapter: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    events = [adapter.validate_python(event) for _, event in streamed.events]
    deltas = [event.delta for event in events if event.type.endswith("arguments.delta")]
    assert "".join(deltas) == events[-1].response.output[0].arguments == item.arguments


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "weather"}])
async def test_message_calls_a_tool_whole_and_streamed(ask: Ask, choice: Any) -> None:
    body = messages("Paris", tools=message_tools(), tool_choice=choice)
    found = Message.model_validate((await ask("anthropic.messages", body)).json)
    assert found.stop_reason == "tool_use"
    (block,) = found.content
    assert block.type == "tool_use"
    assert block.input == {"city": "Paris", "days": 0}
    events = (await ask("anthropic.messages", body | {"stream": True}, streamed=True)).events
    opening = events[1][1]["content_block"]
    assert (opening["type"], opening["name"], opening["input"]) == ("tool_use", "weather", {})
    parts = [
        event["delta"]["partial_json"]
        for name, event in events
        if name.endswith("_delta") and "partial_json" in event["delta"]
    ]
    assert parts[0] == ""
    assert msgspec.json.decode("".join(parts)) == block.input


async def test_no_tool_is_called_where_none_may_be(ask: Ask) -> None:
    body = chat("!tool weather", tools=chat_tools(), tool_choice="none")
    found = (await ask("openai.chat", body)).json
    assert found["choices"][0]["message"]["content"] == "echo: !tool weather"


@pytest.mark.parametrize(
    ("wire_format", "body", "path"),
    [
        (
            "openai.chat",
            {
                "model": "echo",
                "messages": [
                    {"role": "user", "content": "!tool weather"},
                    {"role": "assistant", "content": None, "tool_calls": []},
                    {"role": "tool", "tool_call_id": "c", "content": '!echo {"status": 500}'},
                ],
                "tools": chat_tools(),
            },
            ("choices", 0, "message", "content"),
        ),
        (
            "openai.responses",
            {
                "model": "echo",
                "input": [
                    {"role": "user", "content": [{"type": "input_text", "text": "!tool weather"}]},
                    {"type": "function_call", "call_id": "c", "name": "weather", "arguments": "{}"},
                    {
                        "type": "function_call_output",
                        "call_id": "c",
                        "output": '!echo {"status": 500}',
                    },
                ],
                "tools": response_tools(),
            },
            ("output", 0, "content", 0, "text"),
        ),
        (
            "anthropic.messages",
            {
                "model": "echo",
                "max_tokens": 100,
                "messages": [
                    {"role": "user", "content": "!tool weather"},
                    {
                        "role": "assistant",
                        "content": [
                            {"type": "tool_use", "id": "t", "name": "weather", "input": {}}
                        ],
                    },
                    {
                        "role": "user",
                        "content": [
                            {
                                "type": "tool_result",
                                "tool_use_id": "t",
                                "content": [{"type": "text", "text": '!echo {"status": 500}'}],
                            }
                        ],
                    },
                ],
                "tools": message_tools(),
            },
            ("content", 0, "text"),
        ),
    ],
)
async def test_result_of_a_tool_is_echoed_and_never_read_as_a_directive(
    ask: Ask, wire_format: str, body: Any, path: tuple[str | int, ...]
) -> None:
    found = (await ask(wire_format, body)).json
    for step in path:
        found = found[step]
    assert found == 'echo: !echo {"status": 500}'


def test_sample_arguments_fit_the_required_part_of_a_schema() -> None:
    schema = {
        "type": "object",
        "properties": {
            "color": {"enum": ["red", "blue"]},
            "place": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
            "tags": {"type": "array"},
            "sure": {"type": "boolean"},
            "note": {"type": "string"},
            "extra": {"type": "string"},
            "any": {"type": ["string", "null"]},
        },
        "required": ["color", "place", "tags", "sure", "note", "any"],
    }
    assert sample(schema, "said") == {
        "color": "red",
        "place": {"x": 0},
        "tags": [],
        "sure": True,
        "note": "said",
        "any": "said",
    }
    assert sample({"type": "object"}, "said") == {}
