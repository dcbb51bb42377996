"""One request in proxy mode, top to bottom: the caller's own credential, every byte as it came.

One attempt at one host. Nothing is retried elsewhere, because the credential belongs to this host.
Nor is a host that is left alone for its failures refused, since nothing else could stand in for it.
That it cannot be connected to is told its breaker; what it answers is not, because the gateway does
not know what a caller asks here, who must not be able to have a host left alone for all others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from relay_gateway.catalog.snapshot import Host
from relay_gateway.errors import RequestRefusedError, UpstreamError
from relay_gateway.http.answer import Exchange
from relay_gateway.http.client import HttpClient
from relay_gateway.http.message import Headers
from relay_gateway.http.outgoing_head import ForwardedRequest
from relay_gateway.http.target import Target
from relay_gateway.limits.choose import in_memory
from relay_gateway.pipeline.admit import Admission
from relay_gateway.pipeline.announce import Announcer, Ledger, NoLedger
from relay_gateway.pipeline.authenticate import Authenticator, check, look_up, unauthorized
from relay_gateway.pipeline.breaker import HostBreakers
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.capture import Payloads, is_wanted
from relay_gateway.pipeline.carrier import Interruptible
from relay_gateway.pipeline.claims import is_limited
from relay_gateway.pipeline.inspection import Inspection, inspection_of
from relay_gateway.pipeline.output_limit import refuse_more
from relay_gateway.pipeline.ports import Caller
from relay_gateway.pipeline.proxied_answer import ProxiedAnswer
from relay_gateway.pipeline.proxied_head import HeadSieve, refuse_leak
from relay_gateway.pipeline.proxy_route import Errand, ProxyRouter, upstream_path
from relay_gateway.pipeline.rate_headers import MARK
from relay_gateway.pipeline.refusals import is_unreachable, refusal_of
from relay_gateway.pipeline.settle import Deliver, Settlement
from relay_gateway.pipeline.upload import Upload
from relay_gateway.pipeline.upstream_requests import target_of
from relay_gateway.plugin.providers import UpstreamProvider
from relay_gateway.plugin.usage import Attempt

INSPECTED_BYTES = 1024 * 1024
"""How much of a body is held to decide where it goes; the rest of a larger one streams."""

_CREDENTIALS = (b"authorization", b"x-api-key", b"x-goog-api-key")
_OWN_HEADER = "send the relay key in the gateway's own API-Key header; in proxy mode the others"

Prepare = Callable[[Call, Caller], Awaitable[None]]
GatewayLines = Callable[[Call], bytes]
"""The header lines that the gateway adds to an answer."""


class Proxy:
    """Answers requests in proxy mode; errors are raised for whoever words them."""

    def __init__(
        self,
        client: HttpClient,
        providers: Mapping[str, UpstreamProvider],
        authenticator: Authenticator,
        sieve: HeadSieve,
        deliver: Deliver,
        gateway_lines: GatewayLines,
        payloads: Payloads | None = None,
        admission: Admission | None = None,
        ledger: Ledger | None = None,
        breakers: HostBreakers | None = None,
    ) -> None:
        self._breakers = breakers
        self._payloads = payloads
        self._client = client
        self._providers = providers
        self._local: set[str] = set()
        self.providers_changed()
        self._authenticator = authenticator
        self._sieve = sieve
        self._admission = admission = admission or Admission(in_memory())
        self._settlement = Settlement(deliver, admission)
        self._announce = Announcer(ledger or NoLedger()).announce
        self._gateway_lines = gateway_lines
        self._router = ProxyRouter()
        self.prepare: Prepare = self._claim
        """What is done before the host is asked, when it is known which."""
        self._running: set[Interruptible] = set()

    @property
    def without_task(self) -> int:
        """How many answers are under way without a task."""
        return len(self._running)

    def providers_changed(self) -> None:
        """Looks at the providers again, of which there may be others than before."""
        self._local = {name for name, provider in self._providers.items() if provider.local}

    def interrupt(self) -> None:
        """Ends every answer that is under way without a task."""
        for one in list(self._running):
            one.interrupt()

    async def answer(self, call: Call, caller: Caller, errand: Errand) -> None:
        """Answers one request; returns when its answer has begun. Raises
        :class:`RequestRefusedError`."""
        relay_key = self._admit(call, caller, errand)
        if self._payloads is not None and is_wanted(call):
            caller = self._payloads.around(call, caller)
        host = self._router.host(call.snapshot, call.policy, errand)
        inspection, seen = await self._inspect(call, caller, errand)
        if host is None:
            host = self._host_by_model(call, errand)
        self._judge(call, host, call.requested_model)
        if host.adapter in self._local:
            raise _no_address(host)
        request = self._request(caller, errand, host, relay_key)
        await self.prepare(call, caller)
        exchange = await self._ask(call, caller, host, request, inspection, seen)
        self._deliver(call, caller, exchange)

    def _admit(self, call: Call, caller: Caller, errand: Errand) -> str | None:
        """Whether the caller may use proxy mode at all; answers the relay key as it was sent."""
        section = call.snapshot.settings.proxy_mode
        if not section.enabled:
            raise _disabled("proxy mode is not enabled on this gateway")
        _refuse_repeated(caller.headers)
        presented = self._authenticator.present_own(caller.headers)
        if presented is None:
            if not section.allow_unauthenticated:
                raise unauthorized(f"{_OWN_HEADER} are for the upstream's credential")
            if errand.pin is None:
                raise _unpinned()
            _refuse_relay_keys(call, caller)
            return None
        found = look_up(call.snapshot, presented)
        check(found, call.client_address, call.started_ns / 1e9)
        call.relay_key = key = found.key
        call.policy = call.snapshot.policy_of(key)
        if key.tags:
            call.tags = {**key.tags, **call.tags}
        if call.policy is None or not call.policy.allow_proxy_mode:
            raise _disabled("the policy of this relay key does not allow proxy mode")
        return presented

    async def _inspect(self, call: Call, caller: Caller, errand: Errand) -> tuple[Inspection, int]:
        """What looks at the body, and how much of it it has seen; ``requested_model`` is set as far
        as it is known by then."""
        if call.path_model is not None:
            call.requested_model = call.path_model
            return Inspection(), 0
        beginning = await caller.read_beginning(INSPECTED_BYTES)
        strict = errand.names_model and call.policy is not None
        inspection = inspection_of(caller.headers, beginning, strict=strict)
        if caller.body_complete:
            if beginning:
                inspection.whole(beginning)
        else:
            inspection.feed(beginning)
        call.requested_model = inspection.model
        return inspection, len(beginning)

    async def _claim(self, call: Call, caller: Caller) -> None:
        """Holds the request to its limits, as far as what is held of its body tells."""
        policy = call.policy
        most = policy.max_output_tokens if policy is not None else None
        if policy is None or (most is None and not is_limited(call) and not policy.budgets):
            return
        call.body = await caller.read_beginning(INSPECTED_BYTES)
        try:
            if most is not None and caller.body_complete:
                refuse_more(call.wire_format, call.body, most, policy.slug)
            await self._admission.admit_proxied(call)
        finally:
            call.body = b""

    def _host_by_model(self, call: Call, errand: Errand) -> Host:
        if call.policy is None or call.requested_model is None:
            raise _undecided(errand)
        return self._router.by_model(
            call.snapshot, call.policy, errand, call.requested_model, call.wire_format.name
        )

    def _judge(self, call: Call, host: Host, model: str | None) -> None:
        """Notes host, model and price of the call; raises where the policy grants no such model."""
        call.host = host
        if model is None:
            return
        call.requested_model = model
        served = self._router.judge(call.snapshot, call.policy, host, model)
        if served is not None:
            call.model, call.pricing = served.model, served.binding.pricing

    def _request(
        self, caller: Caller, errand: Errand, host: Host, relay_key: str | None
    ) -> ForwardedRequest:
        """The caller's request as the host gets it, without its body."""
        block = self._sieve.request_block(caller, target_of(host).authority)
        if relay_key is not None:
            refuse_leak(relay_key, caller, block)
        path = upstream_path(host.view.path, errand.path).encode("ascii")
        if errand.query:
            path = b"%b?%b" % (path, errand.query)
        return ForwardedRequest(caller.method.encode("ascii"), path, block)

    async def _ask(
        self,
        call: Call,
        caller: Caller,
        host: Host,
        request: ForwardedRequest,
        inspection: Inspection,
        seen: int,
    ) -> Exchange:
        self._announce(call, call.model, call.host, None)
        call.sent_at = began = time.monotonic()
        if call.wire_format.name:
            call.upstream_format = call.wire_format
        target = target_of(host)
        try:
            if caller.body_complete:
                exchange = await self._send_whole(call, caller, target, request)
            else:
                judge = partial(self._judge, call, host)
                upload = Upload(call, caller, inspection, judge, seen)
                chunked = caller.content_length is None
                exchange, writer = await self._client.upload(target, request, chunked=chunked)
                await upload.run(exchange, writer)
        except UpstreamError as error:
            self._note(call, began, 0, error.reason)
            if self._breakers is not None and is_unreachable(error):
                self._breakers.failed(host, began, error.reason)
            raise refusal_of(error) from error
        except asyncio.CancelledError:
            self._note(call, began, 0, "cancelled")
            raise
        call.first_byte_at = time.monotonic()
        self._note(call, began, exchange.status, None)
        return exchange

    async def _send_whole(
        self, call: Call, caller: Caller, target: Target, request: ForwardedRequest
    ) -> Exchange:
        body = await caller.read_beginning(INSPECTED_BYTES)
        call.bytes_in = len(body)
        if caller.content_length is None:
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
        request.body = body
        return await self._client.answer(target, request, await self._client.begin(target, request))

    def _deliver(self, call: Call, caller: Caller, exchange: Exchange) -> None:
        call.status = exchange.status
        if exchange.status >= 400:
            call.fail("upstream_error", "upstream_error")
        if any(MARK in name for name in exchange.headers.names()):
            call.rate_lines = b""  # what the upstream says of the caller's own credential stands
        headers = self._sieve.answer_block(exchange.headers) + self._gateway_lines(call)
        ProxiedAnswer(call, caller, exchange, self._settlement, self._running).begin(headers)

    @staticmethod
    def _note(call: Call, began: float, status: int, error: str | None) -> None:
        elapsed = int((time.monotonic() - began) * 1e6) / 1000
        host_id = call.host.id if call.host is not None else ""
        attempt = Attempt(host_id=host_id, status=status, error=error, duration_ms=elapsed)
        call.attempts.append(attempt)


