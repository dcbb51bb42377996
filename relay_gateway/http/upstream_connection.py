"""One connection to an upstream: a request goes out, its answer comes in, then the next."""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

from relay_gateway.errors import (
    UpstreamClosedError,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamTimeoutError,
)
from relay_gateway.http.answer import Exchange
from relay_gateway.http.outgoing_head import OutgoingRequest
from relay_gateway.http.reader import ResponseReader
from relay_gateway.http.target import Target
from relay_gateway.http.tls import remember_session
from relay_gateway.http.upload import BodyWriter

JOIN_BYTES = 64 * 1024
"""Up to this size head and body go out as one piece; copying is cheaper than a second write."""
PIECE_BYTES = 1024 * 1024
"""Larger bodies are written in pieces of this size, each when the one before has drained."""


class Owner(Protocol):
    """The pool a connection belongs to."""

    def released(self, connection: UpstreamConnection) -> None:
        """The connection may carry the next request."""

    def lost(self, connection: UpstreamConnection) -> None:
        """The connection is closed."""


class UpstreamConnection(asyncio.Protocol):
    """Carries one exchange at a time.

    It returns to its pool only after an answer that was complete, kept alive, not followed by stray
    bytes and not earlier than the request's own end; in every other case it is closed.
    """

    __slots__ = (
        "_activity",
        "_answers",
        "_early",
        "_exchange",
        "_loop",
        "_owner",
        "_reader",
        "_reading_paused",
        "_started",
        "_target",
        "_transport",
        "_upload",
        "_writer",
        "_writing_paused",
        "closed",
        "idle_since",
    )

    def __init__(self, owner: Owner, target: Target, loop: asyncio.AbstractEventLoop) -> None:
        self._owner = owner
        self._target = target
        self._loop = loop
        self._reader = ResponseReader()
        self._transport: asyncio.Transport | None = None
        self._exchange: Exchange | None = None
        self._upload: memoryview | None = None
        self._writer: BodyWriter | None = None
        self._answers = 0
        self._started = self._activity = 0.0
        self._reading_paused = self._writing_paused = self._early = False
        self.closed = False
        self.idle_since = 0.0

    # Sending.

    def start(self, request: OutgoingRequest) -> Exchange:
        """Sends ``request``.

        Where that is no longer possible the exchange fails as if the peer had closed.
        """
        exchange = Exchange(self)
        exchange.reused = self._answers > 0
        transport = self._transport
        if self.closed or transport is None or transport.is_closing():
            self.close()
            exchange.fail(self._closed_error("before the request was sent", sent=False))
            return exchange
        self._exchange = exchange
        self._reader.begin(bodyless=request.method == b"HEAD")
        self._started = self._activity = self._loop.time()
        self._early = False
        body = request.body
        if len(body) <= JOIN_BYTES:
            transport.write(request.head + body)
        else:
            transport.write(request.head)
            self._upload = memoryview(body)
            self._send_pieces()
        return exchange

    def _send_pieces(self) -> None:
        transport = self._transport
        while self._upload is not None and not self._writing_paused and transport is not None:
            piece, rest = self._upload[:PIECE_BYTES], self._upload[PIECE_BYTES:]
            self._upload = rest or None
            transport.write(piece)
            self._activity = self._loop.time()

    def pause_writing(self) -> None:
        """The transport's buffer is full."""
        self._writing_paused = True
        if self._writer is not None:
            self._writer.flow(writable=False)

    def resume_writing(self) -> None:
        """The transport's buffer has drained."""
        self._writing_paused = False
        self._activity = self._loop.time()
        self._send_pieces()
        if self._writer is not None:
            self._writer.flow(writable=True)

    def open_upload(self, exchange: Exchange, *, chunked: bool) -> BodyWriter:
        """What the body of the request just started is written with."""
        if self._exchange is not exchange:
            return BodyWriter(None, chunked=chunked)
        self._writer = BodyWriter(self, chunked=chunked)
        return self._writer

    def send_piece(self, *data: bytes) -> None:
        """Writes bytes of a request that comes in pieces."""
        transport = self._transport
        if transport is not None and not transport.is_closing():
            self._activity = self._loop.time()
            transport.writelines(data)

    def end_upload(self) -> None:
        """The request that came in pieces is complete: its answer is due."""
        self._writer = None
        self._activity = self._loop.time()

    def break_upload(self, error: UpstreamError) -> None:
        """The request that came in pieces will not be complete."""
        self._writer = None
        if self._exchange is not None:
            self._break(self._exchange, error)

    # Receiving.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The way to the upstream is open (TLS and tunnel included)."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Parses what arrived and hands it on: at most one ``data`` per read."""
        exchange = self._exchange
        if exchange is None:
            # An answer nobody asked for; whatever it is, the next request must not get it.
            self.close()
            return
        exchange.untouched = False
        reader = self._reader
        try:
            chunk = reader.feed(data)
        except UpstreamProtocolError as error:
            self._break(exchange, error)
            return
        begins = not exchange.status
        if begins:
            if not reader.head_complete:
                return
            self._note_early(reader.status)
            exchange.begin(reader.status, reader.headers)
        self._activity = self._loop.time()
        if reader.complete:
            self._finish(exchange, chunk)
        elif chunk:
            exchange.deliver(chunk)
        if begins:
            exchange.announce()

    def _note_early(self, status: int) -> None:
        """An answer that overtakes its request: a refusal makes the rest of the body pointless."""
        if self._upload is not None or self._writing_paused or self._writer is not None:
            self._early = True
            if status >= 300:
                self._upload = None

    def eof_received(self) -> None:
        """The peer has said all it will; what that means is decided when the transport closes."""

    def connection_lost(self, error: Exception | None) -> None:
        """The transport is closed, by the peer or by us."""
        exchange = self._exchange
        if exchange is not None and error is None and self._reader.finish():
            self._finish(exchange, b"")
        elif exchange is not None:
            self._break(exchange, self._closed_error("before its answer was complete"))
        self.close()
        self._transport = None

    def _finish(self, exchange: Exchange, chunk: bytes) -> None:
        self._exchange = None
        exchange.detach()
        self._answers += 1
        if self._is_reusable():
            self._release()
        else:
            self.close()
        exchange.body_complete = True  # so that who receives its last piece knows it for that
        if chunk:
            exchange.deliver(chunk)
        exchange.complete()

    def _is_reusable(self) -> bool:
        reader, transport = self._reader, self._transport
        return (
            reader.keep_alive
            and not reader.trailing
            and not self._early
            and self._writer is None
            and transport is not None
            and not transport.is_closing()
            and not transport.get_write_buffer_size()
        )

    def _release(self) -> None:
        if self._answers == 1 and self._transport is not None:
            remember_session(self._transport.get_extra_info("ssl_object"))
        self.resume_reading()
        self._owner.released(self)

    def _break(self, exchange: Exchange, error: UpstreamError) -> None:
        self._exchange = None
        exchange.detach()
        self.close()
        chunk = self._reader.take()
        if chunk and exchange.status:
            exchange.deliver(chunk)
        exchange.fail(error)

    def _closed_error(self, when: str, *, sent: bool = True) -> UpstreamClosedError:
        return UpstreamClosedError(f"{self._target.name} closed the connection {when}", sent=sent)

    # Flow, time and the end.

    def pause_reading(self) -> None:
        """Reads no more until told; silence does not count meanwhile."""
        transport = self._transport
        if not self._reading_paused and transport is not None and not transport.is_closing():
            self._reading_paused = True
            transport.pause_reading()

    def resume_reading(self) -> None:
        """Reads again."""
        transport = self._transport
        if self._reading_paused and transport is not None and not transport.is_closing():
            self._reading_paused = False
            self._activity = self._loop.time()
            transport.resume_reading()

    def check(self, now: float) -> None:
        """Fails the exchange if one of its deadlines has passed."""
        exchange = self._exchange
        if exchange is None:
            return
        phase = self._overdue(now)
        if phase is not None:
            error = UpstreamTimeoutError(
                f"{self._target.name} took longer than its {phase} timeout allows", phase=phase
            )
            self._break(exchange, error)

    def _overdue(self, now: float) -> str | None:
        target, silence = self._target, now - self._activity
        if 0 < target.total_timeout <= now - self._started:
            return "total"
        if self._writer is not None and not self._writing_paused:
            return None  # the silence is that of whoever sends the request
        if self._reader.head_complete or self._upload is not None or self._writing_paused:
            stalled = silence >= target.idle_timeout and not self._reading_paused
            return "idle" if stalled else None
        return "first_byte" if silence >= target.first_byte_timeout else None

    def is_usable(self, now: float, idle_seconds: float) -> bool:
        """Whether an idle connection may carry another request."""
        transport = self._transport
        return (
            now - self.idle_since < idle_seconds
            and not self.closed
            and transport is not None
            and not transport.is_closing()
        )

    def abandon(self, exchange: Exchange) -> None:
        """Closes the connection under a cancelled exchange; it is never used again."""
        if self._exchange is exchange:
            self._exchange = None
            self.close()

    def shut_down(self) -> None:
        """Closes the connection; an exchange under way fails."""
        exchange = self._exchange
        if exchange is not None:
            self._break(exchange, UpstreamClosedError("the gateway is closing its connections"))
        self.close()

    def close(self) -> None:
        """Closes the connection at once. May be called any number of times."""
        if self.closed:
            return
        self.closed = True
        self._upload = None
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.detach()
        self._reader.close()
        if self._transport is not None:
            self._transport.abort()
        self._owner.lost(self)
