"""An exchange with an upstream in memory: what the pipeline gets instead of a pooled connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from relay_gateway.errors import UpstreamError
from relay_gateway.http.message import Header, Headers
from relay_gateway.pipeline.ports import Receiver


class FakeExchange:
    """An answer whose head has arrived; the test pushes its body.

    What is pushed while the reader paused, or before it listens, waits and is delivered in order.
    """

    def __init__(
        self,
        status: int = 200,
        headers: Sequence[Header] = ((b"content-type", b"application/json"),),
        body: bytes | None = None,
        *,
        reused: bool = False,
        resent: bool = False,
    ) -> None:
        self.status = status
        self.headers = Headers(headers)
        self.reused = reused
        self.resent = resent
        self.paused = False
        self.cancelled = False
        self.consumed = False
        """Whether the end or failure of the body reached its reader."""
        self._pending: list[bytes | UpstreamError | None] = []
        self._receiver: Receiver | None = None
        self._arrived = asyncio.Event()
        if body is not None:
            self.push(body)
            self.end()

    @property
    def body_complete(self) -> bool:
        """Whether the whole body has arrived, read or not."""
        return self.consumed or None in self._pending

    def peek(self) -> bytes:
        """What was pushed and is not read yet."""
        return b"".join(piece for piece in self._pending if isinstance(piece, bytes))

    async def more(self) -> None:
        """Waits for the next push. Raises the failure of the body."""
        known = len(self._pending)
        while len(self._pending) == known and not self.body_complete:
            self._arrived.clear()
            await self._arrived.wait()
        for piece in self._pending:
            if isinstance(piece, UpstreamError):
                raise piece

    def take(self) -> bytes:
        """The body of an answer that is whole."""
        body = b"".join(piece for piece in self._pending if isinstance(piece, bytes))
        self._pending.clear()
        self.consumed = True
        return body

    def receive(self, receiver: Receiver) -> None:
        """Delivers to ``receiver`` from now on, at once what has arrived."""
        if self._receiver is not None:
            raise AssertionError("receive() was called twice")
        self._receiver = receiver
        self._deliver()

    async def read(self, limit: int) -> bytes:
        """The body, at most ``limit`` bytes; the rest is then given up. Raises its failure."""
        body = bytearray()
        while len(body) <= limit:
            while not self._pending:
                self._arrived.clear()
                await self._arrived.wait()
            piece = self._pending.pop(0)
            if isinstance(piece, UpstreamError):
                self.consumed = True
                raise piece
            if piece is None:
                self.consumed = True
                return bytes(body)
            body += piece
        self.cancel()
        return bytes(body[:limit])

    def pause(self) -> None:
        """Stops delivery until :meth:`resume`."""
        self.paused = True

    def resume(self) -> None:
        """Delivers again, at once what has waited."""
        self.paused = False
        self._deliver()

    def cancel(self) -> None:
        """Gives the exchange up; nothing is delivered after it."""
        self.cancelled = True
        self._pending.clear()

    # What the test does.

    def push(self, data: bytes) -> None:
        """A piece of the body arrives."""
        self._put(data)

    def end(self) -> None:
        """The body is complete."""
        self._put(None)

    def fail(self, error: UpstreamError) -> None:
        """The connection breaks."""
        self._put(error)

    def _put(self, piece: bytes | UpstreamError | None) -> None:
        if self.cancelled:
            return
        if self.consumed or None in self._pending:
            raise AssertionError("the body had ended already")
        self._pending.append(piece)
        self._arrived.set()
        self._deliver()

    def _deliver(self) -> None:
        receiver = self._receiver
        while receiver is not None and self._pending and not self.paused and not self.cancelled:
            piece = self._pending.pop(0)
            if isinstance(piece, bytes):
                receiver.data(piece)
                continue
            self.consumed = True
            if piece is None:
                receiver.end()
            else:
                receiver.failed(piece)


class RecordingReceiver:
    """A receiver that remembers; ``on_data`` runs after each piece, to pause for example."""

    def __init__(self, on_data: Callable[[bytes], None] | None = None) -> None:
        self.chunks: list[bytes] = []
        self.error: UpstreamError | None = None
        self.ended = asyncio.Event()
        """Set by the end and by a failure."""
        self._on_data = on_data

    @property
    def body(self) -> bytes:
        """All that was received."""
        return b"".join(self.chunks)

    def data(self, chunk: bytes) -> None:
        """A piece of the body. Raises ``AssertionError`` when it comes after the end."""
        if self.ended.is_set():
            raise AssertionError("data came after the end")
        self.chunks.append(bytes(chunk))
        if self._on_data is not None:
            self._on_data(chunk)

    def end(self) -> None:
        """The regular end."""
        self._end(None)

    def failed(self, error: UpstreamError) -> None:
        """The irregular end."""
        self._end(error)

    def _end(self, error: UpstreamError | None) -> None:
        if self.ended.is_set():
            raise AssertionError("the body ended twice")
        self.error = error
        self.ended.set()
