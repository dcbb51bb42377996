"""Messages and counting their tokens, as Anthropic's API reference describes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from relay_gateway.errors import RequestRefusedError
from relay_gateway_provider_echo.reply import Finish, Reply
from relay_gateway_provider_echo.speaker import Speaker, named_event
from relay_gateway_provider_echo.turn import Tool, ToolUse, Turn, decode
from relay_gateway_provider_echo.words import count_words

_FINISH = {Finish.STOP: "end_turn", Finish.LENGTH: "max_tokens", Finish.TOOL: "tool_use"}
_TOOL_USE = {"none": ToolUse.NEVER, "any": ToolUse.ALWAYS, "tool": ToolUse.ALWAYS}
_ERROR_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class _Block(msgspec.Struct):
    type: str
    text: str = ""
    content: str | list[_Block] | None = None

    def said(self) -> str:
        """The text of a text block, or of what a tool result holds."""
        if self.type == "tool_result":
            return _text(self.content or "")
        return self.text


class _Message(msgspec.Struct):
    role: Literal["user", "assistant"]
    content: str | list[_Block]


class _Tool(msgspec.Struct):
    name: str
    input_schema: dict[str, Any] = {}


class _ToolChoice(msgspec.Struct):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None


class _Counted(msgspec.Struct):
    model: str
    messages: Annotated[list[_Message], Meta(min_length=1)]
    system: str | list[_Block] | None = None
    tools: list[_Tool] | None = None
    tool_choice: _ToolChoice | None = None


class _Request(_Counted, kw_only=True):
    max_tokens: Annotated[int, Meta(ge=1)]


class MessagesSpeaker(Speaker):
    """Speaks ``anthropic.messages``."""

    def __init__(self, body: bytes) -> None:
        request = decode(body, _Request)
        self.turn = _turn(request, request.max_tokens)

    def whole(self, reply: Reply) -> object:
        block: dict[str, Any] = {"type": "text", "text": reply.text}
        if reply.tool is not None:
            block = _opened(reply) | {"input": msgspec.json.decode(reply.text)}
        usage = _usage(reply, reply.completion_tokens)
        return _message(reply, [block], _FINISH[reply.finish], usage)

    def stream(self, reply: Reply) -> Iterator[bytes]:
        start = _message(reply, [], None, _usage(reply, 1))
        yield _event("message_start", message=start)
        yield _event("content_block_start", index=0, content_block=_opened(reply))
        yield _event("ping")
        for delta in _deltas(reply):
            yield _event("content_block_delta", index=0, delta=delta)
        yield _event("content_block_stop", index=0)
        end = {"stop_reason": _FINISH[reply.finish], "stop_sequence": None}
        usage = {"output_tokens": reply.completion_tokens}
        yield _event("message_delta", delta=end, usage=usage)
        yield _event("message_stop")

    @classmethod
    def refusal(cls, refused: RequestRefusedError) -> tuple[int, bytes]:
        fallback = "invalid_request_error" if refused.status < 500 else "api_error"
        error = {"type": _ERROR_TYPES.get(refused.status, fallback), "message": refused.message}
        body = {"type": "error", "error": error, "request_id": None}
        return refused.status, msgspec.json.encode(body)


class CountTokensSpeaker(MessagesSpeaker):
    """Speaks ``anthropic.count_tokens``."""

    def __init__(self, body: bytes) -> None:
        self.turn = _turn(decode(body, _Counted), None)

    def whole(self, reply: Reply) -> object:
        return {"input_tokens": reply.prompt_tokens}


def _text(content: str | Sequence[_Block]) -> str:
    if isinstance(content, str):
        return content
    return " ".join(said for block in content if (said := block.said()))


def _turn(request: _Counted, limit: int | None) -> Turn:
    users = [message for message in request.messages if message.role == "user"]
    content = (users or request.messages)[-1].content
    returned = not isinstance(content, str) and any(b.type == "tool_result" for b in content)
    choice = request.tool_choice or _ToolChoice("auto")
    texts = [_text(message.content) for message in request.messages]
    return Turn(
        text=_text(content),
        prompt_tokens=count_words([_text(request.system or ""), *texts]),
        from_user=bool(users) and not returned,
        tools=tuple(Tool(tool.name, tool.input_schema) for tool in request.tools or ()),
        tool_use=_TOOL_USE.get(choice.type, ToolUse.ASKED),
        forced=choice.name if choice.type == "tool" else None,
        limit=limit,
    )


def _event(kind: str, **members: object) -> bytes:
    return named_event(kind, {"type": kind, **members})


def _opened(reply: Reply) -> dict[str, Any]:
    if reply.tool is None:
        return {"type": "text", "text": ""}
    return {"type": "tool_use", "id": f"toolu_{reply.key}", "name": reply.tool, "input": {}}


def _deltas(reply: Reply) -> Iterator[dict[str, str]]:
    if reply.tool is None:
        for piece in reply.pieces:
            yield {"type": "text_delta", "text": piece}
        return
    for piece in ("", *reply.pieces):
        yield {"type": "input_json_delta", "partial_json": piece}


def _usage(reply: Reply, output: int) -> dict[str, Any]:
    return {
        "input_tokens": reply.prompt_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": output,
        "service_tier": "standard",
    }


def _message(
    reply: Reply, content: list[dict[str, Any]], finish: str | None, usage: dict[str, Any]
) -> dict[str, Any]:
    return {
        "id": f"msg_{reply.key}",
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": content,
        "stop_reason": finish,
        "stop_sequence": None,
        "usage": usage,
    }