def _refuse_repeated(headers: Headers) -> None:
    for name in _CREDENTIALS:
        if headers.is_repeated(name):
            raise RequestRefusedError(
                400, "duplicate_auth", f"the header {name.decode()} was sent more than once"
            )


def _refuse_relay_keys(call: Call, caller: Caller) -> None:
    """Refuses a relay key where a credential for the upstream belongs."""
    for name in _CREDENTIALS:
        value = (caller.headers.get(name) or b"").decode("latin-1")
        presented = value[7:].strip() if value[:7].lower() == "bearer " else value
        try:
            look_up(call.snapshot, presented)
        except RequestRefusedError:
            continue
        raise unauthorized(f"{_OWN_HEADER} go to the upstream")


def _disabled(message: str) -> RequestRefusedError:
    return RequestRefusedError(403, "proxy_mode_disabled", message)


def _unpinned() -> RequestRefusedError:
    return RequestRefusedError(
        400,
        "invalid_request",
        "without a relay key a request in proxy mode must pin its host",
        param="upstream-host",
    )


def _undecided(errand: Errand) -> RequestRefusedError:
    where = "several hosts have this path prefix" if errand.prefix else "the path has no prefix"
    return RequestRefusedError(
        400,
        "invalid_request",
        f"{where} and the beginning of the request names no model, so its host is not known: pin "
        "one, or ask at the path prefix of one host",
        param="upstream-host",
    )


def _no_address(host: Host) -> RequestRefusedError:
    return RequestRefusedError(
        400,
        "invalid_request",
        f"the host {host.slug!r} answers inside the gateway and cannot be reached in proxy mode",
        param="upstream-host",
    )
