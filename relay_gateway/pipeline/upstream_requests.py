"""Requests to upstreams: built by adapters, translated where a host speaks another format.

Of a request only its body differs from the caller's last one as long as the caller repeats its
head; then the rest of it is used again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from relay_gateway.catalog.snapshot import Host, Snapshot
from relay_gateway.errors import FAULTS
from relay_gateway.http.message import Headers
from relay_gateway.http.outgoing_head import OutgoingRequest, outgoing
from relay_gateway.http.target import Target
from relay_gateway.pipeline.body import replace_model
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.facts import KnownStart
from relay_gateway.pipeline.form import replace_form_model
from relay_gateway.pipeline.ports import Caller
from relay_gateway.pipeline.refusals import AdapterFailedError
from relay_gateway.pipeline.route import Candidate
from relay_gateway.pipeline.translate import Translation, Translator
from relay_gateway.plugin.canonical import SEAL_PREFIX
from relay_gateway.plugin.providers import UpstreamCall, UpstreamProvider
from relay_gateway.secret import Secret

_ALWAYS_FORWARDED = frozenset({b"content-type", b"accept"})
_OF_A_TRANSLATION = [(b"content-type", b"application/json")]
_SEAL = SEAL_PREFIX.encode("ascii")

_log = logging.getLogger(__name__)


class RequestBuilder:
    """Makes requests to upstreams, and knows where each host is."""

    def __init__(
        self,
        providers: Mapping[str, UpstreamProvider],
        translator: Translator,
        report: Callable[[str, BaseException], None],
    ) -> None:
        self._providers = providers
        self._translator = translator
        self._report = report
        self._forwarded: dict[str, frozenset[bytes]] = {}
        self._targets: dict[str, tuple[Host, Target]] = {}
        self._reusable: set[str] = set()
        self.providers_changed()

    def providers_changed(self) -> None:
        """Looks at the providers again, of which there may be others than before."""
        self._forwarded = {
            adapter: provider.request_headers | _ALWAYS_FORWARDED
            for adapter, provider in self._providers.items()
        }
        # Of a provider that builds requests in a way of its own nothing is known to be reusable.
        self._reusable = {
            adapter
            for adapter, provider in self._providers.items()
            if type(provider).build_request is UpstreamProvider.build_request and not provider.local
        }

    def is_plain(self, candidate: Candidate) -> bool:
        """Whether building a request for it is quick: nothing is translated, and no adapter does it
        in a way of its own."""
        return candidate.speech is None and candidate.binding.host.adapter in self._reusable

    def retain(self, snapshot: Snapshot) -> None:
        """Forgets hosts that are gone from the catalog, or were changed."""
        self._targets = {
            host_id: known
            for host_id, known in self._targets.items()
            if snapshot.hosts.get(host_id) is known[0]
        }

    def target(self, host: Host) -> Target:
        """Where the host is."""
        known = self._targets.get(host.id)
        if known is None or known[0] is not host:
            known = self._targets[host.id] = (host, target_of(host))
        return known[1]

    def build(
        self, call: Call, candidate: Candidate, secret: Secret | None, caller: Caller
    ) -> OutgoingRequest:
        """What goes to the upstream; its start is reused while the caller repeats its head."""
        binding = candidate.binding
        facts = call.facts if candidate.speech is None else None
        known = facts.start if facts is not None else None
        if (
            known is not None
            and known.binding is binding
            and known.secret is secret
            and known.streamed is call.streamed
        ):
            return OutgoingRequest(known.start, self._body(call, candidate))
        host = binding.host
        provider = self._providers[host.adapter]
        upstream = self.upstream_call(call, candidate, secret, caller.headers)
        try:
            built = provider.build_request(upstream)
        except FAULTS as error:  # plugins raise what they like
            raise self.failed(provider, error) from None
        request = outgoing(self.target(host), built)
        if facts is not None and host.adapter in self._reusable:
            facts.start = KnownStart(binding, secret, call.streamed, request.start)
        return request

    def upstream_call(
        self, call: Call, candidate: Candidate, secret: Secret | None, headers: Headers
    ) -> UpstreamCall:
        binding, speech = candidate.binding, candidate.speech
        if speech is None:
            call.translation = None
            wire_format, endpoint = call.wire_format, call.endpoint
            body = self._body(call, candidate)
            forwarded = headers.selected(self._forwarded[binding.host.adapter])
        else:
            forwarded = _OF_A_TRANSLATION
            wire_format, endpoint = speech.wire_format, speech.endpoint(streamed=call.streamed)
            call.translation = call.translation or self._begin(call, call.body)
            encoded = call.translation.encode(speech.codec, candidate.model, binding)
            body, call.dropped = encoded.body, encoded.dropped
        return UpstreamCall(
            binding.host.view,
            wire_format.name,
            endpoint,
            binding.upstream_name,
            secret,
            forwarded,
            body,
            call.streamed,
        )

    def _body(self, call: Call, candidate: Candidate) -> bytes:
        """The caller's body as this host is to have it."""
        call.dropped = ()
        binding = candidate.binding
        body, host = call.body, binding.host
        if call.body_for_usage is not None:
            provider = self._providers[host.adapter]
            if provider.takes_usage_option(host.view):
                body = call.body_for_usage
        if body.find(_SEAL) >= 0 and self._translator.reads(call.wire_format.name):
            return self._unsealed(call, candidate, body)
        name = binding.upstream_name
        if name == call.requested_model:
            return body
        if call.path_model is not None:
            return self._renamed(call, host, body, name)
        if call.form is not None:
            return replace_form_model(body, call.form, name)
        return replace_model(body, name)

    def _renamed(self, call: Call, host: Host, body: bytes, name: str) -> bytes:
        """The body of a request whose path says the model, which it may say once more."""
        try:
            return call.wire_format.renamed(body, name)
        except FAULTS as error:  # plugins raise what they like
            raise self.failed(self._providers[host.adapter], error) from None

    def _unsealed(self, call: Call, candidate: Candidate, body: bytes) -> bytes:
        """The body without the thoughts of other providers, which were sealed for the caller to
        keep: this one would take a seal for a signature of its own, and refuse it."""
        own = self._begin(call, body)
        encoded = own.encode(own.caller, candidate.model, candidate.binding)
        call.dropped = encoded.dropped
        return encoded.body

    def _begin(self, call: Call, body: bytes) -> Translation:
        return self._translator.begin(
            call.wire_format.name,
            body,
            call.requested_model or "",
            streamed=call.streamed,
            answer_id=call.request_id,
            now=call.started_ns // 1_000_000_000,
        )

    def failed(self, provider: UpstreamProvider, error: BaseException) -> AdapterFailedError:
        """Notes that an adapter raised ``error``; what the attempt then fails with."""
        _log.error("adapter %s failed with %s", provider.name, type(error).__name__, exc_info=error)
        self._report(provider.name, error)
        return AdapterFailedError(f"the adapter {provider.name!r} failed on this request")


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
        proxy_credential=host.proxy_credential,
    )
