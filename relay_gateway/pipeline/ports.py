"""The two ports through which the pipeline meets the outside: a caller and an upstream exchange.

The HTTP server and client of :mod:`relay_gateway.http` fit them, and so do the fakes of
:mod:`relay_gateway.testing`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from relay_gateway.errors import UpstreamError
from relay_gateway.http.message import Headers, HeadMemory
from relay_gateway.http.request_body import BodyReader


class Caller(Protocol):
    """One request and the way back to whoever sent it."""

    on_disconnect: Callable[[], None] | None
    """Called once when the caller has gone before the answer was complete; while it is not set,
    the task that runs the request is cancelled instead."""
    on_flow: Callable[[bool], None] | None
    """Called with ``False`` when writing should stop, with ``True`` when it may go on."""

    @property
    def method(self) -> str:
        """As sent."""

    @property
    def http_version(self) -> str:
        """``1.1`` or ``1.0``."""

    @property
    def content_length(self) -> int | None:
        """The announced length of the body, 0 for none, ``None`` for a chunked one."""

    @property
    def path(self) -> str:
        """In canonical form, not decoded."""

    @property
    def query(self) -> bytes:
        """As sent, without the question mark."""

    @property
    def headers(self) -> Headers:
        """The header fields of the request."""

    @property
    def client_address(self) -> str:
        """The address of the peer."""

    @property
    def started(self) -> bool:
        """Whether an answer has begun."""

    @property
    def finished(self) -> bool:
        """Whether the answer is complete or was given up."""

    @property
    def disconnected(self) -> bool:
        """Whether the caller has gone."""

    @property
    def bytes_out(self) -> int:
        """How many bytes of body were written."""

    @property
    def memory(self) -> HeadMemory:
        """What is kept for the next request of the connection, if its head is the same."""

    @property
    def body_complete(self) -> bool:
        """Whether the whole body is here."""

    def when_body(self, limit: int, then: Callable[[], None]) -> None:
        """Has ``then`` called, once, when the body that is not here yet can be taken. Raises
        :class:`RequestRefusedError` (413) where it is announced to be longer than ``limit``."""

    def take_body(self, limit: int) -> bytes:
        """A complete body. Raises what ended another one, and :class:`RequestRefusedError` (413)
        beyond ``limit`` bytes."""

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Goes on in a task, as one that was not begun without."""

    async def read_body(self, limit: int) -> bytes:
        """The whole body. Raises :class:`RequestRefusedError` (413) beyond ``limit`` bytes."""

    async def read_beginning(self, limit: int) -> bytes:
        """The body, or what has come of it when that is more than ``limit`` bytes."""

    def stream_body(self, reader: BodyReader) -> None:
        """Hands the body to ``reader``, from its first byte on and as it comes."""

    def pause_body(self) -> None:
        """Lets a body that is being handed over wait."""

    def resume_body(self) -> None:
        """Goes on handing over the body."""

    def drop_body(self) -> None:
        """Hands over no more of the body."""

    def respond(self, status: int, headers: bytes, body: bytes) -> None:
        """A whole answer; ``headers`` is a block of encoded lines without ``Content-Length``."""

    def start(
        self, status: int, headers: bytes, length: int | None, *, dated: bool = False
    ) -> None:
        """Begins an answer that comes in pieces; a ``dated`` one has its own ``Date``."""

    def write(self, data: bytes) -> None:
        """A piece of the body; never blocks, see ``on_flow``."""

    def finish(self) -> None:
        """Ends the answer regularly."""

    def abort(self) -> None:
        """Ends the connection so that the caller sees that the answer is not complete."""


class Receiver(Protocol):
    """Who takes the body of an answer; exactly one of :meth:`end` and :meth:`failed` ends it."""

    def data(self, chunk: bytes) -> None:
        """A piece of the body, as it arrived."""

    def end(self) -> None:
        """The body is complete."""

    def failed(self, error: UpstreamError) -> None:
        """The body will not be complete."""


class Exchange(Protocol):
    """An answer of an upstream whose head is there."""

    @property
    def status(self) -> int:
        """Status code of the final answer."""

    @property
    def headers(self) -> Headers:
        """Its header fields."""

    @property
    def body_complete(self) -> bool:
        """Whether the whole body has arrived."""

    def take(self) -> bytes:
        """The body of an answer that is whole, once."""

    def peek(self) -> bytes:
        """What has arrived of the body, which nobody has received yet."""

    async def more(self) -> None:
        """Waits until more of the body has arrived, or its end. Raises what breaks it off."""

    def receive(self, receiver: Receiver) -> None:
        """Delivers the body to ``receiver`` from now on, what is already there at once."""

    async def read(self, limit: int) -> bytes:
        """The body up to ``limit`` bytes; the rest is abandoned."""

    def pause(self) -> None:
        """Stops reading from the upstream."""

    def resume(self) -> None:
        """Reads on."""

    def cancel(self) -> None:
        """Ends the exchange now; the receiver hears nothing more."""
