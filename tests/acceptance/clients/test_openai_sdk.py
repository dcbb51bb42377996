"""The official OpenAI client against hosts of every wire format: Chat Completions and Responses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from relay_gateway.testing.conversations import PIXEL, SCHEMA
from relay_gateway.testing.polyglot import Polyglot
from relay_gateway.testing.speakers import EMBEDDING
from relay_gateway.testing.speakers.scene import ARGUMENTS, GREETING, SIGNATURE

PICTURE = f"data:image/png;base64,{PIXEL}"
FUNCTIONS: Any = [
    {"name": name, "description": name, "parameters": SCHEMA}
    for name in ("get_weather", "get_time")
]
TOOLS: Any = [{"type": "function", "function": one} for one in FUNCTIONS]
FLAT_TOOLS: Any = [{"type": "function", "strict": False} | one for one in FUNCTIONS]


class Place(BaseModel):
    city: str
    degrees: int


@pytest.fixture
def client(gateway: Polyglot) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{gateway.url}/v1", api_key=gateway.relay_key, max_retries=0
    ) as client:
        yield client


def said(text: Any) -> Any:
    return [{"role": "user", "content": text}]


def test_chat_answers_at_once_and_in_pieces(client: openai.OpenAI, model: str) -> None:
    whole = client.chat.completions.create(model=model, messages=said("Hello"))
    assert whole.choices[0].message.content == GREETING
    assert whole.usage is not None
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (20, 9)
    chunks = list(
        client.chat.completions.create(
            model=model,
            messages=said("Hello"),
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    pieces = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(pieces) == GREETING
    assert len([piece for piece in pieces if piece]) > 1
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 29


def test_chat_tools_make_the_round(client: openai.OpenAI, model: str) -> None:
    messages = said("think")
    answer = client.chat.completions.create(model=model, messages=messages, tools=TOOLS)
    message = answer.choices[0].message
    assert answer.choices[0].finish_reason == "tool_calls"
    calls = message.tool_calls or []
    functions: list[Any] = [call.function for call in calls if call.type == "function"]
    assert {one.name: json.loads(one.arguments) for one in functions} == ARGUMENTS
    results: Any = [{"role": "tool", "tool_call_id": call.id, "content": "fine"} for call in calls]
    turns = [*messages, message.to_dict(), *results]
    again = client.chat.completions.create(model=model, messages=turns, tools=TOOLS)
    # The client keeps members it does not know, so the signature comes back.
    assert again.choices[0].message.content == f"Tools say: fine; fine. Signed {SIGNATURE}."


def test_chat_tools_are_streamed_by_the_clients_own_accumulator(
    client: openai.OpenAI, model: str
) -> None:
    with client.chat.completions.stream(model=model, messages=said("Both"), tools=TOOLS) as stream:
        kinds = {event.type for event in stream}
        message = stream.get_final_completion().choices[0].message
    assert "tool_calls.function.arguments.delta" in kinds
    calls = [call.function for call in message.tool_calls or ()]
    assert {one.name: json.loads(one.arguments) for one in calls} == ARGUMENTS


def test_chat_sees_pictures_and_answers_in_a_schema(client: openai.OpenAI, model: str) -> None:
    content = [
        {"type": "text", "text": "Look"},
        {"type": "image_url", "image_url": {"url": PICTURE}},
    ]
    seen = client.chat.completions.create(model=model, messages=said(content))
    assert seen.choices[0].message.content == "I see image/png."
    parsed = client.chat.completions.parse(
        model=model, messages=said("Where"), response_format=Place
    )
    assert parsed.choices[0].message.parsed == Place(city="Bern", degrees=21)


def test_responses_answer_at_once_and_in_pieces(client: openai.OpenAI, model: str) -> None:
    whole = client.responses.create(model=model, input="Hello", store=False)
    assert (whole.status, whole.output_text) == ("completed", GREETING)
    assert whole.usage is not None
    assert whole.usage.total_tokens == 29
    with client.responses.stream(model=model, input="Hello", store=False) as stream:
        text = "".join(e.delta for e in stream if e.type == "response.output_text.delta")
        assert (text, stream.get_final_response().output_text) == (GREETING, GREETING)


def test_responses_tools_make_the_round(client: openai.OpenAI, model: str) -> None:
    asked: Any = {"model": model, "tools": FLAT_TOOLS, "store": False}
    asked["include"] = ["reasoning.encrypted_content"]
    turns = said("think")
    with client.responses.stream(input=turns, **asked) as stream:
        for _ in stream:
            pass
        answer = stream.get_final_response()
    calls = [item for item in answer.output if item.type == "function_call"]
    assert {call.name: json.loads(call.arguments) for call in calls} == ARGUMENTS
    turns += [item.to_dict() for item in answer.output]
    turns += [
        {"type": "function_call_output", "call_id": call.call_id, "output": "fine"}
        for call in calls
    ]
    again = client.responses.create(input=turns, **asked)
    assert again.output_text == f"Tools say: fine; fine. Signed {SIGNATURE}."


def test_responses_see_pictures_and_answer_in_a_schema(client: openai.OpenAI, model: str) -> None:
    content = [
        {"type": "input_text", "text": "Look"},
        {"type": "input_image", "image_url": PICTURE, "detail": "auto"},
    ]
    seen = client.responses.create(model=model, input=said(content), store=False)
    assert seen.output_text == "I see image/png."
    parsed = client.responses.parse(model=model, input="Where", text_format=Place, store=False)
    assert parsed.output_parsed == Place(city="Bern", degrees=21)


ERRORS: list[tuple[int, type[openai.APIStatusError]]] = [
    (400, openai.BadRequestError),
    (404, openai.NotFoundError),
    (429, openai.RateLimitError),
    (500, openai.InternalServerError),
    (401, openai.InternalServerError),  # of the host's credential, which is not the caller's
]


@pytest.mark.parametrize(("status", "kind"), ERRORS)
def test_errors_have_their_classes(
    client: openai.OpenAI, model: str, status: int, kind: type[openai.APIStatusError]
) -> None:
    with pytest.raises(kind) as raised:
        client.chat.completions.create(model=model, messages=said(f"fail {status}"))
    assert raised.value.status_code == (502 if status == 401 else status)
    if status != 401:
        assert f"told to fail with {status}" in raised.value.message


@pytest.mark.parametrize("trouble", ["cut", "reset", "late error"])
def test_a_broken_stream_raises(client: openai.OpenAI, model: str, trouble: str) -> None:
    stream = client.chat.completions.create(model=model, messages=said(trouble), stream=True)
    with pytest.raises(openai.APIError):
        list(stream)
    with (
        client.responses.stream(model=model, input=trouble, store=False) as events,
        pytest.raises((openai.APIError, RuntimeError)),
    ):
        events.get_final_response()


def test_embeddings_come_from_a_host_that_has_them(client: openai.OpenAI) -> None:
    found = client.embeddings.create(model="chat", input=["one", "two"])
    assert [one.embedding for one in found.data] == [EMBEDDING, EMBEDDING]


async def test_the_asynchronous_client_streams_and_cancels(gateway: Polyglot, model: str) -> None:
    async with openai.AsyncOpenAI(
        base_url=f"{gateway.url}/v1", api_key=gateway.relay_key, max_retries=0
    ) as client:
        stream = await client.chat.completions.create(
            model=model, messages=said("Hello"), stream=True
        )
        pieces = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
        assert "".join(pieces) == GREETING
        stream = await client.chat.completions.create(
            model=model, messages=said("hang"), stream=True
        )
        async for _ in stream:
            break
        await stream.close()
    cancellation = gateway.run(gateway.upstream.wait_for_cancellation())
    assert cancellation.request is gateway.ledger[-1]
    gateway.upstream.cancellations.clear()
