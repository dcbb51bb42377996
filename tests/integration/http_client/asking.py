"""What tests of the upstream client ask for, and how."""

from __future__ import annotations

from relay_gateway.http.client import Exchange, HttpClient
from relay_gateway.http.target import Target
from relay_gateway.plugin import UpstreamRequest
from relay_gateway.testing.script import response

OK = response(200, b"hello")


def post(body: bytes = b"{}") -> UpstreamRequest:
    return UpstreamRequest(b"/", b"", body)


async def fetch(client: HttpClient, target: Target, body: bytes = b"{}") -> Exchange:
    """An exchange whose answer was read to its end."""
    exchange = await client.send(target, post(body))
    await exchange.read(1 << 20)
    return exchange
