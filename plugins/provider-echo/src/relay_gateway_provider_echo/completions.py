"""Completions, the older interface that takes a prompt, as OpenAI's API reference has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from relay_gateway_provider_echo.chat import (
    DONE,
    FINISH,
    PositiveInt,
    StreamOptions,
    usage_of,
    wants_usage,
)
from relay_gateway_provider_echo.reply import Reply
from relay_gateway_provider_echo.speaker import Speaker, data_event
from relay_gateway_provider_echo.turn import ToolUse, Turn, decode, invalid
from relay_gateway_provider_echo.words import count_words


class _Request(msgspec.Struct):
    model: str
    prompt: str | Annotated[list[str], Meta(min_length=1, max_length=1)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: PositiveInt | None = None
    n: PositiveInt | None = None


class CompletionsSpeaker(Speaker):
    """Speaks ``openai.completions``, with one prompt and one choice."""

    def __init__(self, body: bytes) -> None:
        request = decode(body, _Request)
        if request.n not in (None, 1):
            raise invalid("echo gives one choice; 'n' must be 1", "n")
        self._usage = wants_usage(request.stream, request.stream_options)
        prompt = request.prompt if isinstance(request.prompt, str) else request.prompt[0]
        self.turn = Turn(
            prompt, count_words([prompt]), tool_use=ToolUse.NEVER, limit=request.max_tokens
        )

    def whole(self, reply: Reply) -> object:
        return _answer(reply, [_choice(reply.text, FINISH[reply.finish])]) | {
            "usage": usage_of(reply)
        }

    def stream(self, reply: Reply) -> Iterator[bytes]:
        for piece in reply.pieces:
            yield self._chunk(reply, [_choice(piece, None)])
        yield self._chunk(reply, [_choice("", FINISH[reply.finish])])
        if self._usage:
            yield self._chunk(reply, [], usage_of(reply))
        yield DONE

    def _chunk(
        self, reply: Reply, choices: list[dict[str, Any]], usage: dict[str, Any] | None = None
    ) -> bytes:
        chunk = _answer(reply, choices)
        return data_event(chunk | {"usage": usage} if self._usage else chunk)


def _answer(reply: Reply, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": f"cmpl-{reply.key}",
        "object": "text_completion",
        "created": reply.created,
        "model": reply.model,
        "choices": choices,
        "system_fingerprint": "fp_echo",
    }


def _choice(text: str, finish: str | None) -> dict[str, Any]:
    return {"text": text, "index": 0, "logprobs": None, "finish_reason": finish}
