"""``Exchange``: one request's answer, from its head to the last byte of its body."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol

from relay_gateway.errors import UpstreamError
from relay_gateway.http.message import NO_HEADERS, Headers

HOLD_BYTES = 256 * 1024
"""How much body is held for an answer that nobody receives yet, before reading pauses."""


class Receiver(Protocol):
    """Takes a body as it arrives. Exactly one of ``end`` and ``failed`` comes, last."""

    def data(self, chunk: bytes) -> None:
        """Body bytes, never empty; as many as one read brought."""

    def end(self) -> None:
        """The body is complete."""

    def failed(self, error: UpstreamError) -> None:
        """The body breaks off here."""


class Carrier(Protocol):
    """The connection under an exchange."""

    def abandon(self, exchange: Exchange) -> None:
        """Closes the connection, because ``exchange`` ends before its answer did."""

    def pause_reading(self) -> None:
        """Reads no more until told."""

    def resume_reading(self) -> None:
        """Reads again."""


class Exchange:
    """The answer to one request.

    ``status`` and ``headers`` are there when :meth:`answered` returns or ``on_head`` is called. The
    body is had once, by :meth:`receive`, :meth:`read` or :meth:`take`. ``reused`` says whether the
    connection had carried an answer before, ``resent`` whether the request was sent a second time
    because a reused connection turned out to be closed.
    """

    __slots__ = (
        "_carrier",
        "_grown",
        "_held",
        "_held_bytes",
        "_paused",
        "_receiver",
        "body_complete",
        "cancelled",
        "error",
        "headers",
        "on_head",
        "resent",
        "reused",
        "status",
        "untouched",
    )

    def __init__(self, carrier: Carrier) -> None:
        self._carrier: Carrier | None = carrier
        self.headers = NO_HEADERS
        self.on_head: Callable[[], None] | None = None
        """Called once when the head has come, or the exchange has failed before it did."""
        self.error: UpstreamError | None = None
        """Why the answer is not whole, or never began."""
        self._grown: asyncio.Future[None] | None = None
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._receiver: Receiver | None = None
        self._paused = False
        self.status = 0
        self.reused = False
        self.resent = False
        self.untouched = True
        """Whether not a single byte has come back."""
        self.body_complete = False
        """Whether the whole body has arrived."""
        self.cancelled = False

    async def answered(self) -> None:
        """Waits for the head. Raises :class:`UpstreamError` when none comes; cancelling it cancels
        the exchange."""
        if not self.status and self.error is None:
            head: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.on_head = partial(_set, head)
            try:
                await head
            except asyncio.CancelledError:
                self.cancel()
                raise
        if self.error is not None and not self.status:
            raise self.error

    def peek(self) -> bytes:
        """What has arrived of the body, which nobody has received yet."""
        return b"".join(self._held)

    async def more(self) -> None:
        """Waits until more of the body has arrived, or its end. Raises what breaks it off."""
        if not self.body_complete and self.error is None:
            self._grown = asyncio.get_running_loop().create_future()
            try:
                await self._grown
            finally:
                self._grown = None
        if self.error is not None:
            raise self.error

    def _grow(self) -> None:
        if self._grown is not None:
            _set(self._grown)

    def take(self) -> bytes:
        """The body of an answer that has arrived whole and that nobody has received."""
        held = self._held
        self._held = []
        return held[0] if len(held) == 1 else b"".join(held)

    async def read(self, limit: int) -> bytes:
        """The body or its first ``limit`` bytes; the connection of a longer one is closed.

        Raises :class:`UpstreamError` when it breaks off before that.
        """
        if self.body_complete and self._receiver is None:
            return self.take()[:limit]
        collector = _Collector(self, limit)
        self.receive(collector)
        try:
            return await collector.done
        finally:
            self.cancel()

    def receive(self, receiver: Receiver) -> None:
        """Hands the body to ``receiver`` as it comes; what has arrived is handed over at once."""
        # The receiver is let go of at the end: the two would keep each other alive as garbage.
        self._receiver = receiver
        if self._held:
            self._held_bytes = 0
            receiver.data(self.take())
            if self.cancelled:
                return
        if self.body_complete:
            self._receiver = None
            receiver.end()
        elif self.error is not None:
            self._receiver = None
            receiver.failed(self.error)
        elif self._carrier is not None and not self._paused:
            self._carrier.resume_reading()

    def pause(self) -> None:
        """Stops reading: the receiver cannot keep up. A chunk already read may still come."""
        self._paused = True
        if self._carrier is not None:
            self._carrier.pause_reading()

    def resume(self) -> None:
        """Reads on after :meth:`pause`."""
        self._paused = False
        if self._carrier is not None:
            self._carrier.resume_reading()

    def cancel(self) -> None:
        """Ends the exchange and closes its connection, unless the answer is already whole.

        Nothing is delivered afterwards. May be called any number of times.
        """
        if self.cancelled:
            return
        self.cancelled = True
        self._receiver = self.on_head = None
        carrier, self._carrier = self._carrier, None
        if carrier is not None:
            carrier.abandon(self)

    # Called by the connection.

    def begin(self, status: int, headers: Headers) -> None:
        """The final head is complete."""
        self.status = status
        self.headers = headers

    def announce(self) -> None:
        """What the read that brought the head brought of the body, too, has been delivered."""
        on_head, self.on_head = self.on_head, None
        if on_head is not None:
            on_head()

    def deliver(self, chunk: bytes) -> None:
        """Body bytes arrived."""
        if self._receiver is not None:
            self._receiver.data(chunk)
            return
        if self.cancelled:
            return
        self._held.append(chunk)
        self._held_bytes += len(chunk)
        self._grow()
        if self._held_bytes > HOLD_BYTES and self._carrier is not None:
            self._carrier.pause_reading()

    def detach(self) -> None:
        """The connection has nothing more to do with this exchange."""
        self._carrier = None

    def complete(self) -> None:
        """The body is whole."""
        self.body_complete = True
        self._grow()
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.end()

    def fail(self, error: UpstreamError) -> None:
        """Nothing more will come, and the answer is not whole."""
        self._carrier = None
        self.error = error
        self._grow()
        self.announce()
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.failed(error)


def _set(head: asyncio.Future[None]) -> None:
    if not head.done():
        head.set_result(None)


class _Collector:
    """Receives a whole body, or its beginning."""

    __slots__ = ("_chunks", "_exchange", "_room", "done")

    def __init__(self, exchange: Exchange, limit: int) -> None:
        self._exchange = exchange
        self._room = limit
        self._chunks: list[bytes] = []
        self.done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def data(self, chunk: bytes) -> None:
        self._chunks.append(chunk[: self._room])
        self._room -= len(chunk)
        if self._room < 0:
            self._exchange.cancel()
            self.end()

    def end(self) -> None:
        if not self.done.done():
            self.done.set_result(b"".join(self._chunks))

    def failed(self, error: UpstreamError) -> None:
        if not self.done.done():
            self.done.set_exception(error)
