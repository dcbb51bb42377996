"""The head of a request to an upstream, as bytes."""

from __future__ import annotations

from relay_gateway.errors import UpstreamError
from relay_gateway.http.target import Target
from relay_gateway.plugin.providers import UpstreamRequest


def encode_head(target: Target, request: UpstreamRequest) -> bytes:
    """Request line and header block (RFC 9112 §3), with ``Host`` first and ``Content-Length`` last.

    Raises :class:`UpstreamError` for a path or header block that would break the framing, as a
    credential with a line break in it does; the message never quotes it.
    """
    _check_block(request.headers)
    path = request.target
    if not path.startswith(b"/") or len(path.split(None, 1)) != 1 or path[-1] <= 32:
        raise UpstreamError("the request target must be a path without white space", sent=False)
    start = (request.method, path, target.authority, request.headers)
    if not request.body and request.method in (b"GET", b"HEAD"):
        return b"%b %b HTTP/1.1\r\nHost: %b\r\n%b\r\n" % start
    length = len(request.body)
    return b"%b %b HTTP/1.1\r\nHost: %b\r\n%bContent-Length: %d\r\n\r\n" % (*start, length)


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
