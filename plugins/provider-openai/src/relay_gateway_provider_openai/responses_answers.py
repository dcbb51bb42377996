"""Whole responses, to and from the canonical form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from relay_gateway.errors import UpstreamProtocolError
from relay_gateway.plugin.canonical import (
    Blob,
    CanonicalResponse,
    Part,
    Reasoning,
    Refusal,
    Stop,
    StopKind,
    Text,
    TokenLogprob,
    ToolCall,
    Usage,
    seal,
)
from relay_gateway.plugin.codec import AnswerContext
from relay_gateway_provider_openai.chat_answers import object_of
from relay_gateway_provider_openai.logprobs import read_logprobs, write_logprobs
from relay_gateway_provider_openai.responses_reader import ENCRYPTED, FORMAT
from relay_gateway_provider_openai.responses_writer import (
    function_call,
    instructions_of,
    options_of,
    reasoning_item,
)
from relay_gateway_provider_openai.usage import responses_usage, write_responses_usage

_INCOMPLETE = {"max_output_tokens": StopKind.LENGTH, "content_filter": StopKind.REFUSAL}
_REASONS = {
    StopKind.LENGTH: "max_output_tokens",
    StopKind.CONTEXT: "max_output_tokens",
    StopKind.REFUSAL: "content_filter",
}


def read_answer(body: bytes) -> CanonicalResponse:
    """A response that is complete or incomplete; one that failed is no answer."""
    answer = object_of(body)
    output = answer.get("output")
    if answer.get("status") not in ("completed", "incomplete") or not isinstance(output, list):
        raise UpstreamProtocolError("the upstream's response neither completed nor is incomplete")
    items = [item for item in output if isinstance(item, dict)]
    parts = tuple(part for item in items for part in parts_of(item))
    logprobs = [found for item in items for found in _logprobs(item)]
    return CanonicalResponse(
        id=str(answer.get("id") or ""),
        model=str(answer.get("model") or ""),
        parts=parts,
        stop=stop_of(answer, {type(part) for part in parts}),
        usage=responses_usage(answer.get("usage")),
        logprobs=tuple(logprobs) or None,
        dropped=tuple(dict.fromkeys(_not_held(items))),
    )


def parts_of(item: dict[str, Any]) -> Iterator[Part]:
    """The parts in one item of the output."""
    kind = item.get("type")
    if kind == "message":
        for content in _contents(item):
            if content.get("type") == "output_text":
                yield Text(str(content.get("text") or ""))
            elif content.get("type") == "refusal":
                yield Refusal(str(content.get("refusal") or ""))
    elif kind == "function_call":
        call_id, name, arguments = (
            str(item.get(member) or "") for member in ("call_id", "name", "arguments")
        )
        yield ToolCall(call_id, name, arguments)
    elif kind == "reasoning":
        texts = {name: tuple(_texts(item.get(name))) for name in ("summary", "content")}
        yield Reasoning(texts["summary"], texts["content"], blob_of(item))


def blob_of(item: dict[str, Any]) -> Blob:
    """What has to come back with a reasoning item."""
    data, item_id = (str(item.get(name) or "") for name in ("encrypted_content", "id"))
    return Blob(FORMAT, data, ENCRYPTED, item_id)


def _contents(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    content = item.get("content")
    yield from (each for each in content or () if isinstance(each, dict))


def _texts(entries: object) -> Iterator[str]:
    if isinstance(entries, list):
        yield from (str(each.get("text") or "") for each in entries if isinstance(each, dict))


def _logprobs(item: dict[str, Any]) -> Iterator[TokenLogprob]:
    if item.get("type") == "message":
        for content in _contents(item):
            yield from read_logprobs(content.get("logprobs")) or ()


def _not_held(items: list[dict[str, Any]]) -> Iterator[str]:
    for item in items:
        kind = item.get("type")
        if kind not in ("message", "function_call", "reasoning"):
            yield f"output[].{kind}"
        elif kind == "message" and any(each.get("annotations") for each in _contents(item)):
            yield "output[].content[].annotations"


def stop_of(answer: dict[str, Any], kinds: set[type]) -> Stop:
    """Why a response ended, given the kinds of its parts."""
    if answer.get("status") == "incomplete":
        details = answer.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, dict) else None
        return Stop(_INCOMPLETE.get(str(reason), StopKind.END))
    if ToolCall in kinds:
        return Stop(StopKind.TOOL_CALLS)
    return Stop(StopKind.REFUSAL if Refusal in kinds else StopKind.END)


def write_answer(response: CanonicalResponse, context: AnswerContext) -> bytes:
    """A response."""
    written = frame_of(response.id, response.model, context)
    items = [write_item(part, number, context) for number, part in enumerate(response.parts)]
    if response.logprobs is not None:
        _with_logprobs(items, write_logprobs(response.logprobs))
    declined = any(isinstance(part, Refusal) for part in response.parts)
    written |= {"output": items} | end_members(response.stop, response.usage, declined=declined)
    return msgspec.json.encode(written)


def _with_logprobs(items: list[dict[str, Any]], logprobs: list[dict[str, Any]]) -> None:
    """Puts the log probabilities to the first text; the form does not say whose each one is."""
    for item in items:
        if item["type"] == "message" and item["content"][0]["type"] == "output_text":
            item["content"][0]["logprobs"] = logprobs
            return


def frame_of(answer_id: str, model: str, context: AnswerContext) -> dict[str, Any]:
    """A response of which nothing has been said yet; it repeats what it was asked for."""
    request = context.request
    return {
        "id": answer_id or f"resp_{context.answer_id}",
        "object": "response",
        "created_at": context.created,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": instructions_of(request.messages),
        "max_output_tokens": None,
        "model": model or request.model,
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": None,
        "user": request.user,
        "metadata": request.metadata or {},
    } | options_of(request)


def end_members(stop: Stop, usage: Usage, *, declined: bool) -> dict[str, Any]:
    """The members that say how a response ended."""
    reason = _REASONS.get(stop.kind)
    if stop.kind is StopKind.REFUSAL and declined:
        reason = None  # the words of the refusal are the answer
    return {
        "status": "incomplete" if reason else "completed",
        "incomplete_details": {"reason": reason} if reason else None,
        "usage": write_responses_usage(usage),
    }


def item_id(part: Part, number: int, context: AnswerContext) -> str:
    """The id of the item for the part ``number``."""
    prefix = "msg"
    if isinstance(part, ToolCall):
        prefix = "fc"
    elif isinstance(part, Reasoning):
        prefix = "rs"
    return f"{prefix}_{context.answer_id}_{number}"


def write_item(part: Part, number: int, context: AnswerContext) -> dict[str, Any]:
    """The item of the output for one part."""
    name = item_id(part, number, context)
    match part:
        case ToolCall():
            return function_call(part) | {"id": name, "status": "completed"}
        case Reasoning(blob=blob):
            return reasoning_item(part, name, seal(blob) if blob is not None else "")
        case Text(text=text):
            content = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
            return message_item(name, [content])
        case Refusal(text=text):
            return message_item(name, [{"type": "refusal", "refusal": text}])
    raise UpstreamProtocolError(f"an answer with {type(part).__name__} cannot be told in Responses")


def message_item(
    name: str, content: list[dict[str, Any]], status: str = "completed"
) -> dict[str, Any]:
    """An item that is a message of the assistant."""
    return {
        "id": name,
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": content,
    }
