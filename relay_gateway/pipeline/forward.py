"""The way back: bytes to the caller first, then to the meter, called back per chunk without a
task."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from relay_gateway.errors import UpstreamError, UpstreamTimeoutError
from relay_gateway.http.sse import EventSplitter, parse_event
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.ports import Caller, Exchange
from relay_gateway.plugin.usage import Outcome
from relay_gateway.plugin.wire import CONTENT, FAILED, TERMINAL, USAGE_ONLY, Problem, UsageMeter

MAX_METERED_BODY = 16 * 1024 * 1024
BROKEN_STREAM = "the answer of the upstream broke off"
INTERRUPTED = "interrupted"
STOPPING = "the gateway is stopping; send the request again"

_log = logging.getLogger(__name__)


class Forwarder:
    """Carries the body of one answer. It ends in exactly one of four ways — the upstream ended,
    the upstream failed, the caller left, the gateway stops — and then calls ``settle`` once. Until
    then it is in ``running``."""

    __slots__ = (
        "_call",
        "_caller",
        "_exchange",
        "_running",
        "_settle",
        "_tap",
        "_timer",
    )

    def __init__(
        self,
        call: Call,
        caller: Caller,
        exchange: Exchange,
        settle: Callable[[Call, Caller], None],
        running: set[Forwarder],
    ) -> None:
        self._call = call
        self._caller = caller
        self._exchange = exchange
        self._settle = settle
        self._running = running
        self._tap = make_tap(call, exchange)
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, headers: bytes) -> None:
        """Sends the head of the answer and lets the body come."""
        caller, exchange = self._caller, self._exchange
        self._running.add(self)
        caller.on_disconnect = self._caller_gone
        caller.on_flow = self._flow
        if self._call.deadline is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(self._call.deadline, self._out_of_time)
        caller.start(exchange.status, headers, None if self._tap.edits else _length(exchange))
        exchange.receive(self)

    def data(self, chunk: bytes) -> None:
        """A piece of the answer."""
        call = self._call
        call.last_byte_at = now = time.monotonic()
        if call.first_byte_at is None:
            call.first_byte_at = now
        tap = self._tap
        if tap.edits:
            chunk = tap.edit(chunk)
            if chunk:
                self._caller.write(chunk)
        else:
            self._caller.write(chunk)
            tap.feed(chunk)

    def end(self) -> None:
        """The answer is complete."""
        self._tap.complete()
        held = self._tap.held()
        if held:
            self._caller.write(held)
        self._caller.finish()
        self._done()

    def failed(self, error: UpstreamError) -> None:
        """The answer broke off: the caller is told, and never sees a clean end."""
        outcome: Outcome = "timeout" if isinstance(error, UpstreamTimeoutError) else "aborted"
        self._call.fail(outcome, error.reason)
        self._break_off(502, error.reason, BROKEN_STREAM)

    def interrupt(self) -> None:
        """Ends the answer now, because the gateway has no more time for it."""
        self._exchange.cancel()
        if self._tap.terminal:
            self.end()
        else:
            self._call.fail("aborted", INTERRUPTED)
            self._break_off(503, INTERRUPTED, STOPPING)

    def _break_off(self, status: int, code: str, message: str) -> None:
        call = self._call
        if self._tap.is_stream:
            # The last event may be unfinished: a blank line keeps ours from becoming part of it.
            problem = Problem(status, code, message, request_id=call.request_id)
            event = call.wire_format.dialect().error_event(problem)
            self._caller.write(self._tap.held() + b"\n\n" + event)
        self._caller.abort()
        self._done()

    def _caller_gone(self) -> None:
        self._exchange.cancel()
        if not self._tap.terminal:
            self._call.fail("cancelled", "client_closed")
        self._done()

    def _out_of_time(self) -> None:
        self._exchange.cancel()
        self.failed(UpstreamTimeoutError("the caller's deadline has passed", phase="total"))

    def _flow(self, writable: bool) -> None:  # noqa: FBT001 - the signature of the port
        if writable:
            self._exchange.resume()
        else:
            self._exchange.pause()

    def _done(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._caller.on_disconnect = self._caller.on_flow = None
        self._running.discard(self)
        self._settle(self._call, self._caller)


class Tap:
    """What sees a copy of the answer. This one looks at nothing: for bodies that cannot be
    metered."""

    edits = False
    is_stream = False
    terminal = False

    def feed(self, chunk: bytes) -> None:
        """A chunk that has gone to the caller."""

    def edit(self, chunk: bytes) -> bytes:
        """What is to go to the caller instead of ``chunk``; only called where ``edits`` is true."""
        return chunk

    def complete(self) -> None:
        """The answer has come to its end."""

    def held(self) -> bytes:
        """What was held back and still has to go out, now that nothing more comes."""
        return b""


class BodyTap(Tap):
    """Keeps references to the chunks of an answer that is not a stream, and meters it when it is
    whole."""

    def __init__(self, call: Call, meter: UsageMeter) -> None:
        self._meter = meter
        self._chunks: list[bytes] = []
        self._size = 0
        call.reading = meter.reading

    def feed(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._size <= MAX_METERED_BODY:
            self._chunks.append(chunk)
        else:
            self._chunks.clear()

    def complete(self) -> None:
        if self._chunks:
            try:
                self._meter.body(b"".join(self._chunks))
            except Exception:  # noqa: BLE001 - metering must never cost an answer
                _log.exception("a meter failed; this answer is not metered")
            self._chunks.clear()


class StreamTap(Tap):
    """Splits a stream into events and shows each to the meter."""

    is_stream = True

    def __init__(self, call: Call, meter: UsageMeter) -> None:
        self._call = call
        self._meter = meter
        self._splitter = EventSplitter()
        self._metering = True
        call.reading = meter.reading

    def feed(self, chunk: bytes) -> None:
        if self._metering:
            for event in self._splitter.feed(chunk):
                self._show(event)

    def complete(self) -> None:
        call = self._call
        if not self.terminal and call.wire_format.stream_ends_with_terminal and self._metering:
            call.fail("upstream_error", "stream_truncated")

    def _show(self, event: bytes) -> int:
        """The meter's flags for ``event``; an exception ends metering, not the answer."""
        if not self._metering:
            return 0
        try:
            flags = self._meter.event(*parse_event(event))
        except Exception:  # noqa: BLE001 - metering must never cost an answer
            _log.exception("a meter failed; this stream is not metered any further")
            self._metering = False
            return 0
        call = self._call
        if flags & CONTENT and call.first_token_at is None:
            call.first_token_at = call.last_byte_at
        if flags & TERMINAL:
            self.terminal = True
        if flags & FAILED:
            call.fail("upstream_error", "upstream_stream_error")
            self.terminal = True
        return flags


class WithholdingTap(StreamTap):
    """A stream in which the caller did not ask for usage: events that carry nothing else stay here.

    Whole events go on at once; only the beginning of an unfinished one waits for its end.
    """

    edits = True

    def edit(self, chunk: bytes) -> bytes:
        events = self._splitter.feed(chunk)
        return b"".join([event for event in events if not self._show(event) & USAGE_ONLY])

    def held(self) -> bytes:
        return self._splitter.rest()


def make_tap(call: Call, exchange: Exchange) -> Tap:
    """The tap that fits the answer; encoded bodies and foreign content types are not looked
    into."""
    encoding = exchange.headers.get(b"content-encoding")
    if encoding is not None and encoding.lower() != b"identity":
        return Tap()
    content_type = exchange.headers.get(b"content-type") or b""
    if content_type.startswith(b"text/event-stream"):
        tap = WithholdingTap if call.withhold_usage else StreamTap
        return tap(call, call.wire_format.meter())
    if content_type.startswith(b"application/json"):
        return BodyTap(call, call.wire_format.meter())
    return Tap()


def _length(exchange: Exchange) -> int | None:
    value = exchange.headers.get(b"content-length")
    return int(value) if value is not None and value.isdigit() else None
