"""LiteLLM as a client, in each of the formats that it can speak to an address of one's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import litellm
from scene import KEY, PICTURE, URL, for_each_model, leave, report, run

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": name,
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
    for name in ("get_weather", "get_time")
]
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "degrees": {"type": "integer"}},
    "required": ["city", "degrees"],
    "additionalProperties": False,
}


def scenarios(prefix: str, base: str) -> dict[str, Callable[[str], Any]]:
    def ask(model: str, content: Any, **more: Any) -> Any:
        turns = content if isinstance(content, list) and "role" in content[0] else None
        return litellm.completion(
            model=f"{prefix}/{model}",
            messages=turns or [{"role": "user", "content": content}],
            api_base=base,
            api_key=KEY,
            num_retries=0,
            **more,
        )

    def text(answer: Any) -> Any:
        return answer.choices[0].message.content

    def streamed(model: str, content: str) -> str:
        pieces = ask(model, content, stream=True)
        return "".join(piece.choices[0].delta.content or "" for piece in pieces)

    def tools(model: str) -> Any:
        turns: list[Any] = [{"role": "user", "content": "Both"}]
        message = ask(model, turns, tools=TOOLS).choices[0].message
        results = [
            {"role": "tool", "tool_call_id": call.id, "content": "fine"}
            for call in message.tool_calls
        ]
        again = ask(model, [*turns, message.model_dump(), *results], tools=TOOLS)
        calls = {
            call.function.name: json.loads(call.function.arguments) for call in message.tool_calls
        }
        return [calls, text(again)]

    def vision(model: str) -> Any:
        picture = {"type": "image_url", "image_url": {"url": PICTURE}}
        return text(ask(model, [{"type": "text", "text": "Look"}, picture]))

    async def later(model: str, content: str = "Hello", **more: Any) -> Any:
        return await litellm.acompletion(
            model=f"{prefix}/{model}",
            messages=[{"role": "user", "content": content}],
            api_base=base,
            api_key=KEY,
            **more,
        )

    async def left(model: str) -> str:
        return await leave(await later(model, "hang", stream=True))

    def schema(model: str) -> Any:
        wanted = {"name": "place", "schema": SCHEMA, "strict": True}
        form = {"type": "json_schema", "json_schema": wanted}
        return json.loads(text(ask(model, "Where", response_format=form)))

    return {
        "chat": lambda model: text(ask(model, "Hello")),
        "stream": lambda model: streamed(model, "Hello"),
        "async": lambda model: text(run(later(model))),
        "tools": tools,
        "vision": vision,
        "schema": schema,
        "error_400": lambda model: text(ask(model, "fail 400")),
        "error_404": lambda model: text(ask(model, "fail 404")),
        "cancelled": lambda model: run(left(model)),
        "broken": lambda model: streamed(model, "cut"),
    }


litellm.suppress_debug_info = True
for_each_model("litellm-chat", scenarios("openai", f"{URL}/v1"))
for_each_model("litellm-messages", scenarios("anthropic", URL))
embedded = {"model": "openai/chat", "input": ["Hi"], "api_base": f"{URL}/v1", "api_key": KEY}
report(
    "litellm-chat",
    "chat",
    "embeddings",
    lambda _: litellm.embedding(**embedded, encoding_format="float").data[0]["embedding"],
)
