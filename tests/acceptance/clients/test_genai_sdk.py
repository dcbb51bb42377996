"""The official Google client against hosts of every wire format."""

from __future__ import annotations

import base64
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from relay_gateway.testing.conversations import PIXEL
from relay_gateway.testing.polyglot import Polyglot
from relay_gateway.testing.speakers.scene import ARGUMENTS, GREETING, SIGNATURE

with warnings.catch_warnings():
    # On newer Python this SDK names things of the standard library that are on their way out.
    warnings.simplefilter("ignore", DeprecationWarning)
    from google import genai
    from google.genai import errors, types


class Place(BaseModel):
    city: str
    degrees: int


DECLARATIONS = [
    types.FunctionDeclaration(
        name=name,
        description=name,
        parameters_json_schema={"type": "object", "properties": {"city": {"type": "string"}}},
    )
    for name in ("get_weather", "get_time")
]
WITH_TOOLS = types.GenerateContentConfig(
    tools=[types.Tool(function_declarations=DECLARATIONS)],
    automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
)


@pytest.fixture
def client(gateway: Polyglot) -> Iterator[genai.Client]:
    options = types.HttpOptions(base_url=gateway.url)
    client = genai.Client(api_key=gateway.relay_key, vertexai=False, http_options=options)
    yield client
    client.close()


def test_contents_are_generated_at_once_and_in_pieces(client: genai.Client, model: str) -> None:
    whole = client.models.generate_content(model=model, contents="Hello")
    assert whole.text == GREETING
    assert whole.usage_metadata is not None
    assert whole.usage_metadata.total_token_count == 29
    pieces = list(client.models.generate_content_stream(model=model, contents="Hello"))
    assert "".join(piece.text or "" for piece in pieces) == GREETING
    assert len(pieces) > 1


def test_tools_and_thoughts_make_the_round(client: genai.Client, model: str) -> None:
    question = types.Content(role="user", parts=[types.Part(text="think")])
    chunks = client.models.generate_content_stream(
        model=model, contents=[question], config=WITH_TOOLS
    )
    parts = [part for chunk in chunks for part in chunk.parts or ()]
    calls = [part.function_call for part in parts if part.function_call is not None]
    assert {call.name: call.args for call in calls} == ARGUMENTS
    results = [
        types.Part(
            function_response=types.FunctionResponse(
                id=call.id, name=call.name, response={"result": "fine"}
            )
        )
        for call in calls
    ]
    turns: Any = [
        question,
        types.Content(role="model", parts=parts),
        types.Content(role="user", parts=results),
    ]
    again = client.models.generate_content(model=model, contents=turns, config=WITH_TOOLS)
    assert again.text is not None
    # This client writes the bytes of a signature in the alphabet for URLs.
    assert again.text.replace("-", "+") == f"Tools say: fine; fine. Signed {SIGNATURE}."


def test_pictures_and_schemas(client: genai.Client, model: str) -> None:
    picture = types.Part.from_bytes(data=base64.b64decode(PIXEL), mime_type="image/png")
    seen = client.models.generate_content(model=model, contents=["Look", picture])
    assert seen.text == "I see image/png."
    config = types.GenerateContentConfig(
        response_mime_type="application/json", response_schema=Place
    )
    parsed = client.models.generate_content(model=model, contents="Where", config=config)
    assert parsed.parsed == Place(city="Bern", degrees=21)


@pytest.mark.parametrize("status", [400, 404, 429, 500, 401])
def test_errors_have_their_classes(client: genai.Client, model: str, status: int) -> None:
    kind = errors.ClientError if status in (400, 404, 429) else errors.ServerError
    with pytest.raises(kind) as raised:
        client.models.generate_content(model=model, contents=f"fail {status}")
    assert raised.value.code == (502 if status == 401 else status)


@pytest.mark.parametrize("trouble", ["cut", "reset", "late error"])
def test_a_broken_stream_raises(client: genai.Client, model: str, trouble: str) -> None:
    with pytest.raises(Exception, match=r"broke off|told to fail|incomplete|peer closed"):
        list(client.models.generate_content_stream(model=model, contents=trouble))


async def test_the_asynchronous_client_streams_and_cancels(
    gateway: Polyglot, client: genai.Client, model: str
) -> None:
    stream = await client.aio.models.generate_content_stream(model=model, contents="Hello")
    assert "".join([piece.text or "" async for piece in stream]) == GREETING
    stream = await client.aio.models.generate_content_stream(model=model, contents="hang")
    async for _ in stream:
        break
    await stream.aclose()  # type: ignore[attr-defined]  # an asynchronous generator, in fact
    await client.aio.aclose()
    cancellation = gateway.run(gateway.upstream.wait_for_cancellation())
    assert cancellation.request is gateway.ledger[-1]
    gateway.upstream.cancellations.clear()
