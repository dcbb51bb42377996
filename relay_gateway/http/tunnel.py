"""A tunnel through an egress proxy: ``CONNECT`` (RFC 9110 §9.3.6), with credentials where given."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass
from typing import cast
from urllib.parse import unquote_to_bytes, urlsplit

from relay_gateway.errors import UpstreamConnectError
from relay_gateway.http.target import DEFAULT_PORTS, Target, authority_of

MAX_ANSWER_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class Proxy:
    """Where an egress proxy is, and what it wants to see. Never printed whole."""

    scheme: str
    host: str
    port: int
    authorization: bytes

    @classmethod
    def from_url(cls, url: str) -> Proxy:
        """Reads ``http[s]://[user:password@]host[:port]``.

        Raises :class:`UpstreamConnectError`, without quoting the address, for anything else.
        """
        parts = urlsplit(url)
        if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
            raise UpstreamConnectError(
                "the egress proxy's address must be http:// or https:// with a host", sent=False
            )
        authorization = b""
        if parts.username is not None:
            user, password = unquote_to_bytes(parts.username), parts.password or ""
            pair = b"%b:%b" % (user, unquote_to_bytes(password))
            authorization = b"Proxy-Authorization: Basic %b\r\n" % base64.b64encode(pair)
        port = parts.port or DEFAULT_PORTS[parts.scheme]
        return cls(parts.scheme, parts.hostname, port, authorization)

    @property
    def name(self) -> str:
        """Scheme, host and port for messages."""
        return f"{self.scheme}://{authority_of(self.host, self.port).decode('ascii', 'replace')}"


class TunnelRequest(asyncio.Protocol):
    """Asks for a tunnel as soon as it is connected; ``opened`` says how that went.

    When it went well the transport is silent and another protocol may take it over.
    """

    def __init__(self, proxy: Proxy, target: Target) -> None:
        self._proxy = proxy
        self._target = target
        self._answer = b""
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Sends the request."""
        authority = authority_of(self._target.host, self._target.port)
        request = b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n%b\r\n"
        cast("asyncio.Transport", transport).write(
            request % (authority, authority, self._proxy.authorization)
        )

    def data_received(self, data: bytes) -> None:
        """Collects the answer's head."""
        self._answer += data
        head, end, rest = self._answer.partition(b"\r\n\r\n")
        if not end and len(self._answer) <= MAX_ANSWER_BYTES:
            return
        words = head.split(None, 2)
        if not end or len(words) < 2 or not words[0].startswith(b"HTTP/1."):
            self._fail("answered with something other than HTTP/1.1")
        elif len(words[1]) != 3 or not words[1].startswith(b"2"):
            status = words[1][:3].decode("ascii", "replace")
            self._fail(f"refused the tunnel with status {status}")
        elif rest:
            self._fail("sent bytes before the tunnel was used")
        elif not self.opened.done():
            self.opened.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        """The proxy closed."""
        self._fail("closed the connection instead of opening a tunnel")

    def _fail(self, reason: str) -> None:
        if not self.opened.done():
            self.opened.set_exception(
                UpstreamConnectError(f"the egress proxy {self._proxy.name} {reason}", sent=False)
            )
