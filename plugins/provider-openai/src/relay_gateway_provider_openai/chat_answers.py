"""Whole answers of Chat Completions, to and from the canonical form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from relay_gateway.errors import RequestRefusedError, UpstreamProtocolError
from relay_gateway.plugin.canonical import (
    CanonicalResponse,
    Part,
    Reasoning,
    Refusal,
    Stop,
    StopKind,
    Text,
    ToolCall,
)
from relay_gateway.plugin.codec import AnswerContext
from relay_gateway.plugin.members import Members
from relay_gateway_provider_openai.chat_reasoning import message_members, reasoning_of_message
from relay_gateway_provider_openai.logprobs import read_logprobs, write_logprobs
from relay_gateway_provider_openai.usage import chat_usage, write_chat_usage

STOPS = {
    "stop": StopKind.END,
    "length": StopKind.LENGTH,
    "tool_calls": StopKind.TOOL_CALLS,
    "function_call": StopKind.TOOL_CALLS,
    "content_filter": StopKind.REFUSAL,
}
FINISH_REASONS = {
    StopKind.END: "stop",
    StopKind.LENGTH: "length",
    StopKind.CONTEXT: "length",
    StopKind.STOP_SEQUENCE: "stop",
    StopKind.TOOL_CALLS: "tool_calls",
    StopKind.REFUSAL: "content_filter",
    StopKind.PAUSED: "stop",
}
NOT_HELD = ("annotations", "audio")
"""Members of a message that the canonical form has no room for."""


def read_answer(body: bytes) -> CanonicalResponse:
    """A chat completion with one choice."""
    answer = object_of(body)
    choices = answer.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        raise UpstreamProtocolError("the upstream's chat completion has not exactly one choice")
    choice, message = choices[0], choices[0].get("message")
    if not isinstance(message, dict):
        raise UpstreamProtocolError("the upstream's chat completion has no message")
    try:
        parts = tuple(_parts(Members(message, "message")))
    except RequestRefusedError as error:
        raise UpstreamProtocolError(f"the upstream's chat completion: {error}") from error
    logprobs = choice.get("logprobs")
    return CanonicalResponse(
        id=str(answer.get("id") or ""),
        model=str(answer.get("model") or ""),
        parts=parts,
        stop=stop_of(choice.get("finish_reason"), parts),
        usage=chat_usage(answer.get("usage")),
        logprobs=read_logprobs(logprobs.get("content")) if isinstance(logprobs, dict) else None,
        dropped=tuple(f"message.{name}" for name in NOT_HELD if message.get(name)),
    )


def object_of(body: bytes) -> dict[str, Any]:
    """The JSON object in ``body``; raises :class:`UpstreamProtocolError`."""
    try:
        value = msgspec.json.decode(body)
    except (ValueError, RecursionError) as error:
        raise UpstreamProtocolError("the upstream's answer is not JSON") from error
    if not isinstance(value, dict):
        raise UpstreamProtocolError("the upstream's answer is not a JSON object")
    return value


def _parts(message: Members) -> Iterator[Part]:
    yield from reasoning_of_message(message, from_client=False)
    content = message.take("content")
    if isinstance(content, str) and content:
        yield Text(content)
    elif isinstance(content, list):
        yield from (Text(str(each.get("text"))) for each in content if _is_text(each))
    refusal = message.text("refusal")
    if refusal:
        yield Refusal(refusal)
    for call in message.children("tool_calls"):
        function = call.child("function")
        if function is None:
            raise UpstreamProtocolError("the upstream called a tool that is no function")
        arguments = function.text("arguments") or ""
        yield ToolCall(call.text("id") or "", function.required("name"), arguments)


def _is_text(part: object) -> bool:
    return isinstance(part, dict) and part.get("type") == "text"


def stop_of(reason: object, parts: tuple[Part, ...]) -> Stop:
    """Why the answer ended; hosts that call tools and say ``stop`` are corrected."""
    kind = STOPS.get(reason) if isinstance(reason, str) else None
    if kind in (None, StopKind.END) and any(isinstance(part, ToolCall) for part in parts):
        return Stop(StopKind.TOOL_CALLS)
    if kind in (None, StopKind.END) and any(isinstance(part, Refusal) for part in parts):
        return Stop(StopKind.REFUSAL)
    return Stop(kind or StopKind.END)


def write_answer(response: CanonicalResponse, context: AnswerContext) -> bytes:
    """A chat completion."""
    choice = {
        "index": 0,
        "message": _message(response),
        "logprobs": None,
        "finish_reason": finish_reason(response.stop, response.parts),
    }
    if response.logprobs is not None:
        choice["logprobs"] = {"content": write_logprobs(response.logprobs), "refusal": None}
    return msgspec.json.encode(
        {
            "id": response.id or f"chatcmpl-{context.answer_id}",
            "object": "chat.completion",
            "created": context.created,
            "model": response.model or context.request.model,
            "choices": [choice],
            "usage": write_chat_usage(response.usage),
        }
    )


def finish_reason(stop: Stop, parts: tuple[Part, ...]) -> str:
    """The word for ``stop``; a refusal in words ends like any other text."""
    if stop.kind is StopKind.REFUSAL and any(isinstance(part, Refusal) for part in parts):
        return "stop"
    return FINISH_REASONS[stop.kind]


def _message(response: CanonicalResponse) -> dict[str, Any]:
    text = "".join(part.text for part in response.parts if isinstance(part, Text))
    refusal = "".join(part.text for part in response.parts if isinstance(part, Refusal))
    if response.stop.kind is StopKind.REFUSAL:
        refusal = refusal or response.stop.detail or ""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": text or None,
        "refusal": refusal or None,
        "annotations": [],
    }
    thoughts = [part for part in response.parts if isinstance(part, Reasoning)]
    message |= message_members(thoughts, own_only=False)
    calls = [_tool_call(part) for part in response.parts if isinstance(part, ToolCall)]
    if calls:
        message["tool_calls"] = calls
    elif not text and not refusal:
        message["content"] = ""
    return message


def _tool_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments or "{}"}
    return {"id": call.id, "type": "function", "function": function}
