"""Usage records for tests, and what a reader must answer about them, written the plain way."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from relay_gateway.ids import new_id
from relay_gateway.plugin import Attempt, GuardVisit, LogQuery, UsageRecord

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
SEARCHED = frozenset({"requestedModel", "upstreamModel", "errorCode"})
"""Record fields besides the ids that the text of a query is looked for in."""


def timestamp(seconds: float = 0.0) -> str:
    """RFC 3339 UTC with microseconds, so many seconds after 2026-01-01."""
    moment = EPOCH + timedelta(seconds=seconds)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def usage_record(**fields: Any) -> UsageRecord:
    """A record of an ordinary answered request; ``fields`` replace what they name."""
    ordinary: dict[str, Any] = {
        "request_id": new_id(),
        "started_at": timestamp(),
        "endpoint": "chat.completions",
        "wire_format": "acme.chat",
        "upstream_wire_format": "acme.chat",
        "status": 200,
        "duration_ms": 120.5,
        "ttfb_ms": 80.25,
        "overhead_ms": 0.75,
        "attempts": (Attempt(host_id="host-1", host_key_id="key-1", status=200, duration_ms=119),),
        "relay_key_id": "relay-1",
        "policy_id": "policy-1",
        "provider_id": "provider-1",
        "model_id": "model-1",
        "requested_model": "acme-large",
        "upstream_model": "acme-large-2026",
        "host_id": "host-1",
        "host_key_id": "key-1",
        "tokens": {"input": 10, "output": 5},
        "usage_source": "upstream",
        "finish_reason": "stop",
        "tier": "default",
        "pricing_id": "sheet-1",
        "pricing_version": 1,
        "cost_nanos": 1500,
        "currency": "USD",
        "instance": "instance-1",
    }
    return UsageRecord(**{**ordinary, **fields})


def varied_records(number: int = 60) -> list[UsageRecord]:
    """Records that differ in every field that can be filtered or grouped by.

    Several begin at the same instant, because busy gateways produce that too.
    """
    return [_varied(index) for index in range(number)]


def newest_first(records: Iterable[UsageRecord]) -> list[UsageRecord]:
    """The order of ``GET /logs``: by start, then by id, both descending."""
    return sorted(records, key=lambda one: (one.started_at, one.request_id), reverse=True)


def matches(record: UsageRecord, query: LogQuery) -> bool:
    """Whether ``record`` belongs to the answer of ``query``, by the words of :class:`LogQuery`."""
    fields = msgspec.to_builtins(record)
    searched = [fields[name] or "" for name in fields if name in SEARCHED or name.endswith("Id")]
    return (
        all(fields[name] == value for name, value in query.equals.items())
        and all(record.tags.get(name) == value for name, value in query.tags.items())
        and (query.start is None or record.started_at >= query.start)
        and (query.end is None or record.started_at < query.end)
        and (not query.text or any(query.text in value for value in searched))
    )


def _varied(index: int) -> UsageRecord:
    refused = index % 7 == 0
    return usage_record(
        started_at=timestamp(index // 3),
        client_request_id=f"client-{index % 11}",
        mode="proxy" if index % 5 == 0 else "gateway",
        endpoint=("chat.completions", "embeddings")[index % 2],
        wire_format=("acme.chat", "acme.embeddings")[index % 2],
        streamed=index % 3 == 0,
        status=429 if refused else 200,
        outcome="rejected" if refused else "ok",
        error_code="rate_limit_exceeded" if refused else None,
        relay_key_id=f"relay-{index % 4}",
        policy_id=f"policy-{index % 2}",
        provider_id=f"provider-{index % 3}",
        model_id=None if refused else f"model-{index % 5}",
        requested_model=f"acme-{index % 5}",
        upstream_model=f"acme-{index % 5}-2026",
        host_id=f"host-{index % 3}",
        host_key_id=f"key-{index % 6}",
        tokens={} if refused else {"input": index, "output": 2 * index, "cacheRead": index % 4},
        usage_source="none" if refused else "upstream",
        cost_nanos=None if index % 9 == 0 else 1000 * index,
        currency=None if index % 9 == 0 else ("USD", "EUR")[index % 2],
        unpriced=index % 9 == 0,
        tags={"team": f"team-{index % 3}"} if index % 2 else {},
        guards=(GuardVisit("patterns", "request", "changed", 0.25),) if index % 3 == 0 else (),
        duration_ms=float(index + 1),
        ttft_ms=float(index) if index % 3 == 0 else None,
        instance=f"instance-{index % 2}",
    )
