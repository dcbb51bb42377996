"""One real call to a host, to see whether it answers and takes a credential."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

import msgspec

from relay_gateway.catalog.snapshot import Host, HostKey
from relay_gateway.errors import FAULTS, SecretError, UpstreamError, UpstreamTimeoutError
from relay_gateway.http.answer import Exchange
from relay_gateway.http.client import HttpClient
from relay_gateway.pipeline.credentials import Credentials
from relay_gateway.pipeline.judge import CLASSIFIED_BYTES
from relay_gateway.pipeline.refusals import AdapterFailedError
from relay_gateway.pipeline.upstream_requests import target_of
from relay_gateway.plugin.providers import UpstreamProvider, Verdict
from relay_gateway.secret import Secret

DEADLINE = 15.0
"""Seconds that one probe may take, whatever the host's own timeouts are."""

_ADVICE = {
    "upstream_unreachable": "check the host's baseUrl, and that the gateway may connect to it",
    "egress_proxy": "check the host's proxyUrl and proxyCredential",
    "upstream_tls": "check the certificate of the host, and tls.caFile where it is a private one",
    "upstream_timeout": "the host is too slow, or something on the way drops the connection",
    "upstream_invalid_response": "check that baseUrl leads to an HTTP/1.1 server",
    "upstream_closed": "the host closed the connection; check scheme and port of baseUrl",
    "upstream_redirect": "redirects are never followed: set baseUrl to where this one leads",
    "overloaded": "every connection to the host is in use; raise maxConnections, or wait",
    "adapter_failed": "the provider plugin failed; the log says how",
}


class ProbeReport(msgspec.Struct, frozen=True):
    """What came of a probe. ``ok`` says that the host answered as it should, ``reachable`` that it
    answered at all; ``error`` is a stable code. No text has anything that the host sent."""

    ok: bool
    reachable: bool
    latency_ms: float
    message: str
    status: int | None = None
    error: str | None = None


class HostProber:
    """Asks hosts what their provider declares to be the cheapest request."""

    def __init__(
        self,
        providers: Mapping[str, UpstreamProvider],
        client: HttpClient,
        credentials: Credentials,
        deadline: float = DEADLINE,
    ) -> None:
        self._providers = providers
        self._client = client
        self._credentials = credentials
        self._deadline = deadline

    async def probe(self, host: Host, key: HostKey | None) -> ProbeReport:
        """Asks ``host`` with the credential of ``key``, or without any. Never raises for what can
        be wrong with a host, its key or its provider."""
        provider = self._providers[host.adapter]
        if provider.local:
            return ProbeReport(True, True, 0.0, "the host is answered inside the gateway")
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._deadline):
                secret = await self._credentials.get(key) if key is not None else None
                began = time.monotonic()
                return await self._ask(provider, host, key, secret, began)
        except SecretError as error:
            return _failed(began, error.reason, str(error))
        except UpstreamError as error:
            return _failed(
                began, error.reason, f"{error}; {_ADVICE.get(error.reason, 'try again')}"
            )
        except TimeoutError:
            message = f"no answer within {self._deadline:g} s"
            reason = UpstreamTimeoutError.reason
            return _failed(began, reason, f"{message}; {_ADVICE[reason]}")

    async def _ask(
        self,
        provider: UpstreamProvider,
        host: Host,
        key: HostKey | None,
        secret: Secret | None,
        began: float,
    ) -> ProbeReport:
        try:
            request = provider.probe(host.view, secret)
        except FAULTS as error:  # plugins raise what they like
            raise _adapter_failed(provider, error) from None
        exchange = await self._client.send(target_of(host), request)
        latency = _since(began)
        try:
            return await self._judge(provider, exchange, key, latency)
        finally:
            exchange.cancel()

    async def _judge(
        self, provider: UpstreamProvider, exchange: Exchange, key: HostKey | None, latency: float
    ) -> ProbeReport:
        status = exchange.status
        if 200 <= status < 300:
            return ProbeReport(True, True, latency, _success(key), status)
        if status < 400:
            reason = "upstream_redirect"
            return ProbeReport(False, True, latency, _ADVICE[reason], status, reason)
        body = await exchange.read(CLASSIFIED_BYTES)
        first = {name.lower(): value for name, value in reversed(exchange.headers.fields)}
        try:
            verdict = provider.classify(status, first, body).verdict
        except FAULTS as error:  # plugins raise what they like
            raise _adapter_failed(provider, error) from None
        reason, message = _refusal(verdict, status, key)
        return ProbeReport(False, True, latency, message, status, reason)


def _success(key: HostKey | None) -> str:
    if key is None:
        return "the host answers; no credential was sent"
    return f"the host answers and takes the credential of host key {key.slug!r}"


def _refusal(verdict: Verdict, status: int, key: HostKey | None) -> tuple[str, str]:
    """A stable code, and what to do."""
    if verdict is Verdict.CREDENTIAL:
        if key is None:
            return "credential_needed", "the host answers and wants a credential; add a host key"
        message = f"the host refuses the credential of host key {key.slug!r}"
        return "credential_refused", f"{message}; see to its account, or rotate the key"
    if verdict is Verdict.THROTTLED:
        return "throttled", "the host answers and has no room for this credential now; try later"
    if verdict is Verdict.FAILURE:
        return "upstream_failed", f"the host fails with status {status}; see its status page"
    return (
        "unexpected_answer",
        f"the host answers the probe with status {status}; see that the path of baseUrl is right",
    )


def _adapter_failed(provider: UpstreamProvider, error: BaseException) -> AdapterFailedError:
    # The text of the error is the plugin's and may quote what it was given.
    return AdapterFailedError(f"the adapter {provider.name!r} raised {type(error).__name__}")


def _failed(began: float, reason: str, message: str) -> ProbeReport:
    return ProbeReport(False, False, _since(began), message, error=reason)


def _since(began: float) -> float:
    return round((time.monotonic() - began) * 1000, 1)
