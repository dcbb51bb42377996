"""What a scripted upstream does: steps, and builders for the usual answers made of them.

A script is a sequence of steps that begins when a request is complete::

    [Send(head(200)), Send(chunk(b"half")), Wait(0.2), Reset()]

After the last step the connection waits for the next request; ``Close`` and ``Reset`` end it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus

HeaderPairs = Sequence[tuple[str, str]]
JSON_HEADERS: HeaderPairs = (("content-type", "application/json"),)
EVENT_STREAM_HEADERS: HeaderPairs = (
    ("content-type", "text/event-stream; charset=utf-8"),
    ("cache-control", "no-cache"),
)
LAST_CHUNK = b"0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Send:
    """Writes these bytes and waits until the kernel has taken them."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Wait:
    """Does nothing for this long."""

    seconds: float


@dataclass(frozen=True, slots=True)
class WaitFor:
    """Does nothing until the test sets the event."""

    event: asyncio.Event


@dataclass(frozen=True, slots=True)
class HalfClose:
    """Sends FIN and goes on reading."""


@dataclass(frozen=True, slots=True)
class Close:
    """Closes the connection in order (FIN), after everything sent has left."""


@dataclass(frozen=True, slots=True)
class Reset:
    """Closes the connection by RST."""


@dataclass(frozen=True, slots=True)
class Hang:
    """Does nothing until the peer closes or the upstream is stopped."""


Step = Send | Wait | WaitFor | HalfClose | Close | Reset | Hang
Script = Sequence[Step]


def head(
    status: int = 200,
    headers: HeaderPairs = (),
    *,
    length: int | None = None,
    version: str = "1.1",
) -> bytes:
    """Status line and header block; a chunked body is announced when ``length`` is ``None``."""
    lines = [f"HTTP/{version} {status} {_reason(status)}"]
    lines += [f"{name}: {value}" for name, value in headers]
    if length is not None:
        lines.append(f"content-length: {length}")
    elif version == "1.1":
        lines.append("transfer-encoding: chunked")
    return "\r\n".join((*lines, "", "")).encode("latin-1")


def chunk(data: bytes) -> bytes:
    """``data`` as one chunk of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def response(
    status: int = 200,
    body: bytes = b"",
    headers: HeaderPairs = (),
    *,
    chunked: bool = False,
) -> list[Step]:
    """A whole answer, with ``Content-Length`` or, when ``chunked``, as one chunk."""
    if not chunked:
        return [Send(head(status, headers, length=len(body)) + body)]
    framed = chunk(body) if body else b""
    return [Send(head(status, headers) + framed + LAST_CHUNK)]


def json_response(
    status: int, value: object, headers: HeaderPairs = (), *, chunked: bool = False
) -> list[Step]:
    """A JSON answer."""
    body = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    return response(status, body, (*JSON_HEADERS, *headers), chunked=chunked)


def sse_event(data: object, *, event: str | None = None) -> bytes:
    """One server-sent event. ``data`` is text as it is, or any other value as JSON."""
    text = data if isinstance(data, str) else json.dumps(data, separators=(",", ":"))
    lines = [] if event is None else [f"event: {event}"]
    lines += [f"data: {line}" for line in text.split("\n")]
    return "\n".join((*lines, "", "")).encode()


def sse_response(
    events: Iterable[bytes],
    *,
    status: int = 200,
    headers: HeaderPairs = (),
    delay: float = 0.0,
    ending: Sequence[Step] = (Send(LAST_CHUNK),),
) -> list[Step]:
    """A chunked event stream: the head, then each of ``events`` as one chunk.

    ``delay`` is in seconds, before each event. ``ending`` is what follows the last one: by default
    the regular end of the body, ``[Reset()]`` or ``[Hang()]`` for a stream that breaks or stalls.
    """
    steps: list[Step] = [Send(head(status, (*EVENT_STREAM_HEADERS, *headers)))]
    for event in events:
        if delay:
            steps.append(Wait(delay))
        steps.append(Send(chunk(event)))
    return [*steps, *ending]


def cut(script: Script, at: int, *ending: Step) -> list[Step]:
    """``script`` up to its first ``at`` bytes, then ``ending`` (by default ``Reset``).

    Running it for each ``at`` up to :func:`size` breaks an answer at every byte.
    """
    kept: list[Step] = []
    left = at
    for step in script:
        if not isinstance(step, Send):
            kept.append(step)
        elif len(step.data) < left:
            kept.append(step)
            left -= len(step.data)
        else:
            kept += [Send(step.data[:left])] if left else []
            break
    return [*kept, *(ending or (Reset(),))]


def sliced(script: Script, length: int) -> list[Step]:
    """``script`` with each ``Send`` divided into sends of at most ``length`` bytes."""
    steps: list[Step] = []
    for step in script:
        if not isinstance(step, Send):
            steps.append(step)
            continue
        for start in range(0, len(step.data), length):
            steps += [Send(step.data[start : start + length]), Wait(0)]
    return steps


def size(script: Script) -> int:
    """How many bytes ``script`` sends."""
    return sum(len(step.data) for step in script if isinstance(step, Send))


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unassigned"
