"""Agents of Pydantic AI over each of its models."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from typing import Any

from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.google import GoogleProvider
from pydantic_ai.providers.openai import OpenAIProvider
from scene import KEY, PIXEL, URL, for_each_model, leave, run


class Place(BaseModel):
    city: str
    degrees: int


def openai_provider() -> OpenAIProvider:
    return OpenAIProvider(base_url=f"{URL}/v1", api_key=KEY)


MODELS: dict[str, Callable[[str], Model]] = {
    "pydantic-ai-chat": lambda name: OpenAIChatModel(name, provider=openai_provider()),
    "pydantic-ai-responses": lambda name: OpenAIResponsesModel(name, provider=openai_provider()),
    "pydantic-ai-messages": lambda name: AnthropicModel(
        name, provider=AnthropicProvider(base_url=URL, api_key=KEY)
    ),
    "pydantic-ai-google": lambda name: GoogleModel(
        name, provider=GoogleProvider(base_url=URL, api_key=KEY)
    ),
}


def scenarios(make: Callable[[str], Model]) -> dict[str, Callable[[str], Any]]:
    async def streamed(model: str, text: str) -> str:
        async with Agent(make(model)).run_stream(text) as run:
            return "".join([piece async for piece in run.stream_text(delta=True, debounce_by=None)])

    async def hanging(model: str) -> AsyncIterator[str]:
        async with Agent(make(model)).run_stream("hang") as run:
            async for piece in run.stream_text(delta=True, debounce_by=None):
                yield piece

    async def tools(model: str) -> Any:
        agent = Agent(make(model))

        @agent.tool_plain
        def get_weather(city: str, days: list[Any]) -> str:
            """The weather of a city."""
            return "fine"

        @agent.tool_plain
        def get_time(zone: str) -> str:
            """The time in a zone."""
            return "fine"

        return (await agent.run("Both")).output

    async def vision(model: str) -> str:
        picture = BinaryContent(base64.b64decode(PIXEL), media_type="image/png")
        return (await Agent(make(model)).run(["Look", picture])).output

    async def schema(model: str) -> Any:
        agent = Agent(make(model), output_type=Place)
        return (await agent.run("Where")).output.model_dump()

    async def said(model: str, text: str) -> str:
        return (await Agent(make(model)).run(text)).output

    return {
        "chat": lambda model: run(said(model, "Hello")),
        "stream": lambda model: run(streamed(model, "Hello")),
        "answered_tools": lambda model: run(tools(model)),
        "vision": lambda model: run(vision(model)),
        "schema": lambda model: run(schema(model)),
        "error_400": lambda model: run(said(model, "fail 400")),
        "cancelled": lambda model: run(leave(hanging(model))),
        "broken": lambda model: run(streamed(model, "cut")),
    }


for client, make in MODELS.items():
    for_each_model(client, scenarios(make))
