"""A server behind a front: what the one handled held against what the other passed on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from relay_gateway.http.exchange import ServerExchange
from relay_gateway.testing.fronts import FRONT_ID, Front
from relay_gateway.testing.wire_judge import BODY_LIMIT, Message, split_by_h11


@dataclass(slots=True)
class Behind:
    """A front with our server behind it.

    ``handled`` are the ids and the bodies of the requests that our handler read whole, ``received``
    is every byte of each connection that the front made.
    """

    front: Front
    handled: list[tuple[str, bytes]] = field(default_factory=list)
    received: list[bytearray] = field(default_factory=list)

    @property
    def port(self) -> int:
        """Where callers connect."""
        return self.front.port

    def check_books(self) -> int:
        """Stops the front; then its books, another parser's reading and ours must be the same.

        Answers how many requests were compared.

        Raises ``AssertionError`` where a request reached us that the front did not pass on, or that
        was longer or shorter for one of us than for the others.
        """
        self.front.stop()
        passed = {one.front_id: one for one in self.front.passed()}
        read: dict[str, Message] = {}
        for raw in self.received:
            for message in split_by_h11(bytes(raw)):
                front_id = _front_id(message.head.headers)
                assert front_id not in read, "one request of the front was two on the wire"
                read[front_id] = message
                theirs = passed[front_id]
                assert theirs.size in (None, message.size), f"{theirs}, {message}"
                assert theirs.body in (None, len(message.body)), f"{theirs}, {message}"
        seen = [front_id for front_id, _ in self.handled]
        assert len(seen) == len(set(seen)), "one request of the front was two for us"
        for front_id, body in self.handled:
            assert read[front_id].body == body, f"{read[front_id]} had the body {body!r} for us"
        return len(read)


def _front_id(fields: Iterable[tuple[bytes, bytes]]) -> str:
    return next(value.decode() for name, value in fields if name.lower() == FRONT_ID.lower())


class EchoBehind:
    """A handler that says back what it was asked, and keeps the books in ``handled``."""

    def __init__(self) -> None:
        self.handled: list[tuple[str, bytes]] = []

    async def __call__(self, exchange: ServerExchange) -> None:
        """Answers with method, path, query and body."""
        body = await exchange.read_body(BODY_LIMIT)
        self.handled.append((_front_id(exchange.headers.fields), body))
        said = b"%b %b?%b " % (exchange.method.encode(), exchange.path.encode(), exchange.query)
        exchange.respond(200, b"Content-Type: text/plain\r\n", said + body)
