"""The suite for local providers passes a sound one and names what is wrong with a broken one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from relay_gateway.errors import UpstreamClosedError
from relay_gateway.plugin import (
    CONTENT,
    TERMINAL,
    AdapterConfig,
    Dialect,
    Endpoint,
    LocalAnswer,
    PluginConfig,
    Problem,
    Reading,
    UpstreamCall,
    UpstreamHost,
    UpstreamProvider,
    UsageMeter,
    WireFormat,
    count,
)
from relay_gateway.testing.conformance import LocalProviderConformance, LocalSample
from relay_gateway.testing.conformance.local_providers import LocalReply
from relay_gateway.testing.conformance.providers import CREDENTIAL
from relay_gateway.testing.context import plugin_context

WHOLE = (b"content-type", b"application/json")
STREAM = (b"content-type", b"text/event-stream")


class ParrotMeter(UsageMeter):
    """Reads the number of words, and the end of a stream by its event's name."""

    def body(self, body: bytes) -> None:
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            return
        words = count(answer.get("words")) if isinstance(answer, dict) else None
        if words is not None:
            self.reading.tokens["output"] = words

    def event(self, name: bytes, data: bytes) -> int:
        if name == b"end":
            self.body(data)
            return TERMINAL
        return CONTENT if name == b"word" else 0


class ParrotFormat(WireFormat):
    name = "parrot.talk"
    endpoints = (Endpoint("talk", "/v1/talk", "/talk"),)

    def meter(self) -> UsageMeter:
        return ParrotMeter()


