"""A tunnel through an egress proxy: ``CONNECT`` (RFC 9110 §9.3.6), with credentials where given."""

from __future__ import annotations

import asyncio
import base64
from typing import Protocol, cast
from urllib.parse import urlsplit

import msgspec

from relay_gateway.catalog.snapshot import ProxyCredential
from relay_gateway.errors import EgressProxyError
from relay_gateway.http.target import DEFAULT_PORTS, Target, authority_of
from relay_gateway.secret import Secret

MAX_ANSWER_BYTES = 16 * 1024


class Proxy(msgspec.Struct, frozen=True):
    """Where an egress proxy is."""

    scheme: str
    host: str
    port: int

    @classmethod
    def from_url(cls, url: str) -> Proxy:
        """Reads ``http[s]://host[:port]``.

        Raises :class:`EgressProxyError`, without quoting the address, for anything else.
        """
        parts = urlsplit(url)
        if parts.scheme not in DEFAULT_PORTS or not parts.hostname or parts.username is not None:
            raise EgressProxyError(
                "the egress proxy's address must be http:// or https:// with a host and no login"
            )
        return cls(parts.scheme, parts.hostname, parts.port or DEFAULT_PORTS[parts.scheme])

    @property
    def name(self) -> str:
        """Scheme, host and port for messages."""
        return f"{self.scheme}://{authority_of(self.host, self.port).decode('ascii', 'replace')}"


class ProxyLogins(Protocol):
    """Knows user names and passwords of egress proxies."""

    async def get(self, credential: ProxyCredential) -> Secret:
        """``user:password``. Raises :class:`SecretError`."""

    def refused(self, credential: ProxyCredential, login: Secret) -> None:
        """The proxy did not accept ``login``."""


class TunnelRequest(asyncio.Protocol):
    """Asks for a tunnel as soon as it is connected; ``opened`` says how that went.

    When it went well the transport is silent and another protocol may take it over.
    """

    def __init__(self, proxy: Proxy, target: Target, login: Secret | None) -> None:
        self._proxy = proxy
        self._target = target
        self._login = login
        self._answer = b""
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Sends the request."""
        authority = authority_of(self._target.host, self._target.port)
        request = b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n%b\r\n"
        cast("asyncio.Transport", transport).write(
            request % (authority, authority, _authorization(self._login))
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
            status = words[1][:3]
            self._refuse(int(status) if status.isdigit() else 0)
        elif rest:
            self._fail("sent bytes before the tunnel was used")
        elif not self.opened.done():
            self.opened.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        """The proxy closed."""
        self._fail("closed the connection instead of opening a tunnel")

    def _refuse(self, status: int) -> None:
        if status != 407:
            self._fail(f"refused the tunnel with status {status}", status)
        elif self._login is None:
            self._fail("wants a user name and password (407); set the host's proxyCredential", 407)
        else:
            self._fail("did not accept the host's proxyCredential (407)", 407)

    def _fail(self, reason: str, status: int = 0) -> None:
        if not self.opened.done():
            message = f"the egress proxy {self._proxy.name} {reason}"
            self.opened.set_exception(EgressProxyError(message, status=status))


def _authorization(login: Secret | None) -> bytes:
    """The field with the credential (RFC 7617), where there is one."""
    if login is None:
        return b""
    return b"Proxy-Authorization: Basic %b\r\n" % base64.b64encode(login.reveal().encode())
