"""Opens connections to upstreams: name, address check, TCP, egress proxy and TLS, in that order."""

from __future__ import annotations

import asyncio
import socket
import ssl
from ipaddress import ip_address

from relay_gateway.errors import (
    EgressProxyError,
    SecretError,
    UpstreamConnectError,
    UpstreamTimeoutError,
    UpstreamTlsError,
)
from relay_gateway.http.egress import EgressRules
from relay_gateway.http.race import connect_first
from relay_gateway.http.resolve import Resolver
from relay_gateway.http.target import Target
from relay_gateway.http.tls import TlsContexts
from relay_gateway.http.tunnel import Proxy, ProxyLogins, TunnelRequest
from relay_gateway.secret import Secret


class Dialer:
    """Connects protocols to targets; nothing else in the core opens a socket to an upstream."""

    def __init__(
        self, resolver: Resolver, rules: EgressRules, logins: ProxyLogins | None = None
    ) -> None:
        self._resolver = resolver
        self._rules = rules
        self._logins = logins
        self._tls = TlsContexts()

    async def dial(self, target: Target, protocol: asyncio.Protocol) -> None:
        """Returns when ``protocol`` is connected to ``target`` (handshake and tunnel included).

        Raises :class:`UpstreamConnectError`, :class:`UpstreamTlsError` or, after
        ``target.connect_timeout``, :class:`UpstreamTimeoutError`; nothing was sent in any case.
        """
        try:
            async with asyncio.timeout(target.connect_timeout):
                if target.proxy_url is None:
                    await self._connect(target, protocol)
                else:
                    await self._tunnel(target, Proxy.from_url(target.proxy_url), protocol)
        except TimeoutError as error:
            raise UpstreamTimeoutError(
                f"{target.name} could not be connected within {target.connect_timeout:g} s",
                phase="connect",
                sent=False,
            ) from error
        except ssl.SSLError as error:
            raise UpstreamTlsError(
                f"no trusted TLS with {target.name}: {_tls_words(error)}", sent=False
            ) from error
        except OSError as error:
            raise UpstreamConnectError(
                f"{target.name} cannot be reached: {error.strerror or type(error).__name__}",
                sent=False,
            ) from error

    async def _connect(self, target: Target, protocol: asyncio.Protocol) -> None:
        context = await self._tls.get(target.ca_file) if target.scheme == "https" else None
        sock = await self._reach(target.scheme, target.host, target.port)
        await _attach(sock, protocol, target.host, context)

    async def _reach(self, scheme: str, host: str, port: int) -> socket.socket:
        addresses = await self._resolver.resolve(host, port)
        self._rules.check(scheme, host, addresses)
        return await connect_first(addresses, port)

    async def _tunnel(self, target: Target, proxy: Proxy, protocol: asyncio.Protocol) -> None:
        self._check_beyond(target)
        proxy_tls = await self._tls.get(None) if proxy.scheme == "https" else None
        context = await self._tls.get(target.ca_file) if target.scheme == "https" else None
        login = await self._login(target, proxy)
        sock = await self._reach(proxy.scheme, proxy.host, proxy.port)
        request = TunnelRequest(proxy, target, login)
        transport = await _attach(sock, request, proxy.host, proxy_tls)
        try:
            await request.opened
            await _hand_over(transport, protocol, target.host, context)
        except BaseException as error:
            transport.abort()
            self._judge(error, target, login)
            raise

    async def _login(self, target: Target, proxy: Proxy) -> Secret | None:
        if target.proxy_credential is None:
            return None
        if self._logins is None:
            raise EgressProxyError(f"nothing here knows the login of the egress proxy {proxy.name}")
        try:
            return await self._logins.get(target.proxy_credential)
        except SecretError as error:
            raise EgressProxyError(
                f"the login of the egress proxy {proxy.name} cannot be had: {error}"
            ) from error

    def _judge(self, error: BaseException, target: Target, login: Secret | None) -> None:
        """Has a login that the proxy refused looked up again: it may have been replaced."""
        refused = isinstance(error, EgressProxyError) and error.status == 407
        if refused and self._logins and target.proxy_credential and login:
            self._logins.refused(target.proxy_credential, login)

    def _check_beyond(self, target: Target) -> None:
        """What can be checked of an address that the proxy resolves: literals, and plain http."""
        try:
            literal = ip_address(target.host)
        except ValueError:
            if target.scheme == "http":
                raise UpstreamConnectError(
                    f"{target.name} is plain http by name behind an egress proxy, where the "
                    "gateway cannot see its address; use https or a private address",
                    sent=False,
                ) from None
        else:
            self._rules.check(target.scheme, target.host, (literal,))


async def _attach(
    sock: socket.socket,
    protocol: asyncio.Protocol,
    host: str,
    context: ssl.SSLContext | None,
) -> asyncio.Transport:
    loop = asyncio.get_running_loop()
    try:
        transport, _ = await loop.create_connection(
            lambda: protocol,
            sock=sock,
            ssl=context,
            server_hostname=None if context is None else _server_name(host),
        )
    except BaseException:
        sock.close()
        raise
    return transport


async def _hand_over(
    transport: asyncio.Transport,
    protocol: asyncio.Protocol,
    host: str,
    context: ssl.SSLContext | None,
) -> None:
    if context is None:
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        return
    secured = await asyncio.get_running_loop().start_tls(
        transport, protocol, context, server_hostname=_server_name(host)
    )
    if secured is None:
        raise ConnectionResetError("the tunnel closed during the TLS handshake")
    protocol.connection_made(secured)


def _server_name(host: str) -> str:
    return host.rstrip(".")


def _tls_words(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not acceptable, {error.verify_message}"
    return (error.reason or type(error).__name__).replace("_", " ").lower()
