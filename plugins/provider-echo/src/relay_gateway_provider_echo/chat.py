"""Chat Completions as OpenAI's API reference describes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from relay_gateway_provider_echo.reply import Finish, Reply
from relay_gateway_provider_echo.speaker import Speaker, data_event
from relay_gateway_provider_echo.turn import Tool, ToolUse, Turn, decode, invalid
from relay_gateway_provider_echo.words import count_words

DONE = b"data: [DONE]\n\n"
FINISH = {Finish.STOP: "stop", Finish.LENGTH: "length", Finish.TOOL: "tool_calls"}

PositiveInt = Annotated[int, Meta(ge=1)]


class _Part(msgspec.Struct):
    type: str
    text: str = ""


class _Message(msgspec.Struct):
    role: Literal["developer", "system", "user", "assistant", "tool", "function"]
    content: str | list[_Part] | None = None

    def text(self) -> str:
        """Its text, parts of other types left out."""
        if isinstance(self.content, str):
            return self.content
        return " ".join(part.text for part in self.content or () if part.text)


class _Function(msgspec.Struct):
    name: str
    parameters: dict[str, Any] = {}


class _Tool(msgspec.Struct):
    type: str
    function: _Function | None = None


class StreamOptions(msgspec.Struct):
    """``stream_options`` of chat completions and completions."""

    include_usage: bool | None = None


class _Named(msgspec.Struct):
    name: str


class _ForcedTool(msgspec.Struct):
    type: str
    function: _Named


class _Request(msgspec.Struct):
    model: str
    messages: Annotated[list[_Message], Meta(min_length=1)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    tools: list[_Tool] | None = None
    tool_choice: Literal["none", "auto", "required"] | _ForcedTool | None = None
    max_tokens: PositiveInt | None = None
    max_completion_tokens: PositiveInt | None = None
    n: PositiveInt | None = None


class ChatSpeaker(Speaker):
    """Speaks ``openai.chat``."""

    def __init__(self, body: bytes) -> None:
        self._request = request = decode(body, _Request)
        if request.n not in (None, 1):
            raise invalid("echo gives one choice; 'n' must be 1", "n")
        self._usage = wants_usage(request.stream, request.stream_options)
        self.turn = _turn(request)

    def whole(self, reply: Reply) -> object:
        message: dict[str, Any] = {"role": "assistant", "content": reply.text, "refusal": None}
        if reply.tool is not None:
            call = {"id": f"call_{reply.key}", "type": "function"}
            function = {"name": reply.tool, "arguments": reply.text}
            message |= {"content": None, "tool_calls": [call | {"function": function}]}
        choice = {
            "index": 0,
            "message": message | {"annotations": []},
            "logprobs": None,
            "finish_reason": FINISH[reply.finish],
        }
        return {
            "id": f"chatcmpl-{reply.key}",
            "object": "chat.completion",
            "created": reply.created,
            "model": reply.model,
            "choices": [choice],
            "usage": usage_of(reply),
            "service_tier": "default",
            "system_fingerprint": "fp_echo",
        }

    def stream(self, reply: Reply) -> Iterator[bytes]:
        for delta in _deltas(reply):
            yield self._chunk(reply, [_choice(delta)])
        yield self._chunk(reply, [_choice({}, FINISH[reply.finish])])
        if self._usage:
            yield self._chunk(reply, [], usage_of(reply))
        yield DONE

    def _chunk(
        self, reply: Reply, choices: list[dict[str, Any]], usage: dict[str, Any] | None = None
    ) -> bytes:
        chunk = {
            "id": f"chatcmpl-{reply.key}",
            "object": "chat.completion.chunk",
            "created": reply.created,
            "model": reply.model,
            "service_tier": "default",
            "system_fingerprint": "fp_echo",
            "choices": choices,
        }
        return data_event(chunk | {"usage": usage} if self._usage else chunk)


def wants_usage(stream: bool | None, options: StreamOptions | None) -> bool:  # noqa: FBT001 -- a request's own member
    """Whether a stream is to end with usage; raises 400 for options without a stream."""
    if options is None:
        return False
    if not stream:
        message = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        raise invalid(message, "stream_options")
    return bool(options.include_usage)


def usage_of(reply: Reply) -> dict[str, Any]:
    """Usage of a chat completion or completion."""
    return {
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "total_tokens": reply.prompt_tokens + reply.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def _turn(request: _Request) -> Turn:
    messages = request.messages
    asked = [message for message in messages if message.role in ("user", "tool", "function")]
    last = (asked or messages)[-1]
    choice = request.tool_choice
    forced = choice.function.name if isinstance(choice, _ForcedTool) else None
    use = {"none": ToolUse.NEVER, "required": ToolUse.ALWAYS}.get(str(choice), ToolUse.ASKED)
    return Turn(
        text=last.text(),
        prompt_tokens=count_words(message.text() for message in messages),
        from_user=last.role == "user",
        tools=tuple(
            Tool(tool.function.name, tool.function.parameters)
            for tool in request.tools or ()
            if tool.function is not None
        ),
        tool_use=use if forced is None else ToolUse.ALWAYS,
        forced=forced,
        limit=request.max_completion_tokens or request.max_tokens,
    )


def _deltas(reply: Reply) -> Iterator[dict[str, Any]]:
    if reply.tool is None:
        yield {"role": "assistant", "content": "", "refusal": None}
        for piece in reply.pieces:
            yield {"content": piece}
        return
    opening = {"index": 0, "id": f"call_{reply.key}", "type": "function"}
    function = {"name": reply.tool, "arguments": ""}
    yield {"role": "assistant", "content": None, "tool_calls": [opening | {"function": function}]}
    for piece in reply.pieces:
        yield {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}


def _choice(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
