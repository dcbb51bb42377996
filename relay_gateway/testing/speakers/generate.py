"""A speaking upstream's generateContent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from relay_gateway.testing.script import sse_event
from relay_gateway.testing.speakers.scene import FIGURES, SIGNATURE, Asked, Reply, cut

_STOPS = {"end": "STOP", "length": "MAX_TOKENS", "tools": "STOP"}
USAGE = {
    "promptTokenCount": FIGURES["input"],
    "cachedContentTokenCount": FIGURES["cached"],
    "candidatesTokenCount": FIGURES["output"] - FIGURES["reasoning"],
    "thoughtsTokenCount": FIGURES["reasoning"],
    "totalTokenCount": FIGURES["input"] + FIGURES["output"],
}
_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}


def hear(body: dict[str, Any]) -> Asked:
    """What a request asks; ``model`` and ``stream`` were taken from the path."""
    contents: list[dict[str, Any]] = body["contents"]
    parts = [part for content in contents for part in content["parts"]]
    said = [one for one in contents if one.get("role", "user") == "user" and _said(one)]
    last = said[-1]["parts"] if said else []
    config = body.get("generationConfig") or {}
    return Asked(
        text=" ".join(part["text"] for part in last if "text" in part),
        model=body["model"],
        streamed=body["stream"],
        tools={
            function["name"]: function.get("parametersJsonSchema")
            or function.get("parameters_json_schema")
            or _lowered(function.get("parameters"))
            for tool in body.get("tools", ())
            for function in tool["functionDeclarations"]
        },
        results=tuple(
            _result(part["functionResponse"]["response"])
            for part in contents[-1]["parts"]
            if "functionResponse" in part
        ),
        media=tuple(kind for part in last if (kind := _kind(part))),
        signatures=tuple(part["thoughtSignature"] for part in parts if "thoughtSignature" in part),
        schema=config.get("responseJsonSchema") or _lowered(config.get("responseSchema")),
    )


def _lowered(schema: Any) -> Any:
    """A schema with its types in lower case, where the API's own dialect writes them large."""
    if not isinstance(schema, dict):
        return schema
    lowered = {name: _lowered(value) for name, value in schema.items()}
    return lowered | ({"type": lowered["type"].lower()} if "type" in lowered else {})


def _said(content: dict[str, Any]) -> bool:
    return any("functionResponse" not in part for part in content["parts"])


def _result(response: dict[str, Any]) -> str:
    return " ".join(str(value) for value in response.values())


def _kind(part: dict[str, Any]) -> str:
    if "fileData" in part:
        return str(part["fileData"]["fileUri"])
    # The API takes both spellings, and its clients use either.
    data = part.get("inlineData") or part.get("inline_data") or {}
    return str(data.get("mimeType") or data.get("mime_type") or "")


def whole(reply: Reply, asked: Asked) -> dict[str, Any]:
    """The answer at once."""
    return _body(asked, list(_parts(reply)), _STOPS[reply.stop])


def _body(asked: Asked, parts: list[dict[str, Any]], reason: str | None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if reason is not None:
        candidate["finishReason"] = reason
    head = {"modelVersion": asked.model, "responseId": "rid-1"}
    return {"candidates": [candidate], "usageMetadata": USAGE} | head


def _parts(reply: Reply) -> Iterator[dict[str, Any]]:
    """The parts; a thought's signature comes with what follows it."""
    signed = {"thoughtSignature": SIGNATURE} if reply.thought else {}
    if reply.thought:
        yield {"text": reply.thought, "thought": True}
    if reply.text:
        yield {"text": reply.text} | signed
        signed = {}
    for call in reply.calls:
        function = {"id": call.id, "name": call.name, "args": json.loads(call.arguments)}
        yield {"functionCall": function} | signed
        signed = {}


def events(reply: Reply, asked: Asked) -> Iterator[bytes]:
    """The answer as a stream; calls are never cut."""
    parts = [piece for part in _parts(reply) for piece in _pieces(part)]
    for number, part in enumerate(parts, 1):
        reason = _STOPS[reply.stop] if number == len(parts) else None
        yield sse_event(_body(asked, [part], reason))


def _pieces(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "text" not in part:
        yield part
        return
    rest = part
    for piece in cut(part["text"], 5):
        yield rest | {"text": piece}
        rest = {name: value for name, value in part.items() if name != "thoughtSignature"}


def problem(status: int, message: str) -> dict[str, Any]:
    """An error answer."""
    kind = _STATUSES.get(status, "INTERNAL")
    return {"error": {"code": status, "message": message, "status": kind}}


def problem_event(message: str) -> bytes:
    """An error inside a stream."""
    return sse_event(problem(503, message))
