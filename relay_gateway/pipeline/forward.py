"""The way back, called back per chunk without a task: what ends an answer is accounted for before
the caller has it."""

from __future__ import annotations

import time

from relay_gateway.errors import UpstreamError, UpstreamTimeoutError
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.carrier import (
    INTERRUPTED,
    TRUNCATED,
    Accounts,
    Carrier,
    Interruptible,
)
from relay_gateway.pipeline.pings import Pinger
from relay_gateway.pipeline.ports import Caller, Exchange
from relay_gateway.pipeline.refusals import is_about_the_answer
from relay_gateway.pipeline.taps import (
    EVENT_STREAM,
    JSON,
    MAX_METERED_BODY,
    Tap,
    make_tap,
    meter_body,
    readable_type,
)
from relay_gateway.plugin.usage import Outcome
from relay_gateway.plugin.wire import Problem

BROKEN_STREAM = "the answer of the upstream broke off"
STOPPING = "the gateway is stopping; send the request again"


class Forwarder(Carrier):
    """Carries an answer of gateway mode: as its tap writes it, with signs of life where nothing is
    said for long, and with an error event where a stream breaks off."""

    __slots__ = ("_pinger",)

    def __init__(
        self,
        call: Call,
        caller: Caller,
        exchange: Exchange,
        accounts: Accounts,
        running: set[Interruptible],
        tap: Tap | None = None,
    ) -> None:
        tap = tap or make_tap(call, exchange)
        super().__init__(call, caller, exchange, accounts, running, tap)
        self._pinger: Pinger | None = None

    def begin(self, headers: bytes) -> None:
        """Sends the head of the answer and lets the body come."""
        exchange = self._exchange
        self._watch()
        length = None if self._tap.edits else exchange.headers.length
        self._caller.start(exchange.status, headers, length)
        self._pinger = self._make_pinger()
        exchange.receive(self)

    def _make_pinger(self) -> Pinger | None:
        """Only what is written anew can be added to; a stream that passes is the upstream's."""
        call = self._call
        seconds = call.snapshot.settings.inference.stream_ping_seconds
        if call.translation is None or not seconds:
            return None
        return Pinger(self._caller.write, call.wire_format.dialect.ping, seconds)

    def data(self, chunk: bytes) -> None:
        """A piece of the answer."""
        call = self._call
        call.last_byte_at = now = time.monotonic()
        if call.first_byte_at is None:
            call.first_byte_at = now
        tap = self._tap
        if tap.edits:
            try:
                chunk = tap.edit(chunk)
            except UpstreamError as error:
                self._exchange.cancel()
                self.failed(error)
                return
            if not chunk:
                return
        else:
            tap.feed(chunk)
        if self._exchange.body_complete:
            self._last += chunk
            return
        if tap.last:
            self._account_early(len(chunk))
        self._caller.write(chunk)
        if self._pinger is not None:
            self._pinger.written()

    def _account_early(self, unsent: int) -> None:
        """To the caller this is the end, whatever the upstream does with its connection."""
        self._accounts.account(self._call, self._caller, unsent)
        if self._pinger is not None:
            self._pinger.stop()
            self._pinger = None

    def end(self) -> None:
        """The body is complete; a stream that lacks its own end is not."""
        tap = self._tap
        try:
            tap.complete()
        except UpstreamError as error:
            self.failed(error)
            return
        last = self._last + tap.held()
        if tap.broken:
            self._call.broke_off = TRUNCATED
            self._call.fail("upstream_error", TRUNCATED)
            self._break_off(502, TRUNCATED, BROKEN_STREAM, last)
            return
        self._finish(last)

    def failed(self, error: UpstreamError) -> None:
        """The answer broke off: the caller is told, and never sees a clean end."""
        if is_about_the_answer(error):
            self._call.broke_off = error.reason
        outcome: Outcome = "timeout" if isinstance(error, UpstreamTimeoutError) else "aborted"
        self._call.fail(outcome, error.reason)
        self._break_off(502, error.reason, BROKEN_STREAM, self._last + self._tap.held())

    def interrupt(self) -> None:
        """Ends the answer now, because the gateway has no more time for it."""
        self._exchange.cancel()
        if self._tap.terminal:
            self.end()
        else:
            self._call.fail("aborted", INTERRUPTED)
            self._break_off(503, INTERRUPTED, STOPPING, self._tap.held())

    def _break_off(self, status: int, code: str, message: str, last: bytes) -> None:
        call = self._call
        if call.settled:
            last = b""  # the caller has the last event, after which there is nothing to say
        elif self._tap.is_stream:
            # The last event may be unfinished: a blank line keeps ours from becoming part of it.
            problem = Problem(status, code, message, request_id=call.request_id)
            last += b"\n\n" + call.wire_format.dialect().error_event(problem)
        self._abort(last)

    def _flow(self, writable: bool) -> None:  # noqa: FBT001 - the signature of the port
        if self._pinger is not None:
            self._pinger.pause(paused=not writable)
        super()._flow(writable)

    def _leave(self, unsent: int) -> None:
        if self._pinger is not None:
            self._pinger.stop()
        super()._leave(unsent)


def take_whole(call: Call, exchange: Exchange) -> bytes | None:
    """A body that has arrived whole already, metered; ``None`` for a stream, which is not one."""
    content_type = readable_type(exchange)
    if content_type.startswith(EVENT_STREAM) or call.deadline is not None:
        return None
    body = exchange.take()
    call.last_byte_at = call.first_byte_at
    if body and content_type.startswith(JSON) and len(body) <= MAX_METERED_BODY:
        meter = call.wire_format.meter()
        call.reading = meter.reading
        meter_body(meter, body)
    return body
