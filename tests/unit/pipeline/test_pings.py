"""Signs of life in quiet streams that are translated, and in no others."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from relay_gateway.catalog.sections import Inference, RuntimeSettings
from relay_gateway.catalog.snapshot import Snapshot
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.forward import Forwarder
from relay_gateway.pipeline.translate import Translation
from relay_gateway.plugin import AnswerContext, WireFormat
from relay_gateway.plugin.canonical import CanonicalRequest
from relay_gateway.testing.accounts import FakeAccounts
from relay_gateway.testing.callers import FakeCaller
from relay_gateway.testing.exchanges import FakeExchange
from relay_gateway_provider_gemini.formats import GenerateFormat
from relay_gateway_provider_openai.formats import ChatFormat, ResponsesFormat

PING = b": ping\n\n"
EVENT = b'data: {"id":"1","model":"m","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'
LAST = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


class Stream:
    """A stream of chat completions under way to a caller of ``wire_format``."""

    def __init__(self, wire_format: WireFormat, seconds: float, *, translated: bool = True) -> None:
        settings = RuntimeSettings(inference=Inference(stream_ping_seconds=seconds))
        snapshot = replace(Snapshot(), settings=settings)
        call = Call(wire_format.endpoints[0], wire_format, snapshot, "192.0.2.1")
        reader, writer = ChatFormat().codec(), wire_format.codec()
        assert reader is not None
        assert writer is not None
        call.streamed, call.upstream_format = True, ChatFormat()
        if translated:
            asked = CanonicalRequest(model="m", messages=(), stream=True)
            call.translation = Translation(asked, writer, reader, AnswerContext(asked, "a", 1))
        self.caller = FakeCaller(body=b"")
        self.exchange = FakeExchange(200, [(b"content-type", b"text/event-stream")])
        forwarder = Forwarder(call, self.caller, self.exchange, FakeAccounts(), set())
        forwarder.begin(b"")

    def end(self) -> None:
        self.exchange.push(LAST)
        self.exchange.end()


async def test_a_quiet_translated_stream_is_kept_alive_between_its_events() -> None:
    stream = Stream(ResponsesFormat(), 0.02)
    stream.exchange.push(EVENT)
    await stream.caller.until(lambda: stream.caller.body.count(PING) >= 2)
    stream.end()
    assert stream.caller.finished
    assert not stream.caller.aborted
    for event in stream.caller.body.split(b"\n\n")[:-1]:
        assert event.startswith((b"event: ", b"data: ", b": ping"))


async def test_no_ping_follows_the_end() -> None:
    stream = Stream(ResponsesFormat(), 0.01)
    stream.exchange.push(EVENT)
    stream.end()
    before = stream.caller.body
    other = Stream(ResponsesFormat(), 0.01)
    await other.caller.until(lambda: other.caller.body.count(PING) >= 3)
    other.end()
    assert stream.caller.body == before


async def test_no_ping_follows_the_last_event_although_the_upstream_stays() -> None:
    stream, other = Stream(ResponsesFormat(), 0.01), Stream(ResponsesFormat(), 0.01)
    stream.exchange.push(EVENT)
    stream.exchange.push(LAST)
    before = stream.caller.body
    await other.caller.until(lambda: other.caller.body.count(PING) >= 3)
    assert stream.caller.body == before
    assert not stream.caller.finished
    for each in (stream, other):
        each.end()


async def test_a_caller_that_does_not_read_is_not_pinged() -> None:
    stream, other = Stream(ResponsesFormat(), 0.01), Stream(ResponsesFormat(), 0.01)
    stream.caller.block()
    await other.caller.until(lambda: other.caller.body.count(PING) >= 3)
    assert PING not in stream.caller.body
    stream.caller.unblock()
    await stream.caller.until(lambda: PING in stream.caller.body)
    stream.end()
    other.end()


async def test_pings_can_be_turned_off_and_never_enter_a_stream_that_passes() -> None:
    silent = Stream(ResponsesFormat(), 0)
    native = Stream(ChatFormat(), 0.01, translated=False)
    other = Stream(ResponsesFormat(), 0.01)
    native.exchange.push(EVENT)
    await other.caller.until(lambda: other.caller.body.count(PING) >= 3)
    assert (silent.caller.body, native.caller.body) == (b"", EVENT)
    for stream in (silent, native, other):
        stream.end()


async def test_clients_that_stumble_over_comments_get_empty_lines() -> None:
    stream = Stream(GenerateFormat(), 0.01)
    await stream.caller.until(lambda: len(stream.caller.chunks) >= 2)
    assert set(stream.caller.chunks) == {b"\n\n"}
    stream.end()


async def test_a_busy_stream_is_not_pinged() -> None:
    stream = Stream(ResponsesFormat(), 3600)
    for _ in range(20):
        stream.exchange.push(EVENT)
        await asyncio.sleep(0)
    stream.end()
    assert PING not in stream.caller.body
