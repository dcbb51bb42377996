"""The provider that answers inside the process: what was said, word by word, or what it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from itertools import chain, pairwise
from typing import Annotated

import msgspec
from pydantic import Field

from relay_gateway.errors import RequestRefusedError, UpstreamClosedError
from relay_gateway.plugin import AdapterConfig, LocalAnswer, UpstreamCall, UpstreamProvider
from relay_gateway_provider_echo.chat import ChatSpeaker
from relay_gateway_provider_echo.completions import CompletionsSpeaker
from relay_gateway_provider_echo.directives import MAX_DELAY_MS, Script, script_of
from relay_gateway_provider_echo.embeddings import EmbeddingsSpeaker
from relay_gateway_provider_echo.judgements import ModerationsSpeaker, RerankSpeaker
from relay_gateway_provider_echo.messages import CountTokensSpeaker, MessagesSpeaker
from relay_gateway_provider_echo.reply import compose
from relay_gateway_provider_echo.responses import ResponsesSpeaker
from relay_gateway_provider_echo.speaker import Speaker

EVENT_STREAM = b"text/event-stream; charset=utf-8"

SPEAKERS: Mapping[str, type[Speaker]] = {
    "openai.chat": ChatSpeaker,
    "openai.responses": ResponsesSpeaker,
    "openai.completions": CompletionsSpeaker,
    "openai.embeddings": EmbeddingsSpeaker,
    "openai.moderations": ModerationsSpeaker,
    "openai.rerank": RerankSpeaker,
    "anthropic.messages": MessagesSpeaker,
    "anthropic.count_tokens": CountTokensSpeaker,
}

Milliseconds = Annotated[int, Field(ge=0, le=MAX_DELAY_MS)]


class EchoHost(AdapterConfig):
    """``adapterConfig`` of a host: milliseconds before an answer begins, and before each further
    piece of a stream."""

    latency_ms: Milliseconds = Field(default=0, description="Milliseconds before an answer begins.")
    chunk_delay_ms: Milliseconds = Field(
        default=0, description="Milliseconds before each further piece of a stream."
    )


class EchoProvider(UpstreamProvider):
    """Answers without any network: the same to the same request, with one token per word."""

    name = "echo"
    HostConfig = EchoHost
    wire_formats = tuple(SPEAKERS)
    local = True

    async def answer(self, call: UpstreamCall) -> LocalAnswer:
        """The answer to ``call``; errors are answers too, in the shape of the call's format."""
        config: EchoHost = call.host.config
        await _pause(config.latency_ms)
        speaking = SPEAKERS[call.wire_format]
        try:
            return await self._answer(call, speaking(call.body), config)
        except RequestRefusedError as refused:
            return _refused(speaking, refused)

    async def _answer(self, call: UpstreamCall, speaker: Speaker, config: EchoHost) -> LocalAnswer:
        script = script_of(speaker.turn)
        await _pause(script.delay_ms)
        _fail_as_told(script)
        reply = compose(
            speaker.turn,
            script,
            model=call.upstream_model,
            body=call.body,
            created=int(self.context.clock.time()),
        )
        if call.streamed and call.endpoint.streams:
            chunks = _until_told(speaker.stream(reply), script.break_after)
            return LocalAnswer(
                200, [(b"content-type", EVENT_STREAM)], _paced(chunks, config.chunk_delay_ms)
            )
        return _whole(200, msgspec.json.encode(speaker.whole(reply)), script.break_after)


async def _pause(milliseconds: int) -> None:
    if milliseconds:
        await asyncio.sleep(milliseconds / 1000)


def _fail_as_told(script: Script) -> None:
    if script.status is not None:
        raise RequestRefusedError(
            script.status,
            "scripted",
            script.message or f"echo was told to answer {script.status}",
            retry_after=script.retry_after,
        )


def _refused(speaking: type[Speaker], refused: RequestRefusedError) -> LocalAnswer:
    answer = _whole(*speaking.refusal(refused))
    if refused.retry_after is not None:
        answer.headers = [*answer.headers, (b"retry-after", b"%g" % refused.retry_after)]
    return answer


def _whole(status: int, body: bytes, break_after: int | None = None) -> LocalAnswer:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    return LocalAnswer(status, headers, _paced(_until_told([body], break_after)))


def _until_told(chunks: Iterable[bytes], break_after: int | None) -> Iterator[bytes]:
    """The chunks, or the first ``break_after`` and then an end as of a broken connection.

    It comes before the last chunk at the latest, so an answer told to break is never complete.
    """
    if break_after is None:
        yield from chunks
        return
    for number, (chunk, following) in enumerate(pairwise(chain(chunks, (None,)))):
        if chunk is None or following is None or number == break_after:
            raise UpstreamClosedError(f"echo was told to break off after {break_after} chunks")
        yield chunk


async def _paced(chunks: Iterator[bytes], delay_ms: int = 0) -> AsyncIterator[bytes]:
    """The chunks, ``delay_ms`` apart."""
    first = True
    for chunk in chunks:
        if not first:
            await _pause(delay_ms)
        first = False
        yield chunk
