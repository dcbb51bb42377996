"""The two ports through which the pipeline meets the outside: a caller and an upstream exchange.

The HTTP server and client of :mod:`relay_gateway.http` fit them, and so do the fakes of
:mod:`relay_gateway.testing`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from relay_gateway.errors import UpstreamError
from relay_gateway.http.message import Headers


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
    def path(self) -> str:
        """In canonical form, not decoded."""

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

    async def read_body(self, limit: int) -> bytes:
        """The whole body. Raises :class:`RequestRefusedError` (413) beyond ``limit`` bytes."""

    def respond(self, status: int, headers: bytes, body: bytes) -> None:
        """A whole answer; ``headers`` is a block of encoded lines without ``Content-Length``."""

    def start(self, status: int, headers: bytes, length: int | None) -> None:
        """Begins an answer that comes in pieces."""

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
