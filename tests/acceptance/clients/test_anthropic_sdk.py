"""The official Anthropic client against hosts of every wire format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from pydantic import BaseModel

from relay_gateway.testing.conversations import PDF, PIXEL, SCHEMA
from relay_gateway.testing.polyglot import Polyglot
from relay_gateway.testing.speakers.scene import ARGUMENTS, GREETING, SIGNATURE, THOUGHT

TOOLS: Any = [
    {"name": name, "description": name, "input_schema": SCHEMA}
    for name in ("get_weather", "get_time")
]


class Place(BaseModel):
    city: str
    degrees: int


@pytest.fixture
def client(gateway: Polyglot) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(
        base_url=gateway.url, api_key=gateway.relay_key, max_retries=0
    ) as client:
        yield client


def asked(model: str, content: Any, **more: Any) -> Any:
    messages = [{"role": "user", "content": content}]
    return {"model": model, "max_tokens": 4096, "messages": messages, **more}


def texts(message: Any) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


def test_messages_answer_at_once_and_in_pieces(client: anthropic.Anthropic, model: str) -> None:
    whole = client.messages.create(**asked(model, "Hello"))
    assert (texts(whole), whole.stop_reason) == (GREETING, "end_turn")
    assert (whole.usage.input_tokens, whole.usage.cache_read_input_tokens) == (15, 5)
    with client.messages.stream(**asked(model, "Hello")) as stream:
        pieces = list(stream.text_stream)
        last = stream.get_final_message()
    assert "".join(pieces) == GREETING
    assert (last.stop_reason, last.usage.output_tokens) == ("end_turn", 9)


def test_tools_and_thinking_make_the_round(client: anthropic.Anthropic, model: str) -> None:
    thinking = {"type": "enabled", "budget_tokens": 1024}
    first = asked(model, "think", tools=TOOLS, thinking=thinking)
    with client.messages.stream(**first) as stream:
        answer = stream.get_final_message()
    assert answer.stop_reason == "tool_use"
    calls = [block for block in answer.content if block.type == "tool_use"]
    assert {call.name: call.input for call in calls} == ARGUMENTS
    thoughts = [block.thinking for block in answer.content if block.type == "thinking"]
    assert "".join(thoughts) == THOUGHT
    results = [{"type": "tool_result", "tool_use_id": call.id, "content": "fine"} for call in calls]
    blocks = [block.to_dict() for block in answer.content]
    first["messages"] += [
        {"role": "assistant", "content": blocks},
        {"role": "user", "content": results},
    ]
    again = client.messages.create(**first)
    assert texts(again) == f"Tools say: fine; fine. Signed {SIGNATURE}."


def test_pictures_documents_and_schemas(client: anthropic.Anthropic, model: str) -> None:
    content = [
        {"type": "text", "text": "Look"},
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
        },
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
        },
    ]
    seen = client.messages.create(**asked(model, content))
    assert texts(seen) == "I see image/png, application/pdf."
    parsed = client.messages.parse(**asked(model, "Where", output_format=Place))
    assert parsed.parsed_output == Place(city="Bern", degrees=21)


ERRORS: list[tuple[int, type[anthropic.APIStatusError]]] = [
    (400, anthropic.BadRequestError),
    (404, anthropic.NotFoundError),
    (429, anthropic.RateLimitError),
    (500, anthropic.InternalServerError),
    (529, anthropic.APIStatusError),
    (401, anthropic.InternalServerError),  # of the host's credential, which is not the caller's
]


@pytest.mark.parametrize(("status", "kind"), ERRORS)
def test_errors_have_their_classes(
    client: anthropic.Anthropic, model: str, status: int, kind: type[anthropic.APIStatusError]
) -> None:
    with pytest.raises(kind) as raised:
        client.messages.create(**asked(model, f"fail {status}"))
    assert raised.value.status_code == (502 if status == 401 else status)
    assert isinstance(raised.value.body, dict)
    assert raised.value.body["type"] == "error"


@pytest.mark.parametrize("trouble", ["cut", "reset", "late error"])
def test_a_broken_stream_raises(client: anthropic.Anthropic, model: str, trouble: str) -> None:
    with (
        pytest.raises(anthropic.APIError),
        client.messages.stream(**asked(model, trouble)) as stream,
    ):
        stream.until_done()


async def test_the_asynchronous_client_streams_and_cancels(gateway: Polyglot, model: str) -> None:
    async with anthropic.AsyncAnthropic(
        base_url=gateway.url, auth_token=gateway.relay_key, max_retries=0
    ) as client:
        async with client.messages.stream(**asked(model, "Hello")) as stream:
            assert "".join([text async for text in stream.text_stream]) == GREETING
        async with client.messages.stream(**asked(model, "hang")) as stream:
            async for _ in stream:
                break
    cancellation = gateway.run(gateway.upstream.wait_for_cancellation())
    assert cancellation.request is gateway.ledger[-1]
    gateway.upstream.cancellations.clear()
