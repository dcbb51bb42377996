"""LangChain's two chat models: of Chat Completions or Responses, and of Messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel
from scene import KEY, PICTURE, URL, for_each_model, leave, report, run


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"{city} is fine"


@tool
def get_time(zone: str) -> str:
    """The time in a zone."""
    return f"{zone} is fine"


class Place(BaseModel):
    """Where something is."""

    city: str
    degrees: int


def chat(model: str) -> BaseChatModel:
    return ChatOpenAI(model=model, base_url=f"{URL}/v1", api_key=KEY, max_retries=0)


def responses(model: str) -> BaseChatModel:
    return ChatOpenAI(
        model=model,
        base_url=f"{URL}/v1",
        api_key=KEY,
        max_retries=0,
        use_responses_api=True,
        store=False,
        include=["reasoning.encrypted_content"],
    )


def messages(model: str) -> BaseChatModel:
    return ChatAnthropic(model=model, base_url=URL, api_key=KEY, max_retries=0, max_tokens=4096)


def scenarios(make: Callable[[str], BaseChatModel]) -> dict[str, Callable[[str], Any]]:
    def tools(model: str) -> Any:
        bound = make(model).bind_tools([get_weather, get_time])
        turns: list[Any] = [HumanMessage("Both")]
        answer = None
        for piece in bound.stream(turns):
            answer = piece if answer is None else answer + piece
        assert answer is not None
        results = [ToolMessage("fine", tool_call_id=call["id"]) for call in answer.tool_calls]
        again = bound.invoke([*turns, answer, *results])
        return [{call["name"]: call["args"] for call in answer.tool_calls}, again.text]

    def vision(model: str) -> Any:
        picture = {"type": "image_url", "image_url": {"url": PICTURE}}
        said = HumanMessage([{"type": "text", "text": "Look"}, picture])
        return make(model).invoke([said]).text

    def schema(model: str) -> Any:
        structured = make(model).with_structured_output(Place, method="json_schema")
        return structured.invoke("Where").model_dump()

    def usage(model: str) -> Any:
        return make(model).invoke("Hello").usage_metadata["total_tokens"]

    return {
        "chat": lambda model: make(model).invoke("Hello").text,
        "usage": usage,
        "stream": lambda model: "".join(piece.text for piece in make(model).stream("Hello")),
        "async": lambda model: run(make(model).ainvoke("Hello")).text,
        "tools": tools,
        "vision": vision,
        "schema": schema,
        "error_400": lambda model: make(model).invoke("fail 400").text,
        "error_404": lambda model: make(model).invoke("fail 404").text,
        "cancelled": lambda model: run(leave(make(model).astream("hang"))),
        "broken": lambda model: "".join(piece.text for piece in make(model).stream("cut")),
    }


for_each_model("langchain-openai", scenarios(chat))
for_each_model("langchain-openai-responses", scenarios(responses))
for_each_model("langchain-anthropic", scenarios(messages))
embedder = OpenAIEmbeddings(
    model="chat", base_url=f"{URL}/v1", api_key=KEY, check_embedding_ctx_length=False
)
report("langchain-openai", "chat", "embeddings", lambda _: embedder.embed_query("Hi"))
