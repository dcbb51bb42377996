"""A speaking upstream's chat completions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from relay_gateway.testing.script import sse_event
from relay_gateway.testing.speakers.scene import (
    FIGURES,
    SIGNATURE,
    Asked,
    Call,
    Reply,
    cut,
)

_STOPS = {"end": "stop", "length": "length", "tools": "tool_calls"}
USAGE = {
    "prompt_tokens": FIGURES["input"],
    "completion_tokens": FIGURES["output"],
    "total_tokens": FIGURES["input"] + FIGURES["output"],
    "prompt_tokens_details": {"cached_tokens": FIGURES["cached"]},
    "completion_tokens_details": {"reasoning_tokens": FIGURES["reasoning"]},
}


def hear(body: dict[str, Any]) -> Asked:
    """What a request asks."""
    messages: list[dict[str, Any]] = body["messages"]
    last = max((n for n, one in enumerate(messages) if one["role"] == "assistant"), default=-1)
    users = [one for one in messages if one["role"] == "user"]
    texts, media = _contents(users[-1]["content"])
    form = body.get("response_format") or {}
    return Asked(
        text=" ".join(texts),
        model=body["model"],
        streamed=bool(body.get("stream")),
        usage_wanted=bool((body.get("stream_options") or {}).get("include_usage")),
        tools={
            tool["function"]["name"]: tool["function"].get("parameters")
            for tool in body.get("tools") or ()
        },
        results=tuple(
            " ".join(_contents(one["content"])[0])
            for one in messages[last + 1 :]
            if one["role"] == "tool"
        ),
        media=tuple(media),
        signatures=tuple(
            detail.get("signature") or detail.get("data") or ""
            for one in messages
            for detail in one.get("reasoning_details") or ()
        ),
        schema=form["json_schema"]["schema"] if form.get("type") == "json_schema" else None,
    )


def _contents(content: Any) -> tuple[list[str], list[str]]:
    if isinstance(content, str):
        return [content], []
    texts = [part["text"] for part in content if part["type"] == "text"]
    return texts, [_kind(part) for part in content if part["type"] != "text"]


def _kind(part: dict[str, Any]) -> str:
    if part["type"] == "image_url":
        url: str = part["image_url"]["url"]
        return url.partition(";")[0].removeprefix("data:") if url.startswith("data:") else url
    data: str = part["file"]["file_data"]
    return data.partition(";")[0].removeprefix("data:")


def whole(reply: Reply, asked: Asked) -> dict[str, Any]:
    """The answer at once."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.thought:
        message |= {"reasoning": reply.thought, "reasoning_details": [_detail(reply.thought)]}
        message["reasoning_details"][0]["signature"] = SIGNATURE
    if reply.calls:
        message["tool_calls"] = [_call(call, call.arguments) for call in reply.calls]
    choice = {"index": 0, "message": message, "finish_reason": _STOPS[reply.stop]}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": asked.model}
    return head | {"choices": [choice], "usage": USAGE}


def _detail(text: str) -> dict[str, Any]:
    return {"type": "reasoning.text", "text": text, "format": "acme-v1", "index": 0}


def _call(call: Call, arguments: str) -> dict[str, Any]:
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def events(reply: Reply, asked: Asked) -> Iterator[bytes]:
    """The answer as a stream; parallel calls are written side by side."""
    yield _chunk(asked, {"role": "assistant", "content": ""})
    for piece in cut(reply.thought, 5):
        yield _chunk(asked, {"reasoning": piece, "reasoning_details": [_detail(piece)]})
    if reply.thought:
        signed = {"type": "reasoning.text", "signature": SIGNATURE, "format": "acme-v1", "index": 0}
        yield _chunk(asked, {"reasoning_details": [signed]})
    for piece in cut(reply.text, 4):
        yield _chunk(asked, {"content": piece})
    for number, call in enumerate(reply.calls):
        yield _chunk(asked, {"tool_calls": [{"index": number} | _call(call, "")]})
    longest = max((len(call.pieces) for call in reply.calls), default=0)
    for place in range(longest):
        for number, call in enumerate(reply.calls):
            for piece in call.pieces[place : place + 1]:
                entry = {"index": number, "function": {"arguments": piece}}
                yield _chunk(asked, {"tool_calls": [entry]})
    yield _chunk(asked, {}, _STOPS[reply.stop])
    if asked.usage_wanted:
        yield sse_event(_head(asked) | {"choices": [], "usage": USAGE})
    yield sse_event("[DONE]")


def _head(asked: Asked) -> dict[str, Any]:
    kind = "chat.completion.chunk"
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": asked.model}


def _chunk(asked: Asked, delta: dict[str, Any], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return sse_event(_head(asked) | {"choices": [choice]})


def problem(status: int, message: str) -> dict[str, Any]:
    """An error answer."""
    kind = "rate_limit_error" if status == 429 else "server_error"
    if status == 400:
        kind = "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": f"code_{status}"}}


def problem_event(message: str) -> bytes:
    """An error inside a stream."""
    return sse_event(problem(500, message))
