"""What a provider promises that answers inside the process: answers as a host would give them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from relay_gateway.errors import UpstreamError
from relay_gateway.http.sse import EventSplitter, parse_event
from relay_gateway.plugin import (
    Endpoint,
    LocalAnswer,
    Problem,
    Reading,
    UpstreamHost,
    UpstreamProvider,
    WireFormat,
)
from relay_gateway.registry import Registry
from relay_gateway.testing.conformance.providers import (
    CREDENTIAL,
    NEVER_TO_CALLERS,
    TOKEN,
    ProviderConformance,
    call_of,
)
from relay_gateway.testing.conformance.silence import assert_silent, wording
from relay_gateway.testing.conformance.wire_formats import NONSENSE, AnswerSample, StreamSample

AT_ONCE = 8
EVENT_STREAM = b"text/event-stream"


@dataclass(frozen=True, slots=True)
class LocalSample:
    """A request that is answered with 200, and what the format's meter must read from the answer.

    The gateway names the model ``acme`` to the provider, whatever the body says.
    """

    wire_format: str
    body: bytes
    reading: Reading
    streamed: bool = False
    usage_only: Sequence[int] = field(default_factory=tuple)
    """Indexes of the events that carry nothing but usage figures."""


@dataclass(frozen=True, slots=True)
class LocalReply:
    """An answer that was received to its end."""

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    chunks: Sequence[bytes]

    @property
    def body(self) -> bytes:
        """All chunks together."""
        return b"".join(self.chunks)

    @property
    def events(self) -> list[tuple[bytes, bytes]]:
        """The body as server-sent events, wherever its chunks are cut."""
        splitter = EventSplitter()
        raw = [event for chunk in self.chunks for event in splitter.feed(chunk)]
        assert not splitter.rest(), "the stream ends in the middle of an event"
        return [parse_event(event) for event in raw]


class LocalProviderConformance(ProviderConformance):
    """Subclass and provide ``provider`` and ``local_samples``: at least one whole answer of each
    format that it speaks, and a stream of each that streams.

    What a wire format promises is tested on the answers that the provider really gives.
    """

    @pytest.fixture
    def local_samples(self) -> Sequence[LocalSample]:
        """Requests, and what must be read from their answers."""
        raise NotImplementedError

    @pytest.fixture
    def formats(self, provider: UpstreamProvider) -> Mapping[str, WireFormat]:
        """The wire formats that it speaks, its own and those of what else is installed."""
        installed = Registry.discover().upstream_providers.values()
        defined = {
            wire_format.name: wire_format
            for one in (*installed, type(provider))
            for wire_format in one.defines
        }
        unknown = [name for name in provider.wire_formats if name not in defined]
        assert unknown == [], f"nothing that is installed defines {', '.join(unknown)}"
        return {name: defined[name]() for name in provider.wire_formats}

    @pytest.fixture
    async def opened(self, provider: UpstreamProvider) -> AsyncIterator[UpstreamProvider]:
        """The provider between ``aopen`` and ``aclose``."""
        await provider.aopen()
        yield provider
        await provider.aclose()

    @pytest.fixture
    async def replies(
        self,
        opened: UpstreamProvider,
        host: UpstreamHost,
        formats: Mapping[str, WireFormat],
        local_samples: Sequence[LocalSample],
    ) -> Sequence[tuple[LocalSample, LocalReply]]:
        """Each sample with the answer to it."""
        return [
            (sample, await _ask(opened, host, formats, sample, streamed=sample.streamed))
            for sample in local_samples
        ]

    @pytest.fixture
    def answer_samples(
        self, replies: Sequence[tuple[LocalSample, LocalReply]]
    ) -> Sequence[AnswerSample]:
        """The whole answers that it gave."""
        return [
            AnswerSample(sample.wire_format, reply.body, sample.reading)
            for sample, reply in replies
            if not sample.streamed
        ]

    @pytest.fixture
    def stream_samples(
        self, replies: Sequence[tuple[LocalSample, LocalReply]]
    ) -> Sequence[StreamSample]:
        """The streams that it gave."""
        return [
            StreamSample(sample.wire_format, reply.events, sample.reading, sample.usage_only)
            for sample, reply in replies
            if sample.streamed
        ]

    def test_it_answers_by_itself(self, provider: UpstreamProvider) -> None:
        assert provider.local, (
            "its answer() is never called without local = True: subclass "
            "UpstreamProviderConformance, or declare it"
        )

    def test_an_answer_is_well_formed(
        self, replies: Sequence[tuple[LocalSample, LocalReply]]
    ) -> None:
        for sample, reply in replies:
            assert reply.status == 200, f"{sample} was answered {reply.status}: {reply.body!r}"
            headers = _checked_headers(reply)
            streams = headers.get(b"content-type", b"").startswith(EVENT_STREAM)
            assert streams == sample.streamed, "a stream, and nothing else, is text/event-stream"
            assert reply.body, "an answer without a body"

    async def test_answers_at_once_share_nothing(
        self,
        opened: UpstreamProvider,
        host: UpstreamHost,
        formats: Mapping[str, WireFormat],
        local_samples: Sequence[LocalSample],
    ) -> None:
        samples = [*local_samples] * AT_ONCE
        replies = await asyncio.gather(
            *(_ask(opened, host, formats, one, streamed=one.streamed) for one in samples)
        )
        for sample, reply in zip(samples, replies, strict=True):
            read = _read(formats[sample.wire_format], sample, reply)
            assert read == sample.reading, "answers given at once are mixed up"

    async def test_a_caller_that_goes_early_disturbs_nobody(
        self,
        opened: UpstreamProvider,
        host: UpstreamHost,
        formats: Mapping[str, WireFormat],
        local_samples: Sequence[LocalSample],
    ) -> None:
        for sample in local_samples:
            endpoint = formats[sample.wire_format].endpoints[0]
            answer = await _answer(opened, host, sample, endpoint, streamed=sample.streamed)
            await anext(answer.chunks)
            await _leave(answer)
            again = await _ask(opened, host, formats, sample, streamed=sample.streamed)
            assert _read(formats[sample.wire_format], sample, again) == sample.reading

    @pytest.mark.parametrize("body", NONSENSE, ids=range(len(NONSENSE)))
    async def test_what_is_no_request_gets_an_answer_in_the_formats_words(
        self,
        opened: UpstreamProvider,
        host: UpstreamHost,
        formats: Mapping[str, WireFormat],
        body: bytes,
    ) -> None:
        for name, endpoint in _endpoints(formats):
            sample = LocalSample(name, body, Reading())
            for streamed in {False, endpoint.streams}:
                try:
                    answer = await _answer(opened, host, sample, endpoint, streamed=streamed)
                    reply = await _received(answer)
                except UpstreamError:
                    continue
                _checked_headers(reply)
                _assert_worded(formats[name], reply)

    @pytest.mark.parametrize("body", NONSENSE, ids=range(len(NONSENSE)))
    async def test_the_credential_is_never_shown(
        self,
        opened: UpstreamProvider,
        host: UpstreamHost,
        formats: Mapping[str, WireFormat],
        local_samples: Sequence[LocalSample],
        body: bytes,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        caplog.set_level("DEBUG")
        broken = [LocalSample(name, body, Reading()) for name in formats]
        for sample in (*local_samples, *broken):
            endpoint = formats[sample.wire_format].endpoints[0]
            try:
                answer = await _answer(opened, host, sample, endpoint, streamed=sample.streamed)
                reply = await _received(answer)
                shown = f"{answer!r} {reply!r}".encode() + reply.body
            except UpstreamError as error:
                shown = wording(error).encode()
            whole = f"{opened!r} {opened.config!r} {host!r}".encode()
            texts = {"answer or error": shown, "provider": whole, "log": caplog.text.encode()}
            assert_silent(CREDENTIAL, texts)


async def _answer(
    provider: UpstreamProvider,
    host: UpstreamHost,
    sample: LocalSample,
    endpoint: Endpoint,
    *,
    streamed: bool,
) -> LocalAnswer:
    headers = [(name, b"caller") for name in sorted(provider.request_headers)]
    call = call_of(host, sample.wire_format, endpoint, sample.body, headers, streamed=streamed)
    return await provider.answer(call)


async def _ask(
    provider: UpstreamProvider,
    host: UpstreamHost,
    formats: Mapping[str, WireFormat],
    sample: LocalSample,
    *,
    streamed: bool,
) -> LocalReply:
    endpoint = formats[sample.wire_format].endpoints[0]
    return await _received(await _answer(provider, host, sample, endpoint, streamed=streamed))


async def _received(answer: LocalAnswer) -> LocalReply:
    chunks = [chunk async for chunk in answer.chunks]
    return LocalReply(answer.status, answer.headers, chunks)


async def _leave(answer: LocalAnswer) -> None:
    close = getattr(answer.chunks, "aclose", None)
    assert close is not None, "chunks is no async generator: nothing tells it of a gone caller"
    await close()


def _read(wire_format: WireFormat, sample: LocalSample, reply: LocalReply) -> Reading:
    meter = wire_format.meter()
    if sample.streamed:
        for name, data in reply.events:
            meter.event(name, data)
    else:
        meter.body(reply.body)
    return meter.reading


def _endpoints(formats: Mapping[str, WireFormat]) -> Iterator[tuple[str, Endpoint]]:
    for name, wire_format in formats.items():
        for endpoint in wire_format.endpoints:
            yield name, endpoint


def _checked_headers(reply: LocalReply) -> dict[bytes, bytes]:
    for name, value in reply.headers:
        assert name, "a header without a name"
        assert TOKEN.issuperset(name), f"{name!r} is not a header name"
        assert name == name.lower(), f"{name!r}: names of headers are lower case"
        assert not set(value) & set(b"\r\n\x00"), f"the value of {name!r} breaks its line"
    headers = dict(reply.headers)
    taken = headers.keys() & (NEVER_TO_CALLERS - {b"content-length"})
    assert not taken, f"{sorted(taken)} are the gateway's to send"
    length = headers.get(b"content-length", b"%d" % len(reply.body))
    assert length == b"%d" % len(reply.body), f"content-length {length!r} is not the body's"
    return headers


def _assert_worded(wire_format: WireFormat, reply: LocalReply) -> None:
    if reply.status < 400:
        return
    problem = Problem(reply.status, "invalid_request", "no")
    usual = json.loads(wire_format.dialect().error(problem)[1])
    given = json.loads(reply.body)
    assert isinstance(given, dict), "an error is a JSON object"
    assert given.keys() == usual.keys(), (
        f"an error of {wire_format.name} has {sorted(usual)}, not {sorted(given)}"
    )
