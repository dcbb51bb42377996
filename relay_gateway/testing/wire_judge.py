"""Whether our server reads a request as another parser reads it, and answers what it reads.

The other parser is h11: it takes more than we do (bare line feeds, folded fields, repeated
lengths), but whatever both take must mean the same to both, to the last byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import h11

from relay_gateway.http.exchange import ServerExchange
from relay_gateway.testing.fed_connection import FedConnection

REFUSALS = frozenset({400, 405, 413, 414, 417, 426, 431, 501, 505})
"""What a broken request may be answered with."""

BODY_LIMIT = 1024 * 1024
_MOST_MESSAGES = 100_000
_ORIGIN = re.compile(rb"https?://[^/?#]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """What one request says; the target is in origin form."""

    method: bytes
    target: bytes
    body: bytes


@dataclass(frozen=True, slots=True)
class Message:
    """A request as h11 took it: its head, its content, and how many bytes it was on the wire."""

    head: h11.Request
    body: bytes
    size: int


def split_by_h11(data: bytes) -> Iterator[Message]:
    """Every complete request that h11 finds in what a connection brought, up to the first fault or
    the last request that the peer wants answered."""
    for _ in range(_MOST_MESSAGES):
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=BODY_LIMIT)
        # It does not skip the empty line that may precede a request (RFC 9112 §2.2).
        connection.receive_data(data.removeprefix(b"\r\n"))
        try:
            head, body = _next_message(connection)
        except h11.RemoteProtocolError:
            return
        if head is None:
            return
        rest = connection.trailing_data[0]
        yield Message(head, body, len(data) - len(rest))
        if _is_last(head):
            return
        data = rest


def read_by_h11(data: bytes) -> list[ReadRequest]:
    """What the requests say that :func:`split_by_h11` finds."""
    return [
        ReadRequest(one.head.method, _origin_form(one.head.target), one.body)
        for one in split_by_h11(data)
    ]


def _next_message(connection: h11.Connection) -> tuple[h11.Request | None, bytes]:
    head, body = None, b""
    for _ in range(_MOST_MESSAGES):
        event = connection.next_event()
        if isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            return head, body
        else:
            return None, b""
    raise AssertionError("h11 finds no end of a message")


def _origin_form(target: bytes) -> bytes:
    rest = _ORIGIN.sub(b"", target, count=1) if not target.startswith(b"/") else target
    path, _, query = rest.partition(b"?")
    return (path or b"/") + (b"?" + query if query else b"")


def _is_last(head: h11.Request) -> bool:
    wishes = b",".join(value for name, value in head.headers if name == b"connection").lower()
    tokens = {wish.strip() for wish in wishes.split(b",")}
    return b"close" in tokens or (head.http_version == b"1.0" and b"keep-alive" not in tokens)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What our server made of the bytes: the requests that it handled, the statuses that it sent,
    and whether it ended the connection."""

    handled: Sequence[ReadRequest]
    statuses: Sequence[int]
    over: bool


async def read_by_us(pieces: Sequence[bytes]) -> Verdict:
    """Feeds one connection with ``pieces`` and reads its answers.

    Raises ``AssertionError`` where those are not well-formed.
    """
    handled: list[ReadRequest] = []

    async def handler(exchange: ServerExchange) -> None:
        body = await exchange.read_body(BODY_LIMIT)
        target = exchange.path.encode() + (b"?" + exchange.query if exchange.query else b"")
        handled.append(ReadRequest(exchange.method.encode(), target, body))
        exchange.respond(200, b"", body)

    wire = FedConnection(handler)
    for piece in pieces:
        wire.receive(piece)
        await wire.settle()
    for _ in range(_MOST_MESSAGES):
        if not wire.state.tasks or not handled:
            break
        await wire.settle()
    verdict = Verdict(handled, _statuses(wire.transport.sent, handled), wire.over)
    wire.lose()
    await wire.settle()
    assert not wire.state.tasks, "a handler outlived its connection"
    return verdict


def _statuses(sent: bytes, handled: Sequence[ReadRequest]) -> list[int]:
    statuses: list[int] = []
    while sent:
        head, end, sent = sent.partition(b"\r\n\r\n")
        assert end, f"an answer has no end of its head: {head!r}"
        status = int(head.split(b" ", 2)[1])
        if status == 100:
            continue
        # A refusal may be that of a HEAD request, which then was not handled to its end.
        answered = handled[len(statuses)] if len(statuses) < len(handled) else None
        silent = answered.method == b"HEAD" if answered is not None else not sent
        statuses.append(status)
        if not silent:
            length = int(re.findall(rb"\r\nContent-Length: (\d+)", head)[0])
            assert len(sent) >= length, "an answer is shorter than it says"
            sent = sent[length:]
    return statuses


def judge(verdict: Verdict, reference: Sequence[ReadRequest]) -> None:
    """Raises ``AssertionError`` where the server and the reference could be played off against each
    other."""
    good = [status for status in verdict.statuses if status == 200]
    bad = list(verdict.statuses[len(good) :])
    assert len(bad) <= 1, f"more than one refusal on a connection: {verdict.statuses}"
    assert set(bad) <= REFUSALS, f"refused with {bad}"
    assert len(good) == len(verdict.handled), "a request was handled and not answered"
    assert list(verdict.handled) == list(reference[: len(good)]), (
        f"read {verdict.handled}, the reference read {reference}"
    )
    if bad:
        assert verdict.over, "the connection stays open after a refusal"
    else:
        assert len(good) == len(reference), (
            f"read {len(good)} requests, the reference {len(reference)}: {reference}"
        )
