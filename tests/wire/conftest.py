"""Our server behind other people's servers, which write down what they passed on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from relay_gateway.http.exchange import ServerExchange
from relay_gateway.http.limits import ServerLimits
from relay_gateway.testing.fronts import FRONT_ID, BufferingHaproxy, Front, Haproxy, Nginx
from relay_gateway.testing.inference_server import InferenceServer

BODY_LIMIT = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Handled:
    """A request as it reached the handler; sizes in bytes."""

    front_id: str
    head: int
    body: int


@dataclass(slots=True)
class Behind:
    """A front with our server behind it, and the requests that our handler read whole."""

    front: Front
    handled: list[Handled] = field(default_factory=list)

    @property
    def port(self) -> int:
        """Where callers connect."""
        return self.front.port

    def check_books(self) -> None:
        """Both sides must tell of the same requests, of the same sizes; the front is stopped.

        Raises ``AssertionError`` where a request reached us that the front did not pass on, or
        that was longer or shorter for us than for the front.
        """
        self.front.stop()
        passed = {one.front_id: one for one in self.front.passed()}
        seen = [one.front_id for one in self.handled]
        assert len(seen) == len(set(seen)), "one request of the front was two for us"
        for ours in self.handled:
            theirs = passed.get(ours.front_id)
            assert theirs is not None, f"{ours} was never passed on"
            assert theirs.size in (None, ours.head + ours.body), f"{ours}, {theirs}"
            assert theirs.body in (None, ours.body), f"{ours}, {theirs}"


def size_of_head(exchange: ServerExchange) -> int:
    """How many bytes the head was, if each field was ``Name: value``."""
    target = len(exchange.path) + (1 + len(exchange.query) if exchange.query else 0)
    fields = sum(len(name) + len(value) + 4 for name, value in exchange.headers.fields)
    return len(exchange.method) + target + len("  HTTP/1.1\r\n") + fields + 2


@pytest.fixture(scope="module", params=[Nginx, Haproxy, BufferingHaproxy], ids=lambda f: f.name)
def behind(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Behind]:
    """One front after the other; the test module that used it ends with its books checked."""
    handled: list[Handled] = []

    async def echo(exchange: ServerExchange) -> None:
        body = await exchange.read_body(BODY_LIMIT)
        front_id = (exchange.headers.get(FRONT_ID.lower()) or b"").decode()
        handled.append(Handled(front_id, size_of_head(exchange), len(body)))
        said = b"%b %b?%b " % (exchange.method.encode(), exchange.path.encode(), exchange.query)
        exchange.respond(200, b"Content-Type: text/plain\r\n", said + body)

    limits = ServerLimits(body_grace_seconds=3.0, sweep_seconds=0.1)
    with (
        InferenceServer(echo, limits) as server,
        request.param(server.port, tmp_path_factory.mktemp("front")) as front,
    ):
        yield Behind(front, handled)
