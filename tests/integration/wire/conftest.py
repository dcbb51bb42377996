"""The real server with a handler that says back what it was asked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from relay_gateway.http.exchange import ServerExchange
from relay_gateway.testing.inference_server import InferenceServer
from relay_gateway.testing.wire import WireCaller

BODY_LIMIT = 1024 * 1024


async def echo(exchange: ServerExchange) -> None:
    """Method, path, query and body of the request, as text."""
    body = await exchange.read_body(BODY_LIMIT)
    said = b"%b %b?%b " % (exchange.method.encode(), exchange.path.encode(), exchange.query)
    exchange.respond(200, b"Content-Type: text/plain\r\n", said + body)


@pytest.fixture(scope="session")
def echo_server() -> Iterator[InferenceServer]:
    with InferenceServer(echo) as server:
        yield server


@pytest.fixture
def caller(echo_server: InferenceServer) -> Iterator[WireCaller]:
    with WireCaller(echo_server.port) as caller:
        yield caller
