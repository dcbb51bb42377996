"""Sending the body of a request to an upstream in pieces, as they come from elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from relay_gateway.errors import UpstreamError


class Outlet(Protocol):
    """The connection that carries the body."""

    def send_piece(self, *data: bytes) -> None:
        """Writes bytes of the request."""

    def end_upload(self) -> None:
        """The request is complete."""

    def break_upload(self, error: UpstreamError) -> None:
        """The request will never be complete: close the connection, and fail its exchange."""


class BodyWriter:
    """The rest of a request whose head has been sent. Does nothing once its exchange has ended.

    ``on_flow`` is called with false when the upstream takes less than it is sent, with true when
    there is room again.
    """

    __slots__ = ("_chunked", "_outlet", "on_flow")

    def __init__(self, outlet: Outlet | None, *, chunked: bool) -> None:
        self._outlet = outlet
        self._chunked = chunked
        self.on_flow: Callable[[bool], None] | None = None

    def write(self, data: bytes) -> None:
        """Sends a piece of the body."""
        if self._outlet is None or not data:
            return
        if self._chunked:
            self._outlet.send_piece(b"%x\r\n" % len(data), data, b"\r\n")
        else:
            self._outlet.send_piece(data)

    def finish(self) -> None:
        """Ends the body; a sized one has been written whole."""
        outlet, self._outlet = self._outlet, None
        if outlet is None:
            return
        if self._chunked:
            outlet.send_piece(b"0\r\n\r\n")
        outlet.end_upload()

    def break_off(self, error: UpstreamError) -> None:
        """Ends the request in its middle; its exchange fails with ``error``."""
        outlet, self._outlet = self._outlet, None
        if outlet is not None:
            outlet.break_upload(error)

    # Called by the connection.

    def flow(self, *, writable: bool) -> None:
        """Passes on that the transport is full, or has room again."""
        if self.on_flow is not None and self._outlet is not None:
            self.on_flow(writable)

    def detach(self) -> None:
        """The connection has nothing more to do with this request."""
        self._outlet = None
