"""A speaking upstream's responses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from relay_gateway.testing.script import sse_event
from relay_gateway.testing.speakers.scene import FIGURES, SIGNATURE, Asked, Call, Reply, cut

USAGE = {
    "input_tokens": FIGURES["input"],
    "input_tokens_details": {"cached_tokens": FIGURES["cached"]},
    "output_tokens": FIGURES["output"],
    "output_tokens_details": {"reasoning_tokens": FIGURES["reasoning"]},
    "total_tokens": FIGURES["input"] + FIGURES["output"],
}
_OUTPUTS = ("message", "function_call", "reasoning")


def hear(body: dict[str, Any]) -> Asked:
    """What a request asks."""
    given = body["input"]
    items: list[dict[str, Any]] = (
        [{"role": "user", "content": given}] if isinstance(given, str) else given
    )
    mine = [n for n, item in enumerate(items) if _is_output(item)]
    users = [item for item in items if item.get("role") == "user"]
    texts, media = _contents(users[-1]["content"])
    form = (body.get("text") or {}).get("format") or {}
    return Asked(
        text=" ".join(texts),
        model=body["model"],
        streamed=bool(body.get("stream")),
        tools={tool["name"]: tool.get("parameters") for tool in body.get("tools") or ()},
        results=tuple(
            " ".join(_contents(item["output"])[0])
            for item in items[max(mine, default=-1) + 1 :]
            if item.get("type") == "function_call_output"
        ),
        media=tuple(media),
        signatures=tuple(
            item["encrypted_content"]
            for item in items
            if item.get("type") == "reasoning" and item.get("encrypted_content")
        ),
        schema=form["schema"] if form.get("type") == "json_schema" else None,
    )


def _is_output(item: dict[str, Any]) -> bool:
    return item.get("role") == "assistant" or item.get("type") in ("function_call", "reasoning")


def _contents(content: Any) -> tuple[list[str], list[str]]:
    if isinstance(content, str):
        return [content], []
    texts = [part["text"] for part in content if part["type"] == "input_text"]
    return texts, [_kind(part) for part in content if part["type"] != "input_text"]


def _kind(part: dict[str, Any]) -> str:
    data: str = part["image_url"] if part["type"] == "input_image" else part["file_data"]
    return data.partition(";")[0].removeprefix("data:") if data.startswith("data:") else data


def whole(reply: Reply, asked: Asked) -> dict[str, Any]:
    """The answer at once."""
    done = reply.stop != "length"
    return _frame(asked) | {
        "status": "completed" if done else "incomplete",
        "incomplete_details": None if done else {"reason": "max_output_tokens"},
        "output": list(_items(reply)),
        "usage": USAGE,
    }


def _frame(asked: Asked) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "model": asked.model,
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": None,
    }


def _items(reply: Reply) -> Iterator[dict[str, Any]]:
    if reply.thought:
        summary = [{"type": "summary_text", "text": reply.thought}]
        yield {
            "id": "rs_1",
            "type": "reasoning",
            "summary": summary,
            "encrypted_content": SIGNATURE,
        }
    if reply.text:
        content = [{"type": "output_text", "text": reply.text, "annotations": []}]
        yield _message("completed", content)
    yield from (_call(call, call.arguments, "completed") for call in reply.calls)


def _message(status: str, content: list[dict[str, Any]]) -> dict[str, Any]:
    head = {"id": "msg_1", "type": "message", "role": "assistant"}
    return head | {"status": status, "content": content}


def _call(call: Call, arguments: str, status: str) -> dict[str, Any]:
    named = {"id": f"fc_{call.id}", "call_id": call.id, "name": call.name}
    return {"type": "function_call", "arguments": arguments, "status": status} | named


def events(reply: Reply, asked: Asked) -> Iterator[bytes]:
    """The answer as a stream."""
    frames: list[tuple[str, dict[str, Any]]] = [("response.created", {"response": _frame(asked)})]
    for place, item in enumerate(_items(reply)):
        begun = {"output_index": place, "item": _begun(item)}
        frames.append(("response.output_item.added", begun))
        frames += [(kind, members | {"output_index": place}) for kind, members in _deltas(item)]
        frames.append(("response.output_item.done", {"output_index": place, "item": item}))
    last = "response.incomplete" if reply.stop == "length" else "response.completed"
    frames.append((last, {"response": whole(reply, asked)}))
    for number, (kind, members) in enumerate(frames):
        yield sse_event({"type": kind, "sequence_number": number} | members, event=kind)


def _begun(item: dict[str, Any]) -> dict[str, Any]:
    empty: dict[str, dict[str, Any]] = {
        "message": {"status": "in_progress", "content": []},
        "function_call": {"status": "in_progress", "arguments": ""},
        "reasoning": {"summary": []},
    }
    kept = {name: value for name, value in item.items() if name != "encrypted_content"}
    return kept | empty[item["type"]]


def _deltas(item: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    about = {"item_id": item["id"]}
    if item["type"] == "reasoning":
        place = about | {"summary_index": 0}
        part = {"type": "summary_text", "text": ""}
        yield "response.reasoning_summary_part.added", place | {"part": part}
        for piece in cut(item["summary"][0]["text"], 5):
            yield "response.reasoning_summary_text.delta", place | {"delta": piece}
    elif item["type"] == "message":
        place = about | {"content_index": 0}
        text = item["content"][0]["text"]
        empty = {"type": "output_text", "text": "", "annotations": []}
        yield "response.content_part.added", place | {"part": empty}
        for piece in cut(text, 4):
            yield "response.output_text.delta", place | {"delta": piece, "logprobs": []}
        yield "response.output_text.done", place | {"text": text, "logprobs": []}
        yield "response.content_part.done", place | {"part": empty | {"text": text}}
    else:
        for piece in cut(item["arguments"], 7):
            yield "response.function_call_arguments.delta", about | {"delta": piece}
        done = {"arguments": item["arguments"], "name": item["name"]}
        yield "response.function_call_arguments.done", about | done


def problem(status: int, message: str) -> dict[str, Any]:
    """An error answer."""
    kind = "rate_limit_error" if status == 429 else "server_error"
    if status == 400:
        kind = "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": f"code_{status}"}}


def problem_event(message: str) -> bytes:
    """An error inside a stream."""
    members = {"code": "server_error", "message": message, "param": None, "sequence_number": 9}
    return sse_event({"type": "error"} | members, event="error")
