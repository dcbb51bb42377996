"""The way back in proxy mode: every byte as the upstream sent it, and a look at a decoded copy."""

from __future__ import annotations

import time

from relay_gateway.errors import UpstreamError, UpstreamTimeoutError
from relay_gateway.http.content_decoder import (
    ContentDecoder,
    UndecodableError,
    decoder_for,
    is_encoded,
)
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.carrier import (
    INTERRUPTED,
    TRUNCATED,
    Accounts,
    Carrier,
    Interruptible,
)
from relay_gateway.pipeline.ports import Caller, Exchange
from relay_gateway.pipeline.taps import EVENT_STREAM, JSON, BodyTap, StreamTap, Tap
from relay_gateway.plugin.wire import WireFormat

MAX_DECODED = 1024 * 1024 * 1024
"""How much of an encoded answer is decoded to meter it."""


class ProxiedAnswer(Carrier):
    """Carries an answer of proxy mode and adds nothing of its own: one that breaks off ends with an
    aborted connection, one that only lacks its last event as it came."""

    __slots__ = ()

    def __init__(
        self,
        call: Call,
        caller: Caller,
        exchange: Exchange,
        accounts: Accounts,
        running: set[Interruptible],
    ) -> None:
        tap = make_proxied_tap(call, exchange)
        super().__init__(call, caller, exchange, accounts, running, tap)

    def begin(self, headers: bytes) -> None:
        """Sends the head of the answer, ``headers`` being its header lines, and lets the body
        come."""
        exchange = self._exchange
        self._call.streamed = self._tap.is_stream
        self._watch()
        dated = b"date" in exchange.headers
        self._caller.start(exchange.status, headers, exchange.headers.length, dated=dated)
        exchange.receive(self)

    def data(self, chunk: bytes) -> None:
        """A piece of the answer."""
        self._call.last_byte_at = time.monotonic()
        tap = self._tap
        tap.feed(chunk)
        if self._exchange.body_complete:
            self._last += chunk
            return
        if tap.last:
            self._accounts.account(self._call, self._caller, len(chunk))
        self._caller.write(chunk)

    def end(self) -> None:
        """The body is complete."""
        self._tap.complete()
        if self._tap.broken:
            self._call.fail("upstream_error", TRUNCATED)
        self._finish(self._last)

    def failed(self, error: UpstreamError) -> None:
        """The answer broke off: the caller never sees a clean end."""
        timed_out = isinstance(error, UpstreamTimeoutError)
        self._call.fail("timeout" if timed_out else "aborted", error.reason)
        self._abort()

    def interrupt(self) -> None:
        """Ends the answer now, because the gateway has no more time for it."""
        self._exchange.cancel()
        if not self._tap.terminal:
            self._call.fail("aborted", INTERRUPTED)
        self._abort()


class DecodingTap(Tap):
    """Shows another tap what encoded content says, until that cannot be decoded."""

    def __init__(self, call: Call, decoder: ContentDecoder, inner: Tap) -> None:
        self._call = call
        self._decoder: ContentDecoder | None = decoder
        self._inner = inner
        self.is_stream = inner.is_stream

    def feed(self, chunk: bytes) -> None:
        if self._decoder is None:
            return
        try:
            decoded = self._decoder.feed(chunk)
        except UndecodableError:
            # What was read so far is not what was used: better no figures than wrong ones.
            self._decoder = self._call.reading = None
            return
        if decoded:
            self._inner.feed(decoded)
            self.terminal, self.last = self._inner.terminal, self._inner.last

    def complete(self) -> None:
        if self._decoder is not None:
            self._inner.complete()
            self.broken = self._inner.broken


def make_proxied_tap(call: Call, exchange: Exchange) -> Tap:
    """The tap that fits the answer; one that reports no usage is not looked into."""
    if not call.wire_format.name or not 200 <= exchange.status < 300:
        return Tap()
    encoding = exchange.headers.get(b"content-encoding")
    decoder = decoder_for(encoding, MAX_DECODED) if is_encoded(encoding) else None
    if decoder is None and is_encoded(encoding):
        return Tap()
    inner = _readable_tap(call, call.wire_format, exchange)
    return inner if decoder is None else DecodingTap(call, decoder, inner)


def _readable_tap(call: Call, wire_format: WireFormat, exchange: Exchange) -> Tap:
    content_type = (exchange.headers.get(b"content-type") or b"").lower()
    if content_type.startswith(EVENT_STREAM):
        return StreamTap(call, wire_format.meter())
    if content_type.startswith(JSON):
        return BodyTap(call, wire_format.meter())
    return Tap()