async def spoken(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


class Parrot(UpstreamProvider[PluginConfig]):
    """Says again what it was told as ``{"say": "…"}``; streams come in chunks of 7 bytes."""

    name = "parrot"
    wire_formats = ("parrot.talk",)
    defines = (ParrotFormat,)
    local = True

    async def answer(self, call: UpstreamCall) -> LocalAnswer:
        words = self.heard(call.body)
        if words is None:
            return LocalAnswer(400, [WHOLE], spoken([self.complaint()]))
        counted = json.dumps({"words": len(words)}).encode()
        if not call.streamed:
            return LocalAnswer(200, [WHOLE], spoken([counted]))
        events = [b"event: word\ndata: %s\n\n" % json.dumps(word).encode() for word in words]
        stream = b"".join([*events, b"event: end\ndata: %s\n\n" % counted])
        chunks = [stream[start : start + 7] for start in range(0, len(stream), 7)]
        return LocalAnswer(200, [STREAM], spoken(chunks))

    def heard(self, body: bytes) -> list[str] | None:
        try:
            request = json.loads(body)
        except (ValueError, RecursionError):
            return None
        said = request.get("say") if isinstance(request, dict) else None
        return said.split() if isinstance(said, str) else None

    def complaint(self) -> bytes:
        return Dialect().error(Problem(400, "invalid_request", "nothing was said"))[1]


SAMPLES = (
    LocalSample("parrot.talk", b'{"say":"a b c"}', Reading({"output": 3})),
    LocalSample("parrot.talk", b'{"say":"a b"}', Reading({"output": 2}), streamed=True),
)


class TestParrot(LocalProviderConformance):
    @pytest.fixture
    def provider(self, tmp_path: Path) -> UpstreamProvider:
        return Parrot(PluginConfig(), plugin_context(tmp_path))

    @pytest.fixture
    def local_samples(self) -> Sequence[LocalSample]:
        return SAMPLES


class Forgetful(Parrot):
    """Keeps the words of one request for the next."""

    def heard(self, body: bytes) -> list[str] | None:
        words = super().heard(body)
        self.said: list[str] = [*getattr(self, "said", []), *(words or [])]
        return self.said


class Untidy(Parrot):
    def complaint(self) -> bytes:
        return b'{"oops":"nothing was said"}'


class Crashing(Parrot):
    def heard(self, body: bytes) -> list[str] | None:
        words: list[str] = json.loads(body)["say"].split()
        return words


class Breaking(Parrot):
    """What a real exchange may do, too: an answer that breaks off."""

    def heard(self, body: bytes) -> list[str] | None:
        words = super().heard(body)
        if words is None:
            raise UpstreamClosedError("the parrot flew away")
        return words


class Boasting(Parrot):
    async def answer(self, call: UpstreamCall) -> LocalAnswer:
        answer = await super().answer(call)
        shown = call.secret.reveal().encode() if call.secret is not None else b""
        return LocalAnswer(answer.status, [*answer.headers, (b"x-key", shown)], answer.chunks)


class Chatty(Parrot):
    async def answer(self, call: UpstreamCall) -> LocalAnswer:
        self.context.logger.debug("asked with %s", call.secret and call.secret.reveal())
        return await super().answer(call)


class Stubborn(Parrot):
    """Gives an iterator that cannot be closed."""

    async def answer(self, call: UpstreamCall) -> LocalAnswer:
        answer = await super().answer(call)
        chunks = [chunk async for chunk in answer.chunks]
        return LocalAnswer(answer.status, answer.headers, Unclosable(chunks))


class Unclosable:
    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = chunks

    def __aiter__(self) -> Unclosable:
        return self

    async def __anext__(self) -> bytes:
        if not self._chunks:
            raise StopAsyncIteration
        return self._chunks.pop(0)


SUITE = LocalProviderConformance()
HOST = UpstreamHost("h1", "parrot", "http://parrot.test", "", AdapterConfig())
FORMATS: Mapping[str, WireFormat] = {"parrot.talk": ParrotFormat()}


def parrot(kind: type[Parrot], directory: Path) -> Parrot:
    return kind(PluginConfig(), plugin_context(directory))


async def test_a_provider_that_mixes_up_answers_is_told(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="mixed up"):
        await SUITE.test_answers_at_once_share_nothing(
            parrot(Forgetful, tmp_path), HOST, FORMATS, SAMPLES
        )


async def test_a_provider_whose_answers_cannot_be_left_is_told(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="nothing tells it of a gone caller"):
        await SUITE.test_a_caller_that_goes_early_disturbs_nobody(
            parrot(Stubborn, tmp_path), HOST, FORMATS, SAMPLES
        )


async def test_a_provider_that_words_errors_its_own_way_is_told(tmp_path: Path) -> None:
    check = SUITE.test_what_is_no_request_gets_an_answer_in_the_formats_words
    with pytest.raises(AssertionError, match=r"an error of parrot\.talk has \['error'\]"):
        await check(parrot(Untidy, tmp_path), HOST, FORMATS, b"{")
    with pytest.raises(ValueError, match="Expecting"):
        await check(parrot(Crashing, tmp_path), HOST, FORMATS, b"{")
    await check(parrot(Breaking, tmp_path), HOST, FORMATS, b"{")


@pytest.mark.parametrize(("broken", "place"), [(Boasting, "answer or error"), (Chatty, "log")])
async def test_a_provider_that_shows_the_credential_is_told(
    broken: type[Parrot], place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(AssertionError, match=f"can be read in: {place}") as caught:
        await SUITE.test_the_credential_is_never_shown(
            parrot(broken, tmp_path), HOST, FORMATS, SAMPLES, b"{", caplog
        )
    assert CREDENTIAL not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "headers", "chunks", "complaint"),
    [
        (404, [WHOLE], [b"{}"], "was answered 404"),
        (200, [STREAM], [b"{}"], "a stream, and nothing else"),
        (200, [WHOLE], [], "without a body"),
        (200, [(b"Content-Type", b"application/json")], [b"{}"], "lower case"),
        (200, [WHOLE, (b"connection", b"close")], [b"{}"], "the gateway's to send"),
        (200, [WHOLE, (b"content-length", b"9")], [b"{}"], "not the body's"),
        (200, [WHOLE, (b"x", b"a\r\nb: c")], [b"{}"], "breaks its line"),
        (200, [WHOLE, (b"x y", b"a")], [b"{}"], "not a header name"),
    ],
)
def test_an_answer_that_no_host_could_give_is_told(
    status: int, headers: list[tuple[bytes, bytes]], chunks: list[bytes], complaint: str
) -> None:
    replies = [(SAMPLES[0], LocalReply(status, headers, chunks))]
    with pytest.raises(AssertionError, match=complaint):
        SUITE.test_an_answer_is_well_formed(replies)


def test_a_stream_that_ends_inside_an_event_is_told() -> None:
    reply = LocalReply(200, [STREAM], [b"data: 1\n\nda", b"ta: 2\n"])
    with pytest.raises(AssertionError, match="in the middle of an event"):
        _ = reply.events
