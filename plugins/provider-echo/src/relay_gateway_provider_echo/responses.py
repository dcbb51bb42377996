"""Responses: reading a request and the whole answer, as OpenAI's API reference describes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from relay_gateway_provider_echo.reply import Finish, Reply
from relay_gateway_provider_echo.response_events import response_events
from relay_gateway_provider_echo.speaker import Speaker
from relay_gateway_provider_echo.turn import Tool, ToolUse, Turn, decode, invalid
from relay_gateway_provider_echo.words import count_words


class _Part(msgspec.Struct):
    type: str
    text: str = ""


class _Item(msgspec.Struct):
    type: str = "message"
    role: Literal["user", "assistant", "system", "developer"] | None = None
    content: str | list[_Part] | None = None
    output: Any = None

    def text(self) -> str:
        """The text of a message, or what a function call came to."""
        if self.type == "function_call_output":
            return self.output if isinstance(self.output, str) else ""
        if isinstance(self.content, str):
            return self.content
        return " ".join(part.text for part in self.content or () if part.text)

    def asks(self) -> bool:
        """Whether it is something to be answered."""
        return self.type == "function_call_output" or self.role == "user"


class _Tool(msgspec.Struct):
    type: str
    name: str = ""
    parameters: dict[str, Any] | None = None


class _ForcedTool(msgspec.Struct):
    type: str
    name: str = ""


class _Request(msgspec.Struct):
    model: str
    input: str | Annotated[list[_Item], Meta(min_length=1)]
    instructions: str | None = None
    stream: bool | None = None
    tools: list[_Tool] | None = None
    tool_choice: Literal["none", "auto", "required"] | _ForcedTool | None = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None
    previous_response_id: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    metadata: dict[str, str] | None = None


class _Repeated(msgspec.Struct):
    """Members that an answer repeats as they were."""

    tools: Any = None
    tool_choice: Any = None
    text: Any = None


class ResponsesSpeaker(Speaker):
    """Speaks ``openai.responses``; nothing is stored, so no response can follow an earlier one."""

    def __init__(self, body: bytes) -> None:
        self._request = request = decode(body, _Request)
        self._repeated = decode(body, _Repeated)
        if request.previous_response_id is not None:
            wanted = request.previous_response_id
            raise invalid(f"No response has the id {wanted!r}", "previous_response_id")
        self.turn = _turn(request)

    def whole(self, reply: Reply) -> dict[str, Any]:
        status = "incomplete" if reply.finish is Finish.LENGTH else "completed"
        return self.response(reply, status, [output_item(reply, status)])

    def stream(self, reply: Reply) -> Iterator[bytes]:
        started = self.response(reply, "in_progress", [])
        return response_events(reply, started, self.whole(reply))

    def response(self, reply: Reply, status: str, output: list[Any]) -> dict[str, Any]:
        """The response object with ``status`` and ``output``; usage only when it has ended."""
        request, repeated = self._request, self._repeated
        cut = {"reason": "max_output_tokens"} if status == "incomplete" else None
        return {
            "id": f"resp_{reply.key}",
            "object": "response",
            "created_at": reply.created,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": cut,
            "instructions": request.instructions,
            "max_output_tokens": request.max_output_tokens,
            "model": reply.model,
            "output": output,
            "parallel_tool_calls": request.parallel_tool_calls is not False,
            "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None},
            "service_tier": "default",
            "store": False,
            "temperature": 1.0 if request.temperature is None else request.temperature,
            "text": repeated.text or {"format": {"type": "text"}},
            "tool_choice": repeated.tool_choice or "auto",
            "tools": repeated.tools or [],
            "top_p": 1.0 if request.top_p is None else request.top_p,
            "truncation": "disabled",
            "usage": None if status == "in_progress" else _usage(reply),
            "user": None,
            "metadata": request.metadata or {},
        }


def output_item(reply: Reply, status: str) -> dict[str, Any]:
    """The one item of the output: a message or a function call."""
    if reply.tool is not None:
        return {
            "id": f"fc_{reply.key}",
            "type": "function_call",
            "status": status,
            "arguments": reply.text,
            "call_id": f"call_{reply.key}",
            "name": reply.tool,
        }
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": reply.text}
    return {
        "id": f"msg_{reply.key}",
        "type": "message",
        "status": status,
        "content": [part],
        "role": "assistant",
    }


def _usage(reply: Reply) -> dict[str, Any]:
    return {
        "input_tokens": reply.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": reply.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": reply.prompt_tokens + reply.completion_tokens,
    }


def _turn(request: _Request) -> Turn:
    items = [_Item(role="user", content=request.input)] if isinstance(request.input, str) else []
    items = items or [item for item in request.input if isinstance(item, _Item)]
    last = ([item for item in items if item.asks()] or items)[-1]
    choice = request.tool_choice
    forced = choice.name if isinstance(choice, _ForcedTool) and choice.type == "function" else None
    use = {"none": ToolUse.NEVER, "required": ToolUse.ALWAYS}.get(str(choice), ToolUse.ASKED)
    return Turn(
        text=last.text(),
        prompt_tokens=count_words([request.instructions or "", *(item.text() for item in items)]),
        from_user=last.role == "user",
        tools=tuple(
            Tool(tool.name, tool.parameters or {})
            for tool in request.tools or ()
            if tool.type == "function"
        ),
        tool_use=use if forced is None else ToolUse.ALWAYS,
        forced=forced,
        limit=request.max_output_tokens,
    )
