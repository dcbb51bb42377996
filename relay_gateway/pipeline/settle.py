"""The end of every request: exactly one usage record, whatever happened."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal

from relay_gateway.catalog.pricing import price
from relay_gateway.ids import instance_name
from relay_gateway.pipeline.admit import Admission
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.ports import Caller
from relay_gateway.plugin.usage import UsageRecord

Deliver = Callable[[UsageRecord], None]
_NO_FIGURES: dict[str, int] = {}
_NO_TAGS: dict[str, str] = {}


class Settlement:
    """Closes calls and hands their records over to delivery."""

    def __init__(self, deliver: Deliver, admission: Admission) -> None:
        self._deliver = deliver
        self._admission = admission
        self._instance = instance_name()

    def settle(self, call: Call, caller: Caller) -> None:
        """Closes ``call``; a second time does nothing."""
        self.account(call, caller)
        if call.captured is not None:
            call.captured.close()

    def account(self, call: Call, caller: Caller, unsent: int = 0) -> None:
        """Writes down what ``call`` was, before its caller has the last ``unsent`` bytes of the
        answer: whoever has the whole of it is accounted for, even if the process is killed then.
        :meth:`settle` comes after those bytes.
        """
        if call.settled:
            return
        call.settled = True
        if (drawn := call.drawn) is not None:
            drawn.in_flight -= 1
            for watcher in drawn.watchers:
                watcher(drawn)
        if call.probing is not None:
            call.probing.release()
        bytes_out = caller.bytes_out + unsent
        record = record_of(call, bytes_out, time.monotonic(), self._instance)
        if (
            call.reservation is not None
            or call.key_reservation is not None
            or call.budget_hold is not None
        ):
            self._admission.release(call, record)
        self._deliver(record)


def record_of(call: Call, bytes_out: int, now: float, instance: str) -> UsageRecord:
    """The usage record of a finished call, priced."""
    reading, model, host, received = call.reading, call.model, call.host, call.received_at
    tokens = reading.tokens if reading is not None else _NO_FIGURES
    units = reading.units if reading is not None else _NO_FIGURES
    estimated = bool(call.asked_units) and not (tokens or units) and 200 <= call.status < 300
    if estimated:
        units = dict(call.asked_units)
    tier, pricing = reading.tier if reading is not None else None, call.pricing
    cost = price(pricing, tokens, units, tier)
    first_byte, first_token = call.first_byte_at, call.first_token_at
    upstream_format = call.upstream_format
    return UsageRecord(
        request_id=call.request_id,
        started_at=timestamp(call.started_ns),
        mode=call.mode,
        endpoint=call.endpoint.name,
        wire_format=call.wire_format.name,
        upstream_wire_format=upstream_format.name if upstream_format is not None else None,
        streamed=call.streamed,
        status=call.status,
        outcome=call.outcome,
        error_code=call.error_code,
        client_request_id=call.client_request_id,
        # To the microsecond; round() costs three times as much.
        duration_ms=int((now - received) * 1e6) / 1000,
        ttfb_ms=None if first_byte is None else int((first_byte - received) * 1e6) / 1000,
        ttft_ms=None if first_token is None else int((first_token - received) * 1e6) / 1000,
        overhead_ms=int(_overhead(call, now) * 1e6) / 1000,
        attempts=tuple(call.attempts),
        relay_key_id=call.relay_key.id if call.relay_key is not None else None,
        policy_id=call.policy.id if call.policy is not None else None,
        provider_id=model.provider_id if model is not None else None,
        model_id=model.id if model is not None else None,
        requested_model=call.requested_model,
        upstream_model=reading.upstream_model if reading is not None else None,
        host_id=host.id if host is not None else None,
        host_key_id=call.host_key.id if call.host_key is not None else None,
        tokens=tokens,
        units=units,
        usage_source=_source(tokens, units, estimated=estimated),
        finish_reason=reading.finish_reason if reading is not None else None,
        tier=tier,
        pricing_id=pricing.id if pricing is not None else None,
        pricing_version=pricing.version if pricing is not None else None,
        cost_nanos=cost.nanos,
        currency=cost.currency,
        unpriced=cost.unpriced,
        tags=dict(call.tags) if call.tags else _NO_TAGS,
        client_ip=call.client_address,
        user_agent=call.user_agent,
        bytes_in=call.bytes_in,
        bytes_out=bytes_out,
        instance=instance,
        guards=call.guards,
    )


def _source(
    tokens: dict[str, int], units: dict[str, int], *, estimated: bool
) -> Literal["upstream", "estimated", "none"]:
    """Who said the figures."""
    if estimated:
        return "estimated"
    return "upstream" if tokens or units else "none"


def _overhead(call: Call, now: float) -> float:
    """Seconds in the gateway itself: before the upstream was asked, and after its last byte."""
    if call.sent_at is None:
        return now - call.received_at
    last = call.last_byte_at or call.first_byte_at or now
    return call.sent_at - call.received_at + now - last


def timestamp(nanoseconds: int) -> str:
    """A time since the epoch in RFC 3339 UTC."""
    milliseconds = nanoseconds // 1_000_000
    return f"{_second(milliseconds // 1000)}.{milliseconds % 1000:03d}Z"


@lru_cache(maxsize=4)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
