"""One connection of the inference plane: requests in, one at a time to the handler, answers out.

Phases: *open* (between requests, in a head, or with an exchange), *lingering* (the last answer is
sent and the caller may still be sending; what comes is dropped so that no reset destroys the
answer), and *closed* (the transport sends what it still holds).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from enum import Enum, auto
from typing import Any, Final, cast

from relay_gateway.errors import RequestRefusedError
from relay_gateway.http.body_room import LARGE_BODY_BYTES
from relay_gateway.http.deadlines import NEVER, body_deadline
from relay_gateway.http.exchange import ServerExchange
from relay_gateway.http.half_close import HalfCloseWatch
from relay_gateway.http.incoming_head import HeadReader, RequestHead
from relay_gateway.http.patience import PatientProtocol
from relay_gateway.http.plane import Plane, ServerState
from relay_gateway.http.request_body import RequestBody
from relay_gateway.http.response_head import CLOSE, KEEP_ALIVE

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class _Phase(Enum):
    OPEN = auto()
    LINGERING = auto()
    CLOSED = auto()


class ServerConnection(PatientProtocol):
    """The protocol of one accepted connection; the server calls :meth:`shutdown` to drain it."""

    __slots__ = (
        "_beginning",
        "_body",
        "_body_base",
        "_body_since",
        "_continue_due",
        "_crowded_out",
        "_draining",
        "_exchange",
        "_head_begun",
        "_keep_alive",
        "_last",
        "_peer_done",
        "_pending",
        "_phase",
        "_plane",
        "_reader",
        "_state",
        "_task",
        "_version",
        "_watch",
        "client_address",
        "write_paused",
    )

    def __init__(self, plane: Plane, state: ServerState, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(plane.limits, loop)
        self._plane = plane
        self._state = state
        self._reader = HeadReader(plane.limits)
        self._phase = _Phase.OPEN
        self._exchange: ServerExchange | None = None
        self._task: asyncio.Task[None] | None = None
        self._body = RequestBody(0)
        self._watch: HalfCloseWatch | None = None
        self._pending = b""
        self._version = "1.1"
        self._keep_alive = self._last = self._draining = False
        self._peer_done = self._continue_due = self._crowded_out = False
        self._head_begun = self._beginning = False
        self._body_since = 0.0
        self._body_base = 0
        self.write_paused = False
        self.client_address = ""

    # The transport's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins to wait for the first request."""
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self.client_address = peer[0] if isinstance(peer, tuple) else ""
        if not self._plane.door.lets_in(self._transport, self.client_address):
            return
        self._transport.set_write_buffer_limits(self._limits.write_high_water_bytes)
        self._state.connections.add(self)
        self._read_until(self._loop.time() + self._limits.idle_seconds)
        self._plane.sweep.add(self, self._loop)

    def data_received(self, data: bytes) -> None:
        """Takes bytes to whoever is next for them: head, body, or the request after this one."""
        if self._phase is not _Phase.OPEN:
            return
        if self._exchange is None:
            self._take_head(data)
        elif self._body.complete:
            self._hold(data)
        else:
            self._take_body(data)

    def eof_received(self) -> bool:
        """Whether the transport stays open, for an answer to who only stopped sending."""
        self._peer_done = True
        exchange = self._exchange
        if exchange is None or not self._body.complete or self._phase is not _Phase.OPEN:
            return False
        if self._transport.get_extra_info("sslcontext") is not None:
            return False
        probe = exchange.probe()
        if probe:
            self.send(probe)
        self._watch = HalfCloseWatch(self._transport, self._loop)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Tells the handler, once, and lets everything go."""
        self._phase = _Phase.CLOSED
        self._state.connections.discard(self)
        self._plane.door.leave(self.client_address)
        self._plane.sweep.discard(self)
        self._reader.close()
        self._pending = b""
        self._plane.room.leave(self)
        if self._watch is not None:
            self._watch.stop()
        exchange, self._exchange = self._exchange, None
        # A task that has not begun would end without a trace: it begins, and finds the caller gone.
        if exchange is not None and not exchange.caller_left() and self._task is not None:
            self._task.cancel("the caller closed its connection")

    def pause_writing(self) -> None:
        """The caller does not take what is sent as fast as it is made."""
        self.write_paused = True
        self._watch_writes()
        if self._exchange is not None:
            self._exchange.flow(writable=False)

    def resume_writing(self) -> None:
        """There is room again."""
        self.write_paused = False
        if self._exchange is not None:
            self._exchange.flow(writable=True)

    # The server's side.

    def shutdown(self) -> None:
        """Drains: an idle connection closes now, a busy one with the answer it owes."""
        self._draining = True
        if self._exchange is None and not self._reader.begun and self._phase is _Phase.OPEN:
            self._close()

    # Requests.

    def _take_head(self, data: bytes) -> None:
        """Reads on in a head; of requests that came together, each that can be begun with."""
        while self._read_head(data) and self._exchange is None and self._phase is _Phase.OPEN:
            if not self._pending:
                break
            data, self._pending = self._pending, b""
            self._read_on()

    def _read_head(self, data: bytes) -> bool:
        """Whether ``data`` completed a head, whose handler has then been started."""
        try:
            rest = self._reader.feed(data)
        except RequestRefusedError as refusal:
            self._refuse(refusal)
            return False
        if rest is not None and self._reader.head is not None:
            self._head_begun = False
            self._begin(self._reader.head, rest)
            return True
        if not self._reader.begun:
            self._await_request()
        elif not self._head_begun:
            self._head_begun = True
            self._read_until(self._loop.time() + self._limits.header_seconds)
        return False

    def _await_request(self) -> None:
        self._head_begun = False
        self._read_until(self._loop.time() + self._limits.idle_seconds)

    def _begin(self, head: RequestHead, rest: bytes) -> None:
        """Starts the handler of a request whose head is complete."""
        self._version, self._keep_alive = head.version, head.keep_alive
        self._body = body = RequestBody(head.length)
        self._continue_due = head.expects_continue
        exchange = ServerExchange(self, head, body)
        self._read_until(NEVER)
        if rest:
            try:
                rest = rest if body.complete else self._feed(rest)
            except RequestRefusedError as refusal:
                self._refuse(refusal)
                return
        self._exchange = exchange
        if rest:
            self._hold(rest)
        if not body.complete and not self._continue_due:
            self._start_body_clock()
        self._task = None
        self._state.total_requests += 1
        self._beginning = True
        work = self._plane.begin(exchange)
        self._beginning = False
        if work is not None:
            self._state.tasks.add(self._loop.create_task(self._run(exchange, work)))

    def _take_body(self, data: bytes) -> None:
        body = self._body
        if body.failed:
            return
        if body.reader is not None:
            self._pass_on(body, data)
            return
        try:
            rest = self._feed(data)
        except RequestRefusedError as refusal:
            self._read_until(NEVER)
            body.fail(refusal)
            return
        if body.complete:
            self._read_until(NEVER)
            if body.received > LARGE_BODY_BYTES:
                self._plane.room.complete(self, body.received)
            if rest:
                self._hold(rest)
        elif not body.awaited:
            if body.received > self._limits.read_ahead_bytes:
                self._transport.pause_reading()
                self._read_until(NEVER)
        elif body.received > LARGE_BODY_BYTES and not self._plane.room.charge(self, body.received):
            self._crowded_out = True
            self._transport.pause_reading()
            self._read_until(self._loop.time() + self._limits.body_wait_seconds)
        body.tell()  # last, because whoever is told may answer at once

    def _pass_on(self, body: RequestBody, data: bytes) -> None:
        """Takes a piece of a body that nobody collects."""
        try:
            rest = self._feed(data)
        except RequestRefusedError as refusal:
            self._read_until(NEVER)
            body.fail(refusal)
            return
        if body.complete:
            self._read_until(NEVER)
            if rest:
                self._hold(rest)
        body.hand_over()

    def go_on(self) -> None:
        """There is room for the rest of the body."""
        self._crowded_out = False
        self._read_on()
        self._start_body_clock()

    def _feed(self, data: bytes) -> bytes:
        self._continue_due = False
        return self._body.feed(data)

    def _start_body_clock(self) -> None:
        self._body_since = self._loop.time()
        self._body_base = self._body.received
        self._read_until(self._body_deadline())

    def _body_deadline(self) -> float:
        body = self._body
        expected = None if body.length is None else body.length - self._body_base
        received = body.received - self._body_base
        return body_deadline(self._limits, self._body_since, received, expected)

    def _hold(self, data: bytes) -> None:
        """Keeps what belongs to a later request until this one is answered."""
        self._pending += data
        if len(self._pending) > self._limits.read_ahead_bytes:
            self._transport.pause_reading()

    def _read_on(self) -> None:
        if not self._peer_done and not self._transport.is_closing():
            self._transport.resume_reading()

    def _refuse(self, refusal: RequestRefusedError) -> None:
        """Answers what never became an exchange, and closes: its framing cannot be relied on."""
        self.send(self._plane.refusal(refusal))
        self._linger()

    # The handler.

    async def _run(self, exchange: ServerExchange, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.current_task()
        if exchange is self._exchange:
            self._task = task
        try:
            await work
        finally:
            self._state.tasks.discard(cast("asyncio.Task[None]", task))
            if self._task is task:
                self._task = None

    # The exchange's side.

    def run(self, exchange: ServerExchange, work: Coroutine[Any, Any, None]) -> None:
        """Goes on with ``exchange`` in a task, see :meth:`ServerExchange.run`."""
        guarded = self._plane.guard(exchange, work)
        self._state.tasks.add(self._loop.create_task(self._run(exchange, guarded)))

    def expect_body(self, exchange: ServerExchange) -> None:
        """Reads on, and tells a caller that waits for it to send the body."""
        if exchange is not self._exchange:
            return
        if self._continue_due and not exchange.started:
            self.send(_CONTINUE)
        self._continue_due = False
        self._read_on()
        if self._read_deadline == NEVER:
            self._start_body_clock()

    def stream_body(self, exchange: ServerExchange) -> None:
        """Hands the body over from now on; what was held of it takes no room any more."""
        if exchange is not self._exchange:
            return
        self._plane.room.leave(self)
        self._crowded_out = False
        if not self._body.complete:
            self.expect_body(exchange)
        self._body.hand_over()  # last, because its reader may already have no room for more

    def pause_body(self, exchange: ServerExchange) -> None:
        """Reads no more of the body for now; what the caller does meanwhile is not slow."""
        if exchange is self._exchange and not self._body.complete:
            self._transport.pause_reading()
            self._read_until(NEVER)

    def begin_answer(self, *, delimited: bool) -> bytes:
        """The fields that the connection adds to the answer that begins now."""
        if self._body.received > LARGE_BODY_BYTES:
            # Nobody asks twice for a body; what its handler still holds is soon gone, too.
            self._body.release()
            self._plane.room.leave(self)
        self._last = self._draining or not (self._keep_alive and delimited and self._body.complete)
        if self._last:
            return self._plane.date() + CLOSE
        if self._version == "1.0":
            return self._plane.date() + KEEP_ALIVE
        return self._plane.date()

    def end_answer(self) -> None:
        """Goes on with the next request, or ends the connection."""
        self._exchange = self._task = None
        if self._write_look == NEVER and self._transport.get_write_buffer_size():
            self._watch_writes()
        if self._last or self._draining:
            self._end()
        elif self._pending:
            if not self._beginning:  # or whoever began goes on with them
                self._take_pending()
        elif self._peer_done:
            self._close()
        else:
            self._read_until(self._loop.time() + self._limits.idle_seconds)

    def _take_pending(self) -> None:
        pending, self._pending = self._pending, b""
        self._read_on()
        self._take_head(pending)
        if self._peer_done and (self._exchange is None or not self._body.complete):
            self._close()  # what is missing cannot come any more

    def cut_answer(self, *, reset: bool) -> None:
        """Ends the connection so that the caller sees that the answer is incomplete."""
        self._exchange = self._task = None
        if reset:
            self._reset()
        else:
            self._end()

    # The end.

    def _end(self) -> None:
        """Closes, but not under the feet of a caller that is still sending."""
        if self._pending or not self._body.complete:
            self._linger()
        else:
            self._close()

    def _linger(self) -> None:
        """Sends the end of the stream and drops what still comes, for a while (RFC 9112 §9.6)."""
        if self._peer_done or self._transport.is_closing():
            self._close()
            return
        self._phase = _Phase.LINGERING
        self._pending = b""
        self._transport.resume_reading()
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._read_until(self._loop.time() + self._limits.linger_seconds)

    def _reset(self) -> None:
        """Ends the connection at once; what is still under way is lost, and visibly so."""
        self._phase = _Phase.CLOSED
        self._abort_with_reset()

    def _close(self) -> None:
        self._phase = _Phase.CLOSED
        self._transport.close()
        self._read_until(NEVER)
        self._watch_writes()

    # Deadlines.

    def _is_closed(self) -> bool:
        return self._phase is _Phase.CLOSED

    def _stop_waiting(self, now: float) -> None:
        if self._exchange is not None:
            self._judge_body(now)
        elif self._head_begun and self._phase is _Phase.OPEN:
            seconds = self._limits.header_seconds
            message = f"The request head was not complete after {seconds:g} seconds."
            self._refuse(RequestRefusedError(408, "request_timeout", message))
        elif self._write_look == NEVER:
            self._close()
        else:
            # Still taking the last answer: that is not idle.
            self._read_until(now + self._limits.idle_seconds)

    def _judge_body(self, now: float) -> None:
        if self._crowded_out:
            self._read_until(NEVER)
            message = "The gateway holds too many large bodies at the moment; try again."
            self._body.fail(RequestRefusedError(503, "overloaded", message, retry_after=1))
            return
        deadline = self._body_deadline()
        if now < deadline:
            self._read_until(deadline)
            return
        self._read_until(NEVER)
        message = "The request body arrived too slowly."
        self._body.fail(RequestRefusedError(408, "request_timeout", message))
