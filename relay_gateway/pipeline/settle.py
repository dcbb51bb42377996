"""The end of every request: exactly one usage record, whatever happened."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache

from relay_gateway.catalog.snapshot import Pricing
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.ports import Caller
from relay_gateway.plugin.usage import UsageRecord

Deliver = Callable[[UsageRecord, Pricing | None], None]


class Settlement:
    """Closes calls and hands their records over to delivery."""

    def __init__(self, deliver: Deliver) -> None:
        self._deliver = deliver
        self._instance = f"{socket.gethostname()}:{os.getpid()}"

    def settle(self, call: Call, caller: Caller) -> None:
        """Closes ``call``; a second time does nothing."""
        if call.settled:
            return
        call.settled = True
        if call.drawn is not None:
            call.drawn.in_flight -= 1
        self._deliver(record_of(call, caller, time.monotonic(), self._instance), call.pricing)


def record_of(call: Call, caller: Caller, now: float, instance: str) -> UsageRecord:
    """The usage record of a finished call; cost is added when it is delivered."""
    reading = call.reading
    metered = reading is not None and bool(reading.tokens or reading.units)
    return UsageRecord(
        request_id=call.request_id,
        started_at=_timestamp(call.started_ns),
        endpoint=call.endpoint.name,
        wire_format=call.wire_format.name,
        upstream_wire_format=call.wire_format.name if call.host else None,
        streamed=call.streamed,
        status=call.status,
        outcome=call.outcome,
        error_code=call.error_code,
        client_request_id=call.client_request_id,
        duration_ms=_milliseconds(now - call.received_at),
        ttfb_ms=_since(call.received_at, call.first_byte_at),
        ttft_ms=_since(call.received_at, call.first_token_at),
        overhead_ms=_overhead(call, now),
        attempts=tuple(call.attempts),
        relay_key_id=call.relay_key.id if call.relay_key else None,
        policy_id=call.policy.id if call.policy else None,
        provider_id=call.model.provider_id if call.model else None,
        model_id=call.model.id if call.model else None,
        requested_model=call.requested_model,
        upstream_model=reading.upstream_model if reading else None,
        host_id=call.host.id if call.host else None,
        host_key_id=call.host_key.id if call.host_key else None,
        tokens=reading.tokens if reading else {},
        units=reading.units if reading else {},
        usage_source="upstream" if metered else "none",
        finish_reason=reading.finish_reason if reading else None,
        pricing_id=call.pricing.id if call.pricing else None,
        tags=dict(call.tags) if call.tags else {},
        client_ip=call.client_address,
        user_agent=call.user_agent,
        bytes_in=call.bytes_in,
        bytes_out=caller.bytes_out,
        instance=instance,
    )


def _overhead(call: Call, now: float) -> float:
    """Time in the gateway itself: before the upstream was asked, and after its last byte."""
    if call.sent_at is None:
        return _milliseconds(now - call.received_at)
    last = call.last_byte_at or call.first_byte_at or now
    return _milliseconds(call.sent_at - call.received_at + now - last)


def _timestamp(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{_second(seconds)}.{rest // 1_000_000:03d}Z"


@lru_cache(maxsize=4)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _since(start: float, end: float | None) -> float | None:
    return None if end is None else _milliseconds(end - start)


def _milliseconds(seconds: float) -> float:
    return int(seconds * 1_000_000) / 1000  # to the microsecond; round() costs three times as much
