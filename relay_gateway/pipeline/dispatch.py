"""From a plan to an answer: draw a key, ask a host, and decide whether to ask again elsewhere.

The one owner of retries. Another attempt is only made before the first byte has reached the caller.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

from relay_gateway.catalog.snapshot import Host, HostKey, Snapshot
from relay_gateway.errors import (
    RequestRefusedError,
    SecretError,
    UpstreamConnectError,
    UpstreamError,
    UpstreamOverloadedError,
    UpstreamTimeoutError,
)
from relay_gateway.http.client import HttpClient
from relay_gateway.http.message import Headers
from relay_gateway.http.target import Target
from relay_gateway.pipeline.body import replace_model
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.credentials import Credentials
from relay_gateway.pipeline.keypool import CREDENTIAL_BENCH, KeyPools
from relay_gateway.pipeline.local import ask_locally
from relay_gateway.pipeline.ports import Exchange
from relay_gateway.pipeline.route import Candidate, Plan
from relay_gateway.plugin.providers import (
    Classification,
    UpstreamCall,
    UpstreamProvider,
    Verdict,
)
from relay_gateway.plugin.usage import Attempt
from relay_gateway.secret import Secret

MAX_ERROR_BODY = 256 * 1024
CLASSIFIED_BYTES = 64 * 1024
_ALWAYS_FORWARDED = frozenset({b"content-type", b"accept"})

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer of an upstream that is not a success, read whole."""

    status: int
    headers: Headers
    body: bytes
    classification: Classification


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """An attempt that got no answer at all."""

    error: UpstreamError


class RedirectedError(UpstreamError):
    """The upstream answered with a redirect; none is ever followed."""

    reason = "upstream_redirect"


class AdapterFailedError(UpstreamError):
    """A provider plugin raised while it built a request or read an answer."""

    reason = "adapter_failed"


