"""Usage records, the sinks that store them and the readers that give them back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import msgspec

from relay_gateway.plugin.base import ConfigT, Plugin

Outcome = Literal["ok", "upstream_error", "rejected", "cancelled", "aborted", "timeout"]


class Attempt(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """One try at an upstream. ``status`` is the upstream's (0: none arrived), ``error`` a stable
    code."""

    host_id: str
    host_key_id: str | None = None
    status: int = 0
    error: str | None = None
    duration_ms: float = 0.0


GuardPhase = Literal["request", "response", "stream"]
GuardDeed = Literal["allowed", "changed", "refused", "failed", "unreadable"]


class GuardVisit(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """What one guard did with one request or its answer. With ``dry_run`` it only would have."""

    guard: str
    phase: GuardPhase
    did: GuardDeed
    duration_ms: float = 0.0
    dry_run: bool = False


class UsageRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """What one inference request was, cost and led to; also for requests that were refused.

    Times are RFC 3339 UTC, durations milliseconds, ``cost_nanos`` billionths of ``currency``.
    ``tokens`` maps meter names without their ``tokens.`` prefix (``input``, ``output``,
    ``cacheRead``, …) to counts; other meters (``images``, ``requests``, …) are in ``units``.
    ``tier`` is the upstream's word for how it processed the request; ``pricing_version`` says by
    which version of the price sheet ``pricing_id`` the cost was reckoned.
    """

    request_id: str
    started_at: str
    mode: Literal["gateway", "proxy"] = "gateway"
    endpoint: str = ""
    wire_format: str = ""
    upstream_wire_format: str | None = None
    streamed: bool = False
    status: int = 0
    outcome: Outcome = "ok"
    error_code: str | None = None
    client_request_id: str | None = None
    duration_ms: float = 0.0
    ttfb_ms: float | None = None
    ttft_ms: float | None = None
    overhead_ms: float | None = None
    attempts: tuple[Attempt, ...] = ()
    relay_key_id: str | None = None
    policy_id: str | None = None
    provider_id: str | None = None
    model_id: str | None = None
    requested_model: str | None = None
    upstream_model: str | None = None
    host_id: str | None = None
    host_key_id: str | None = None
    tokens: dict[str, int] = {}
    units: dict[str, int] = {}
    usage_source: Literal["upstream", "estimated", "none"] = "none"
    finish_reason: str | None = None
    tier: str | None = None
    pricing_id: str | None = None
    pricing_version: int | None = None
    cost_nanos: int | None = None
    currency: str | None = None
    unpriced: bool = False
    tags: dict[str, str] = {}
    client_ip: str | None = None
    user_agent: str | None = None
    bytes_in: int = 0
    bytes_out: int = 0
    instance: str = ""
    guards: tuple[GuardVisit, ...] = ()


class UsageSink(Plugin[ConfigT]):
    """Stores usage records; called in batches, off the request path, retried until it returns."""

    reads: ClassVar[bool] = False
    """Whether the sink is a :class:`UsageReader` too."""
    corrects: ClassVar[bool] = False
    """Whether :meth:`UsageReader.correct` works."""
    batch_records: int = 500
    """How many records a batch has at most."""
    batch_bytes: int = 4 * 1024 * 1024
    """About how large a batch is at most, in bytes, where it is read back from the spool; one from
    memory has a few thousand records at most."""
    batch_seconds: float = 0.05
    """How long the first record of a batch waits for more to come, at most. Classes set these
    three, or instances before they are opened; what ends waits for none of them."""

    async def write(self, records: Sequence[UsageRecord]) -> None:
        """Stores a batch. The same record may come again after a failure: ``request_id`` is unique
        and a second arrival changes nothing. Raises to have the batch retried."""
        raise NotImplementedError


class LogQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which records ``GET /logs`` wants, newest first.

    ``equals`` maps field names of :class:`UsageRecord` in camelCase to wanted values; ``tags`` must
    all match; times are RFC 3339 UTC, ``start`` included, ``end`` not; ``text`` is looked for in
    ids, model names and error codes.
    """

    limit: int = 100
    cursor: str | None = None
    equals: Mapping[str, str | int | bool] = {}
    tags: Mapping[str, str] = {}
    start: str | None = None
    end: str | None = None
    text: str | None = None


class LogPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of records and the cursor of the next one, ``None`` on the last."""

    items: tuple[UsageRecord, ...]
    next_cursor: str | None = None


class UsageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which totals ``GET /usage/summary`` wants.

    ``group_by`` holds dimension names of the contract (``model``, ``relayKey``, ``tag:team``, …);
    ``tags`` must all match, the rest is as in :class:`LogQuery`.
    """

    group_by: tuple[str, ...] = ()
    start: str | None = None
    end: str | None = None
    equals: Mapping[str, str | int | bool] = {}
    tags: Mapping[str, str] = {}


Interval = Literal["minute", "hour", "day"]


class SeriesQuery(UsageQuery, frozen=True, kw_only=True):
    """Totals over time: as :class:`UsageQuery`, in steps of ``interval`` that begin at whole UTC
    minutes, hours or days.

    With ``top`` only so many groups have points of their own, at least one: those with the most
    requests in the whole period, equal ones in the order of their names. All others are summed in
    one point per step, whose ``other`` is true. ``None`` is no such limit; so is a ``group_by``
    without names.
    """

    interval: Interval = "hour"
    top: int | None = None


class UsageRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Totals of one group. ``cost`` maps currency to nano-units; percentiles are milliseconds."""

    group: dict[str, str | None]
    requests: int
    errors: int
    tokens: dict[str, int]
    cost_nanos: dict[str, int]
    unpriced: int
    duration_ms: dict[str, float | None]
    ttft_ms: dict[str, float | None]


class UsagePoint(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Totals of one group in the step that begins at ``start`` (RFC 3339 UTC), or, where ``other``
    is true, of all that are not among the largest; its row's ``group`` is empty then."""

    start: str
    row: UsageRow
    other: bool = False


LOG_DIMENSIONS: Mapping[str, str] = {
    "model": "modelId",
    "provider": "providerId",
    "host": "hostId",
    "hostKey": "hostKeyId",
    "policy": "policyId",
    "relayKey": "relayKeyId",
    "endpoint": "endpoint",
    "outcome": "outcome",
    "status": "status",
}
"""Dimension names of usage queries and the record fields they group by; ``tag:<name>`` is one
more."""

LOG_FILTERS: frozenset[str] = frozenset(
    {
        *LOG_DIMENSIONS.values(),
        "requestId",
        "clientRequestId",
        "requestedModel",
        "upstreamModel",
        "wireFormat",
        "mode",
        "streamed",
        "errorCode",
        "usageSource",
        "unpriced",
        "instance",
    }
)
"""Record fields that every reader can filter by."""


PRICE_FIELDS: tuple[str, ...] = (
    "cost_nanos",
    "currency",
    "unpriced",
    "pricing_id",
    "pricing_version",
)
"""Fields of :class:`UsageRecord` that a price sheet decides, under their names in Python."""


class UsageReader:
    """What a sink with ``reads = True`` can also do; mixed into its class."""

    async def get(self, request_id: str) -> UsageRecord | None:
        """One record, or ``None``."""
        raise NotImplementedError

    async def query(self, query: LogQuery) -> LogPage:
        """A page of records, newest first; the cursor is the reader's own, opaque and stable."""
        raise NotImplementedError

    async def summarize(self, query: UsageQuery) -> Sequence[UsageRow]:
        """Totals per group, largest number of requests first."""
        raise NotImplementedError

    async def timeseries(self, query: SeriesQuery) -> Sequence[UsagePoint]:
        """Totals per step and group, oldest step first; steps without a request are left out.

        A reader that does not know ``query.top`` gives all groups.
        """
        raise NotImplementedError

    async def correct(self, records: Sequence[UsageRecord]) -> int:
        """Gives records that are stored the price of ``records``: :data:`PRICE_FIELDS`, and
        nothing else; totals follow. Returns how many changed.

        All of ``records`` or none; a second time changes nothing, and what is not stored stays so.
        Only where ``corrects`` is true.
        """
        raise NotImplementedError
