"""Upstreams that speak: one address that answers in every wire format, and sensibly.

They are written after the providers' documentation and know nothing of the codecs, so that both
sides of a translation are judged by somebody else.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from relay_gateway.testing.ledger import SeenRequest
from relay_gateway.testing.script import (
    LAST_CHUNK,
    Hang,
    Reset,
    Script,
    Send,
    Step,
    json_response,
    response,
    sse_response,
)
from relay_gateway.testing.speakers import chat, generate, messages, responses
from relay_gateway.testing.speakers.scene import Asked, reply_to

EMBEDDING = [0.5, -0.25, 1.0]
UPSTREAM_REQUEST_ID = "req-of-the-upstream"
_HEADERS = (("x-request-id", UPSTREAM_REQUEST_ID), ("request-id", UPSTREAM_REQUEST_ID))
_BY_ENDING: Sequence[tuple[str, ModuleType]] = (
    ("/chat/completions", chat),
    ("/responses", responses),
    ("/messages", messages),
    (":generateContent", generate),
    (":streamGenerateContent", generate),
)


def speak(request: SeenRequest) -> Script:
    """The answer of a speaking upstream; goes into a scripted one as its ``answer``."""
    path = request.target.partition("?")[0]
    if path.endswith("/embeddings"):
        return _embeddings(request)
    for ending, speaker in _BY_ENDING:
        if path.endswith(ending):
            return _answer(speaker, speaker.hear(_named(request.json(), path)))
    return json_response(404, {"error": {"message": f"nothing is at {path}"}})


def _named(body: dict[str, Any], path: str) -> dict[str, Any]:
    """The body with what some formats say in the path only."""
    model, colon, operation = path.rpartition("/")[2].partition(":")
    return body | {"model": model, "stream": operation.startswith("stream")} if colon else body


def _answer(speaker: ModuleType, asked: Asked) -> Script:
    if asked.failure is not None:
        message = f"told to fail with {asked.failure}"
        return json_response(asked.failure, speaker.problem(asked.failure, message), _HEADERS)
    if asked.directive == "html":
        return response(200, b"<html>down</html>", (("content-type", "text/html"),))
    if not asked.streamed:
        return json_response(200, speaker.whole(reply_to(asked), asked), _HEADERS)
    return _stream(speaker, asked)


def _stream(speaker: ModuleType, asked: Asked) -> Script:
    told = list(speaker.events(reply_to(asked), asked))
    half = told[: len(told) // 2]
    error = speaker.problem_event("told to fail")
    whole: tuple[list[bytes], Step] = (told, Send(LAST_CHUNK))
    wayward: dict[str, tuple[list[bytes], Step]] = {
        "cut": (half, Send(LAST_CHUNK)),
        "reset": (half, Reset()),
        "late error": ([*half, error], Send(LAST_CHUNK)),
        "error first": ([error], Send(LAST_CHUNK)),
        "empty": ([], Send(LAST_CHUNK)),
        "hang": (half, Hang()),
        "comments": ([b": busy\n\n", b":\n\n"], Send(LAST_CHUNK)),
    }
    events, ending = wayward.get(asked.directive, whole)
    return sse_response(events, headers=_HEADERS, ending=[ending])


def _embeddings(request: SeenRequest) -> Script:
    body = request.json()
    texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
    vector: object = EMBEDDING
    if body.get("encoding_format") == "base64":
        vector = "AAAAPwAAgL4AAIA/"  # the same, as little-endian floats of 32 bits
    data = [
        {"object": "embedding", "index": number, "embedding": vector}
        for number in range(len(texts))
    ]
    usage = {"prompt_tokens": 7, "total_tokens": 7}
    answer = {"object": "list", "data": data, "model": body["model"], "usage": usage}
    return json_response(200, answer)