class Dispatcher:
    """Asks upstreams until one answers or the plan is exhausted."""

    def __init__(
        self,
        providers: Mapping[str, UpstreamProvider],
        client: HttpClient,
        credentials: Credentials,
        pools: KeyPools,
        report: Callable[[str, Exception], None],
    ) -> None:
        self._providers = providers
        self._client = client
        self._credentials = credentials
        self._pools = pools
        self._report = report
        self._forwarded = {
            adapter: provider.request_headers | _ALWAYS_FORWARDED
            for adapter, provider in providers.items()
        }
        self._targets: dict[str, tuple[Host, Target]] = {}

    async def dispatch(self, call: Call, plan: Plan, headers: Headers) -> Exchange | Refusal:
        """The first answer to deliver; raises :class:`RequestRefusedError` when there is none."""
        failures, allowed = 0, call.snapshot.settings.routing.max_attempts
        last: Refusal | NoAnswer | None = None
        for candidate in plan.candidates():
            for key in self._keys(call, candidate):
                result = await self._attempt(call, candidate, key, headers)
                if isinstance(result, Refusal):
                    if result.classification.verdict is Verdict.DELIVER:
                        return result
                    last = result
                elif isinstance(result, NoAnswer):
                    last = result
                elif result is not None:
                    return result
                if not _is_about_the_key(result):
                    failures += 1
                if failures >= allowed:
                    return self._give_up(plan, last)
                if isinstance(result, NoAnswer) and not isinstance(
                    result.error, UpstreamTimeoutError
                ):
                    break  # another key would meet the same unreachable host
        return self._give_up(plan, last)

    def retain(self, snapshot: Snapshot) -> None:
        """Lets go of connections to hosts that are gone from the catalog, or were changed."""
        self._targets = {
            host_id: known
            for host_id, known in self._targets.items()
            if snapshot.hosts.get(host_id) is known[0]
        }
        self._client.retain([target_of(host) for host in snapshot.hosts.values()])

    def _keys(self, call: Call, candidate: Candidate) -> list[HostKey | None]:
        if candidate.binding.host.no_auth:
            return [None]
        strategy = call.policy.key_selection if call.policy else "prioritized"
        return list(self._pools.order(candidate.keys, strategy))

    async def _attempt(
        self, call: Call, candidate: Candidate, key: HostKey | None, headers: Headers
    ) -> Exchange | Refusal | NoAnswer | None:
        """One attempt; ``None`` when the key could not even be drawn."""
        host = candidate.binding.host
        secret = await self._secret(key) if key is not None else None
        if key is not None and secret is None:
            return None
        began = time.monotonic()
        call.model, call.host, call.host_key = candidate.model, host, key
        call.pricing = candidate.binding.pricing
        self._draw(call, key, began)
        try:
            result = await self._ask(call, candidate, secret, headers, began)
        except UpstreamError as error:
            self._note(call, began, 0, error.reason)
            return NoAnswer(error)
        if isinstance(result, Refusal):
            self._note(call, began, result.status, result.classification.verdict.value)
            self._take(result.classification, key, secret)
        else:
            self._note(call, began, result.status, None)
            if call.drawn is not None and call.drawn.strikes:
                call.drawn.recover()
        return result

    def _draw(self, call: Call, key: HostKey | None, now: float) -> None:
        """Counts ``key`` as in use by this request, and no longer the one before it."""
        if call.drawn is not None:
            call.drawn.in_flight -= 1
        call.drawn = self._pools.draw(key.id, now) if key is not None else None

    async def _secret(self, key: HostKey) -> Secret | None:
        secret = self._credentials.peek(key)
        if secret is not None:
            return secret
        try:
            return await self._credentials.get(key)
        except SecretError as error:
            self._pools.bench(key.id, f"{error.reason}: {error}")
            _log.warning("host key %s cannot be resolved: %s", key.slug, error)
            return None

    async def _ask(
        self,
        call: Call,
        candidate: Candidate,
        secret: Secret | None,
        headers: Headers,
        began: float,
    ) -> Exchange | Refusal:
        host = candidate.binding.host
        provider = self._providers[host.adapter]
        upstream = self._upstream_call(call, candidate, secret, headers)
        if call.sent_at is None:
            call.sent_at = began
        exchange = await self._send(provider, host, upstream)
        call.first_byte_at = time.monotonic()
        if 200 <= exchange.status < 300:
            return exchange
        if exchange.status < 400:
            exchange.cancel()
            raise RedirectedError("the upstream answered with a redirect; none is followed")
        body = _scrubbed(await exchange.read(MAX_ERROR_BODY), secret)
        exchange.cancel()
        return Refusal(
            exchange.status, exchange.headers, body, self._classify(provider, exchange, body)
        )

    def _upstream_call(
        self,
        call: Call,
        candidate: Candidate,
        secret: Secret | None,
        headers: Headers,
    ) -> UpstreamCall:
        name = candidate.binding.upstream_name
        body = call.body if name == call.requested_model else replace_model(call.body, name)
        allowed = self._forwarded[candidate.binding.host.adapter]
        return UpstreamCall(
            candidate.binding.host.view,
            call.wire_format.name,
            call.endpoint,
            name,
            secret,
            headers.selected(allowed),
            body,
            call.streamed,
        )

    def _send(
        self, provider: UpstreamProvider, host: Host, upstream: UpstreamCall
    ) -> Awaitable[Exchange]:
        if provider.local:
            return self._send_locally(provider, upstream)
        try:
            request = provider.build_request(upstream)
        except Exception as error:  # noqa: BLE001 - plugins raise what they like
            raise self._adapter_failed(provider, error) from None
        return self._client.send(self._target(host), request)

    async def _send_locally(self, provider: UpstreamProvider, upstream: UpstreamCall) -> Exchange:
        try:
            return await ask_locally(provider, upstream)
        except UpstreamError:
            raise
        except Exception as error:  # noqa: BLE001 - plugins raise what they like
            raise self._adapter_failed(provider, error) from None

    def _classify(
        self, provider: UpstreamProvider, exchange: Exchange, body: bytes
    ) -> Classification:
        first = {name.lower(): value for name, value in reversed(exchange.headers.fields)}
        try:
            return provider.classify(exchange.status, first, body[:CLASSIFIED_BYTES])
        except Exception as error:  # noqa: BLE001 - plugins raise what they like
            raise self._adapter_failed(provider, error) from None

    def _adapter_failed(self, provider: UpstreamProvider, error: Exception) -> AdapterFailedError:
        _log.error("adapter %s failed with %s", provider.name, type(error).__name__, exc_info=error)
        self._report(provider.name, error)
        return AdapterFailedError(f"the adapter {provider.name!r} failed on this request")

    def _take(
        self, classification: Classification, key: HostKey | None, secret: Secret | None
    ) -> None:
        """Draws the consequences of a refusal for the key that met it."""
        if key is None or secret is None:
            return
        if classification.verdict is Verdict.CREDENTIAL:
            self._pools.bench(key.id, "refused by the upstream", CREDENTIAL_BENCH)
            self._credentials.refused(key, secret, lambda: self._pools.reset(key.id))
        elif classification.verdict is Verdict.THROTTLED:
            self._pools.bench(key.id, "throttled by the upstream", classification.retry_after)

    def _target(self, host: Host) -> Target:
        known = self._targets.get(host.id)
        if known is None or known[0] is not host:
            known = self._targets[host.id] = (host, target_of(host))
        return known[1]

    @staticmethod
    def _note(call: Call, began: float, status: int, error: str | None) -> None:
        duration = time.monotonic() - began
        call.attempts.append(
            Attempt(
                host_id=call.host.id if call.host else "",
                host_key_id=call.host_key.id if call.host_key else None,
                status=status,
                error=error,
                duration_ms=round(duration * 1000, 3),
            )
        )

    def _give_up(self, plan: Plan, last: Refusal | NoAnswer | None) -> Refusal:
        if isinstance(last, NoAnswer):
            raise refusal_of(last.error)
        if last is None:
            keys = [key for candidate in plan.candidates() for key in candidate.keys]
            raise RequestRefusedError(
                503,
                "no_available_host_key",
                f"no host key for the model {plan.model.name!r} can be used right now",
                retry_after=self._pools.shortest_wait(keys),
            )
        if last.classification.verdict is Verdict.CREDENTIAL:
            raise RequestRefusedError(
                502,
                "upstream_credentials",
                f"the upstream refused every credential for the model {plan.model.name!r}",
            )
        return last


