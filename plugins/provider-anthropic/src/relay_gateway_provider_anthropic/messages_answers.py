"""Whole answers of Messages, to and from the canonical form."""

from __future__ import annotations

from typing import Any

import msgspec

from relay_gateway.errors import UpstreamProtocolError
from relay_gateway.plugin import count
from relay_gateway.plugin.canonical import (
    Blob,
    CanonicalResponse,
    Part,
    Reasoning,
    Refusal,
    Stop,
    StopKind,
    Text,
    ToolCall,
    Usage,
    seal,
)
from relay_gateway.plugin.codec import AnswerContext, arguments_of
from relay_gateway_provider_anthropic.words import FORMAT, REDACTED, STOP_REASONS, STOPS


class _Block(msgspec.Struct, gc=False):
    type: str
    text: str = ""
    thinking: str = ""
    signature: str = ""
    data: str = ""
    id: str = ""
    name: str = ""
    input: msgspec.Raw = msgspec.Raw(b"{}")
    citations: Any = None


class _Details(msgspec.Struct):
    explanation: str | None = None


class _Message(msgspec.Struct):
    content: list[_Block]
    id: str = ""
    model: str = ""
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: _Details | None = None
    usage: Any = None


_decode = msgspec.json.Decoder(_Message).decode


def read_answer(body: bytes) -> CanonicalResponse:
    """A message of the assistant."""
    try:
        message = _decode(body)
    except (ValueError, RecursionError) as error:
        raise UpstreamProtocolError("the upstream's answer is no message") from error
    parts = [part for block in message.content if (part := _part(block)) is not None]
    explanation = message.stop_details.explanation if message.stop_details else None
    return CanonicalResponse(
        id=message.id,
        model=message.model,
        parts=tuple(parts),
        stop=stop_of(message.stop_reason, message.stop_sequence, explanation),
        usage=read_usage(message.usage),
        dropped=tuple(dict.fromkeys(_not_held(message.content))),
    )


def _part(block: _Block) -> Part | None:
    match block.type:
        case "text":
            return Text(block.text)
        case "thinking":
            summary = (block.thinking,) if block.thinking else ()
            return Reasoning(summary, blob=Blob(FORMAT, block.signature))
        case "redacted_thinking":
            return Reasoning(blob=Blob(FORMAT, block.data, REDACTED))
        case "tool_use":
            return ToolCall(block.id, block.name, bytes(block.input).decode())
        case _:
            return None


def _not_held(blocks: list[_Block]) -> list[str]:
    held = ("text", "thinking", "redacted_thinking", "tool_use")
    names = [f"content[].{block.type}" for block in blocks if block.type not in held]
    return names + ["content[].citations" for block in blocks if block.citations]


def stop_of(reason: str | None, sequence: str | None, explanation: str | None) -> Stop:
    """Why a message ended; unknown words are the end."""
    return Stop(STOPS.get(reason or "", StopKind.END), sequence, explanation)


def read_usage(found: object) -> Usage:
    """The ``usage`` of a message; ``input_tokens`` there leaves the cached part out."""
    if not isinstance(found, dict):
        return Usage()
    said, read = count(found.get("input_tokens")), count(found.get("cache_read_input_tokens"))
    written = count(found.get("cache_creation_input_tokens"))
    kept, details = found.get("cache_creation"), found.get("output_tokens_details")
    return Usage(
        input=None if said is None else said + (read or 0) + (written or 0),
        output=count(found.get("output_tokens")),
        cache_read=read,
        cache_write=written,
        cache_write_1h=_figure(kept, "ephemeral_1h_input_tokens"),
        reasoning=_figure(details, "thinking_tokens"),
    )


def _figure(found: object, name: str) -> int | None:
    return count(found.get(name)) if isinstance(found, dict) else None


def write_usage(usage: Usage) -> dict[str, Any]:
    """``usage`` as a message tells it; figures nobody said count as 0."""
    read, written = usage.cache_read or 0, usage.cache_write or 0
    told: dict[str, Any] = {
        "input_tokens": max(0, (usage.input or 0) - read - written),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens": usage.output or 0,
    }
    if usage.cache_write_1h is not None:
        told["cache_creation"] = {
            "ephemeral_5m_input_tokens": max(0, written - usage.cache_write_1h),
            "ephemeral_1h_input_tokens": usage.cache_write_1h,
        }
    if usage.reasoning is not None:
        told["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    return told


def write_answer(response: CanonicalResponse, context: AnswerContext) -> bytes:
    """A message of the assistant."""
    message = start_of(response.id, response.model, context)
    declined = any(isinstance(part, Refusal) for part in response.parts)
    message["content"] = [_block(part) for part in response.parts]
    message |= stop_members(response.stop, declined=declined)
    return msgspec.json.encode(message | {"usage": write_usage(response.usage)})


def start_of(answer_id: str, model: str, context: AnswerContext) -> dict[str, Any]:
    """A message of which nothing has been said yet."""
    return {
        "id": answer_id or f"msg_{context.answer_id}",
        "type": "message",
        "role": "assistant",
        "model": model or context.request.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def stop_members(stop: Stop, *, declined: bool) -> dict[str, Any]:
    """The members that say why it ended; ``declined`` when the model did so in words."""
    kind = StopKind.REFUSAL if declined else stop.kind
    members: dict[str, Any] = {"stop_reason": STOP_REASONS[kind], "stop_sequence": stop.sequence}
    if kind is StopKind.REFUSAL:
        members["stop_details"] = {
            "type": "refusal",
            "category": None,
            "explanation": stop.detail,
        }
    return members


def _block(part: Part) -> dict[str, Any]:
    match part:
        case Text(text=text) | Refusal(text=text):
            return {"type": "text", "text": text}
        case Reasoning():
            text = "\n\n".join(part.summary or part.content)
            return {"type": "thinking", "thinking": text, "signature": signature_of(part.blob)}
        case ToolCall():
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": _input(part)}
    raise UpstreamProtocolError(f"an answer with {type(part).__name__} cannot be told in Messages")


def _input(call: ToolCall) -> dict[str, Any]:
    try:
        return arguments_of(call)
    except ValueError as error:
        raise UpstreamProtocolError("the upstream called a tool without a JSON object") from error


def signature_of(blob: Blob | None) -> str:
    """What a client is to give back; blobs of other formats are sealed."""
    if blob is None:
        return ""
    return blob.data if blob.format == FORMAT and blob.kind != REDACTED else seal(blob)
