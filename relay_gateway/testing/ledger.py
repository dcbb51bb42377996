"""What a scripted upstream saw: connections, requests and callers that went away."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

HeaderList = tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """One request as it was on the wire.

    ``headers`` keep spelling, order and duplicates; ``body`` is without chunk framing, ``raw`` is
    every byte of head and body. ``ordinal`` counts the requests of one connection from 1. ``at`` is
    the monotonic time in seconds when it was complete.
    """

    method: str
    target: str
    http_version: str
    headers: HeaderList
    body: bytes
    raw: bytes
    connection_id: int
    ordinal: int
    at: float

    def header(self, name: str) -> str | None:
        """The first value of ``name`` in any case, or ``None``."""
        values = self.header_values(name)
        return values[0] if values else None

    def header_values(self, name: str) -> list[str]:
        """Every value of ``name`` in any case, in order."""
        wanted = name.lower().encode()
        return [value.decode("latin-1") for key, value in self.headers if key.lower() == wanted]

    def header_names(self) -> list[str]:
        """Names as they were spelled, in order."""
        return [name.decode("latin-1") for name, _ in self.headers]

    def json(self) -> Any:
        """The body as JSON. Raises ``ValueError`` when it is none."""
        return json.loads(self.body)


@dataclass(slots=True)
class SeenConnection:
    """One accepted connection. ``received`` is every byte that came, also of broken requests.

    ``sent`` counts the bytes that the kernel took for the peer. Times are monotonic seconds;
    ``peer_closed_at`` is when the peer's FIN or RST was seen (``peer_reset`` tells which),
    ``closed_at`` when this side was done with the connection.
    """

    id: int
    opened_at: float
    received: bytearray = field(default_factory=bytearray)
    sent: int = 0
    requests: int = 0
    peer_closed_at: float | None = None
    peer_reset: bool = False
    closed_at: float | None = None


@dataclass(frozen=True, slots=True)
class Cancellation:
    """The peer went away before the script of its request had ended; ``at`` is when."""

    connection_id: int
    request: SeenRequest
    at: float


class MalformedRequestError(ValueError):
    """What arrived is not an HTTP/1.x request; the message says what is wrong."""


def parse_head(head: bytes) -> tuple[str, str, str, HeaderList]:
    """Method, target, version and headers of a request head, its blank line included.

    Strict on purpose: what a gateway sends must not need any tolerance.
    """
    lines = head[:-4].split(b"\r\n")
    parts = lines[0].split(b" ")
    if len(parts) != 3 or not parts[2].startswith(b"HTTP/1."):
        raise MalformedRequestError(f"not a request line: {lines[0][:200]!r}")
    method, target, version = (part.decode("latin-1") for part in parts)
    return method, target, version.removeprefix("HTTP/"), tuple(map(_field, lines[1:]))


def body_framing(headers: HeaderList) -> int | None:
    """Length of the body in bytes, ``None`` when it is chunked.

    Raises :class:`MalformedRequestError` for more than one answer to that question.
    """
    encodings = [value for name, value in headers if name.lower() == b"transfer-encoding"]
    lengths = [value for name, value in headers if name.lower() == b"content-length"]
    if len(encodings) + len(lengths) > 1:
        raise MalformedRequestError(f"more than one framing: {encodings + lengths!r}")
    if encodings:
        if encodings[0].lower() != b"chunked":
            raise MalformedRequestError(f"unknown transfer-encoding {encodings[0]!r}")
        return None
    if lengths and not lengths[0].isdigit():
        raise MalformedRequestError(f"content-length is no number: {lengths[0]!r}")
    return int(lengths[0]) if lengths else 0


def _field(line: bytes) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(b":")
    if not colon or not name or name != name.strip() or b"\n" in line or b"\r" in line:
        raise MalformedRequestError(f"not a header line: {name[:100]!r}")
    return name, value.strip(b" \t")