def target_of(host: Host) -> Target:
    """Where and how to connect to a host."""
    timeouts = host.timeouts
    return replace(
        Target.from_url(host.view.base_url),
        connect_timeout=timeouts.connect,
        first_byte_timeout=timeouts.first_byte,
        idle_timeout=timeouts.idle,
        total_timeout=timeouts.total,
        max_connections=host.max_connections,
        ca_file=host.tls.ca_file,
        proxy_url=host.proxy_url,
    )


def refusal_of(error: UpstreamError) -> RequestRefusedError:
    """What a caller is told when the last attempt got no answer; never an address."""
    if isinstance(error, UpstreamTimeoutError) and error.phase != "connect":
        return RequestRefusedError(504, error.reason, "the upstream did not answer in time")
    if isinstance(error, UpstreamOverloadedError):
        return RequestRefusedError(
            503, error.reason, "too many requests are waiting for this host", retry_after=1
        )
    if isinstance(error, UpstreamConnectError | UpstreamTimeoutError):
        return RequestRefusedError(
            502, UpstreamConnectError.reason, "the upstream could not be reached"
        )
    if isinstance(error, AdapterFailedError | RedirectedError):
        return RequestRefusedError(502, error.reason, str(error))
    return RequestRefusedError(502, error.reason, "the upstream did not give a valid answer")


def concealed(refusal: Refusal) -> RequestRefusedError:
    """The upstream's refusal with its status and, where there is one, the time to wait; the body is
    the gateway's own."""
    wait = refusal.headers.get(b"retry-after")
    return RequestRefusedError(
        refusal.status,
        "upstream_error",
        f"the upstream refused the request with status {refusal.status}",
        headers=((b"retry-after", wait),) if wait is not None else (),
    )


def _is_about_the_key(result: Refusal | NoAnswer | None) -> bool:
    """Whether the attempt failed for the key's sake: turning to another one is not a retry."""
    if result is None:
        return True
    return isinstance(result, Refusal) and result.classification.verdict in (
        Verdict.CREDENTIAL,
        Verdict.THROTTLED,
    )


def _scrubbed(body: bytes, secret: Secret | None) -> bytes:
    """An error body without the credential, should the upstream have echoed it."""
    if secret is None:
        return body
    return body.replace(secret.reveal().encode(), b"***")
