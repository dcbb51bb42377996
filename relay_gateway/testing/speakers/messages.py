"""A speaking upstream's messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from relay_gateway.testing.script import sse_event
from relay_gateway.testing.speakers.scene import FIGURES, SIGNATURE, Asked, Reply, cut

_STOPS = {"end": "end_turn", "length": "max_tokens", "tools": "tool_use"}
USAGE = {
    "input_tokens": FIGURES["input"] - FIGURES["cached"],
    "cache_read_input_tokens": FIGURES["cached"],
    "cache_creation_input_tokens": 0,
    "output_tokens": FIGURES["output"],
    "output_tokens_details": {"thinking_tokens": FIGURES["reasoning"]},
}
_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def hear(body: dict[str, Any]) -> Asked:
    """What a request asks."""
    assert body["max_tokens"] > 0, "the API demands a limit"
    blocks = [_blocks(message) for message in body["messages"]]
    said = [n for n, one in enumerate(body["messages"]) if one["role"] == "user" and _said(one)]
    last = blocks[said[-1]] if said else []
    form = (body.get("output_config") or {}).get("format") or {}
    return Asked(
        text=" ".join(block["text"] for block in last if block["type"] == "text"),
        model=body["model"],
        streamed=bool(body.get("stream")),
        tools={tool["name"]: tool["input_schema"] for tool in body.get("tools", ())},
        results=tuple(_result(each) for each in blocks[-1] if each["type"] == "tool_result"),
        media=tuple(_kind(each) for each in last if each["type"] in ("image", "document")),
        signatures=tuple(
            block["signature"] for turn in blocks for block in turn if block["type"] == "thinking"
        ),
        schema=form["schema"] if form.get("type") == "json_schema" else None,
    )


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _said(message: dict[str, Any]) -> bool:
    return any(block["type"] != "tool_result" for block in _blocks(message))


def _result(block: dict[str, Any]) -> str:
    return " ".join(each["text"] for each in _blocks(block) if each["type"] == "text")


def _kind(block: dict[str, Any]) -> str:
    source = block["source"]
    return str(source.get("media_type") or source["url"])


def whole(reply: Reply, asked: Asked) -> dict[str, Any]:
    """The answer at once."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": list(_content(reply)),
        "stop_reason": _STOPS[reply.stop],
        "stop_sequence": None,
        "usage": USAGE,
    }


def _content(reply: Reply) -> Iterator[dict[str, Any]]:
    if reply.thought:
        yield {"type": "thinking", "thinking": reply.thought, "signature": SIGNATURE}
    if reply.text:
        yield {"type": "text", "text": reply.text}
    for call in reply.calls:
        arguments = json.loads(call.arguments)
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}


def events(reply: Reply, asked: Asked) -> Iterator[bytes]:
    """The answer as a stream."""
    begun = whole(reply, asked) | {"content": [], "stop_reason": None}
    yield _event("message_start", {"message": begun | {"usage": USAGE | {"output_tokens": 1}}})
    for index, block in enumerate(_content(reply)):
        yield _event("content_block_start", {"index": index, "content_block": _begun(block)})
        if not index:
            yield _event("ping", {})
        for delta in _deltas(block):
            yield _event("content_block_delta", {"index": index, "delta": delta})
        yield _event("content_block_stop", {"index": index})
    delta = {"stop_reason": _STOPS[reply.stop], "stop_sequence": None}
    yield _event("message_delta", {"delta": delta, "usage": USAGE})
    yield _event("message_stop", {})


def _begun(block: dict[str, Any]) -> dict[str, Any]:
    empty: dict[str, dict[str, Any]] = {
        "text": {"text": ""},
        "thinking": {"thinking": "", "signature": ""},
        "tool_use": {"input": {}},
    }
    return block | empty[block["type"]]


def _deltas(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    match block["type"]:
        case "text":
            yield from ({"type": "text_delta", "text": each} for each in cut(block["text"], 4))
        case "thinking":
            for each in cut(block["thinking"], 5):
                yield {"type": "thinking_delta", "thinking": each}
            yield {"type": "signature_delta", "signature": block["signature"]}
        case _:
            written = json.dumps(block["input"], ensure_ascii=False)
            for each in cut(written, 7):
                yield {"type": "input_json_delta", "partial_json": each}


def _event(kind: str, members: dict[str, Any]) -> bytes:
    return sse_event({"type": kind} | members, event=kind)


def problem(status: int, message: str) -> dict[str, Any]:
    """An error answer."""
    error = {"type": _ERRORS.get(status, "api_error"), "message": message}
    return {"type": "error", "error": error, "request_id": "req_upstream"}


def problem_event(message: str) -> bytes:
    """An error inside a stream."""
    return sse_event(problem(529, message), event="error")
