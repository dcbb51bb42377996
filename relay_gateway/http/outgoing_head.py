"""The head of a request to an upstream, as bytes."""

from __future__ import annotations

from relay_gateway.errors import UpstreamError
from relay_gateway.http.target import Target
from relay_gateway.plugin.providers import UpstreamRequest


class OutgoingRequest:
    """A request ready to be sent. ``start`` is its head but for the framing of the body, see
    :func:`encode_start`; it may be used again for another body."""

    __slots__ = ("body", "method", "start")

    def __init__(self, start: bytes, body: bytes, method: bytes = b"POST") -> None:
        self.start = start
        self.body = body
        self.method = method

    @property
    def head(self) -> bytes:
        """Request line and header block with ``Content-Length`` last (RFC 9112 §3)."""
        if not self.body and self.method in (b"GET", b"HEAD"):
            return self.start + b"\r\n"
        return b"%bContent-Length: %d\r\n\r\n" % (self.start, len(self.body))


class ForwardedRequest(OutgoingRequest):
    """A caller's request on its way as it came: ``block`` are all its header lines, with ``Host``
    and the framing of the body.

    Raises :class:`UpstreamError` as :func:`encode_start` does.
    """

    __slots__ = ()

    def __init__(self, method: bytes, path: bytes, block: bytes, body: bytes = b"") -> None:
        _check_block(block)
        _check_path(path)
        super().__init__(b"%b %b HTTP/1.1\r\n%b" % (method, path, block), body, method)

    @property
    def head(self) -> bytes:
        """Request line and header block."""
        return self.start + b"\r\n"


def outgoing(target: Target, request: UpstreamRequest) -> OutgoingRequest:
    """``request`` ready to be sent to ``target``; raises as :func:`encode_start` does."""
    return OutgoingRequest(encode_start(target, request), request.body, request.method)


def encode_start(target: Target, request: UpstreamRequest) -> bytes:
    """Request line and header lines, with ``Host`` first.

    Raises :class:`UpstreamError` for a path or header block that would break the framing, as a
    credential with a line break in it does; the message never quotes it.
    """
    _check_block(request.headers)
    path = request.target
    _check_path(path)
    start = (request.method, path, target.authority, request.headers)
    return b"%b %b HTTP/1.1\r\nHost: %b\r\n%b" % start


def _check_path(path: bytes) -> None:
    if not path.startswith(b"/") or len(path.split(None, 1)) != 1 or path[-1] <= 32:
        raise UpstreamError("the request target must be a path without white space", sent=False)


def _check_block(block: bytes) -> None:
    lines = block.count(b"\r\n")
    sound = (
        block.count(b"\n") == lines == block.count(b"\r")
        and b"\r\n\r\n" not in block
        and not block.startswith(b"\r\n")
        and b"\0" not in block
        and (not block or block.endswith(b"\r\n"))
    )
    if not sound:
        raise UpstreamError(
            "a header of the request to the upstream contains a line break or NUL; "
            "look for one in the credential or in the host's headers",
            sent=False,
        )
