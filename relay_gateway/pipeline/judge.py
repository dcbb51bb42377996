"""What an answer that is not a success means, as the provider plugin of its host reads it."""

from __future__ import annotations

from dataclasses import replace

from relay_gateway.errors import FAULTS
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.error_answers import scrubbed, shown_error
from relay_gateway.pipeline.ports import Exchange
from relay_gateway.pipeline.refusals import Refusal
from relay_gateway.pipeline.upstream_requests import RequestBuilder
from relay_gateway.plugin.providers import Classification, UpstreamProvider
from relay_gateway.plugin.wire import Problem
from relay_gateway.secret import Secret

MAX_ERROR_BODY = 256 * 1024
CLASSIFIED_BYTES = 64 * 1024


class Judge:
    """Reads refusals; ``requests`` knows what becomes of a plugin that raises."""

    def __init__(self, requests: RequestBuilder) -> None:
        self._requests = requests

    async def refusal(
        self, call: Call, provider: UpstreamProvider, exchange: Exchange, secret: Secret | None
    ) -> Refusal:
        """The refusal that an answer with a status of 400 or more is, read whole."""
        body = await exchange.read(MAX_ERROR_BODY)
        exchange.cancel()
        shown = shown_error(exchange.headers, body, secret)
        verdict = self._classify(provider, exchange.status, exchange, shown.body)
        asked_in = call.upstream_format or call.wire_format
        return Refusal(
            exchange.status, shown.headers, shown.body, verdict, asked_in, legible=shown.legible
        )

    def failed_at_once(
        self,
        call: Call,
        provider: UpstreamProvider,
        exchange: Exchange,
        problem: Problem,
        secret: Secret | None,
    ) -> Refusal:
        """The refusal that the first event of a stream is."""
        message = scrubbed(problem.message.encode(), secret).decode()
        problem = replace(problem, message=message, request_id=call.request_id)
        asked_in = call.upstream_format or call.wire_format
        _, body = asked_in.dialect().error(problem)
        verdict = self._classify(provider, problem.status, exchange, body)
        return Refusal(problem.status, exchange.headers, body, verdict, asked_in, problem)

    def _classify(
        self, provider: UpstreamProvider, status: int, exchange: Exchange, body: bytes
    ) -> Classification:
        first = {name.lower(): value for name, value in reversed(exchange.headers.fields)}
        try:
            return provider.classify(status, first, body[:CLASSIFIED_BYTES])
        except FAULTS as error:  # plugins raise what they like
            raise self._requests.failed(provider, error) from None
