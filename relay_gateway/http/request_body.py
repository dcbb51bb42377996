"""The body of one request while it arrives: counted, delimited, and handed over, whole or as it
comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol

from relay_gateway.errors import RelayError, RequestRefusedError
from relay_gateway.http.chunked_decoder import ChunkedDecoder


class CallerGoneError(RelayError):
    """The caller's connection ended before its request was complete; nobody waits for an answer."""


class BodyReader(Protocol):
    """Takes a body as it comes. At most one of ``complete`` and ``failed`` is called, last."""

    def piece(self, data: bytes) -> None:
        """Some of the content, never empty."""

    def complete(self) -> None:
        """That was all of it."""

    def failed(self, error: RelayError) -> None:
        """The rest will not come; a caller that has left is told in other ways besides."""


class RequestBody:
    """Collects a body of ``length`` bytes, or a chunked one where that is ``None``.

    ``complete`` says that all of it is here, ``received`` how many bytes of content are.
    """

    __slots__ = (
        "_decoder",
        "_failure",
        "_limit",
        "_pieces",
        "_then",
        "complete",
        "length",
        "reader",
        "received",
    )

    def __init__(self, length: int | None) -> None:
        self.length = length
        self.complete = length == 0
        self.received = 0
        self._decoder = ChunkedDecoder() if length is None else None
        self._pieces: list[bytes] = []
        self._failure: RelayError | None = None
        self._limit = 0
        self._then: Callable[[], None] | None = None
        self.reader: BodyReader | None = None
        """Who takes what comes from now on; nothing is collected then."""

    @property
    def failed(self) -> bool:
        """Whether it has ended before it was complete."""
        return self._failure is not None

    @property
    def awaited(self) -> bool:
        """Whether somebody waits for more of it."""
        return self._then is not None

    def feed(self, data: bytes) -> bytes:
        """Takes what arrived and returns what follows the end of this body; :meth:`tell` is due.

        Raises :class:`RequestRefusedError` 400 where the chunked framing is broken.
        """
        return self._take_counted(data) if self._decoder is None else self._take_chunked(data)

    def tell(self) -> None:
        """Tells who waits for it, once, that it is complete or too long."""
        if self._then is not None and (self.complete or self.received > self._limit):
            self._wake()

    def _take_counted(self, data: bytes) -> bytes:
        if len(data) == self.length and not self.received:  # as most bodies come
            self._pieces.append(data)
            self.received = len(data)
            self.complete = True
            return b""
        left = (self.length or 0) - self.received
        if len(data) > left:
            data, rest = data[:left], data[left:]
        else:
            rest = b""
        self._pieces.append(data)
        self.received += len(data)
        self.complete = self.received == self.length
        return rest

    def _take_chunked(self, data: bytes) -> bytes:
        if self._decoder is None:
            return data
        pieces, rest = self._decoder.feed(data)
        self._pieces += pieces
        self.received += sum(map(len, pieces))
        self.complete = self._decoder.complete
        return rest

    def fail(self, failure: RelayError) -> None:
        """Ends an incomplete body: the reader that waits, or the next one, gets ``failure``."""
        if not self.complete and self._failure is None:
            self._failure = failure
            self._wake()
            reader, self.reader = self.reader, None
            if reader is not None:
                reader.failed(failure)

    def _wake(self) -> None:
        then, self._then = self._then, None
        if then is not None:
            then()

    def check(self, limit: int) -> None:
        """Raises what ended the body, or the 413 of one that is longer than ``limit`` bytes."""
        if self.received > limit or (self.length is not None and self.length > limit):
            message = f"The request body is larger than {limit} bytes."
            raise RequestRefusedError(413, "request_too_large", message)
        if self._failure is not None:
            raise self._failure

    def whole(self) -> bytes:
        """The content of a complete body."""
        if len(self._pieces) != 1:
            self._pieces = [b"".join(self._pieces)]
        return self._pieces[0]

    def so_far(self) -> bytes:
        """What is here of a body that has not been handed over. Raises what ended it."""
        if self._failure is not None:
            raise self._failure
        return self.whole()

    def hand_over(self) -> None:
        """Gives what has come to the ``reader``, and lets go of it."""
        reader, pieces = self.reader, self._pieces
        if reader is None:
            return
        if pieces:
            self._pieces = []
            data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            if data:
                reader.piece(data)
        if self.complete and self.reader is reader:
            self.reader = None
            reader.complete()

    def release(self) -> None:
        """Lets go of the content; whoever still needs it holds it himself."""
        self._pieces = []

    def when_settled(self, limit: int, then: Callable[[], None]) -> None:
        """Has ``then`` called once when the body is complete, has failed or is longer than
        ``limit`` bytes, which it must not be yet."""
        self._limit = limit
        self._then = then

    async def wait(self, limit: int) -> None:
        """Waits until the body is complete, has failed or is longer than ``limit`` bytes."""
        settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.when_settled(limit, partial(_settle, settled))
        try:
            await settled
        finally:
            self._then = None


def _settle(settled: asyncio.Future[None]) -> None:
    if not settled.done():
        settled.set_result(None)
