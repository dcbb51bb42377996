"""A usage sink in memory that reads back, for tests of whoever writes to or asks a sink."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime
from statistics import fmean, quantiles
from typing import ClassVar

import msgspec

from relay_gateway.plugin import (
    LOG_DIMENSIONS,
    LOG_FILTERS,
    PRICE_FIELDS,
    Interval,
    LogPage,
    LogQuery,
    PluginConfig,
    PluginContext,
    SeriesQuery,
    UsagePoint,
    UsageQuery,
    UsageReader,
    UsageRecord,
    UsageRow,
    UsageSink,
)
from relay_gateway.testing.records import matches, newest_first

Group = tuple[str | None, ...]
"""A value for each name of ``group_by``."""


class MemoryUsageSink(UsageSink[PluginConfig], UsageReader):
    """Keeps records in ``records``, by request id; ``batches`` are all writes as they came.

    While ``failure`` is set, ``write`` raises it and keeps nothing.
    """

    name = "memory"
    reads: ClassVar[bool] = True
    corrects: ClassVar[bool] = True

    def __init__(self, config: PluginConfig, context: PluginContext) -> None:
        super().__init__(config, context)
        self.records: dict[str, UsageRecord] = {}
        self.batches: list[tuple[UsageRecord, ...]] = []
        self.failure: Exception | None = None

    async def write(self, records: Sequence[UsageRecord]) -> None:
        if self.failure is not None:
            raise self.failure
        self.batches.append(tuple(records))
        for record in records:
            self.records.setdefault(record.request_id, record)

    async def get(self, request_id: str) -> UsageRecord | None:
        return self.records.get(request_id)

    async def query(self, query: LogQuery) -> LogPage:
        unknown = query.equals.keys() - LOG_FILTERS
        if unknown:
            raise ValueError(f"records cannot be filtered by {sorted(unknown)}")
        found = [one for one in newest_first(self.records.values()) if matches(one, query)]
        if query.cursor is not None:
            found = found[self._place(found, query.cursor) + 1 :]
        page = tuple(found[: query.limit])
        more = len(found) > query.limit
        return LogPage(items=page, next_cursor=page[-1].request_id if more else None)

    async def summarize(self, query: UsageQuery) -> Sequence[UsageRow]:
        return _rows(query, self._chosen(query))

    async def timeseries(self, query: SeriesQuery) -> Sequence[UsagePoint]:
        chosen = self._chosen(query)
        own = _largest(query, chosen)
        steps: defaultdict[str, list[UsageRecord]] = defaultdict(list)
        for record in chosen:
            steps[_step(record.started_at, query.interval)].append(record)
        points = []
        for start, records in sorted(steps.items()):
            shown = [record for record in records if _group(query, record) in own]
            points += [UsagePoint(start=start, row=row) for row in _rows(query, shown)]
            rest = [record for record in records if _group(query, record) not in own]
            if rest:
                points.append(UsagePoint(start=start, row=_row({}, rest), other=True))
        return points

    async def correct(self, records: Sequence[UsageRecord]) -> int:
        changed = 0
        for record in records:
            stored = self.records.get(record.request_id)
            if stored is not None and (fresh := _priced_as(stored, record)) != stored:
                self.records[record.request_id] = fresh
                changed += 1
        return changed

    def _chosen(self, query: UsageQuery) -> list[UsageRecord]:
        wanted = LogQuery(start=query.start, end=query.end, equals=query.equals, tags=query.tags)
        return [record for record in self.records.values() if matches(record, wanted)]

    def _place(self, records: Sequence[UsageRecord], cursor: str) -> int:
        for place, record in enumerate(records):
            if record.request_id == cursor:
                return place
        raise ValueError("cursor is not one that a page of this list gave")


def _priced_as(record: UsageRecord, other: UsageRecord) -> UsageRecord:
    return msgspec.structs.replace(record, **{name: getattr(other, name) for name in PRICE_FIELDS})


def _rows(query: UsageQuery, records: Sequence[UsageRecord]) -> list[UsageRow]:
    groups: defaultdict[Group, list[UsageRecord]] = defaultdict(list)
    for record in records:
        groups[_group(query, record)].append(record)
    rows = [
        _row(dict(zip(query.group_by, values, strict=True)), members)
        for values, members in groups.items()
    ]
    return sorted(rows, key=lambda row: -row.requests)


def _group(query: UsageQuery, record: UsageRecord) -> Group:
    return tuple(_value(record, name) for name in query.group_by)


def _largest(query: SeriesQuery, records: Sequence[UsageRecord]) -> set[Group]:
    """The groups that have points of their own."""
    sizes = Counter(_group(query, record) for record in records)
    ranked = sorted(sizes, key=lambda group: (-sizes[group], [value or "" for value in group]))
    return set(ranked[: query.top])


def _step(time: str, interval: Interval) -> str:
    """The beginning of the step that an RFC 3339 UTC time is in."""
    moment = datetime.fromisoformat(time).replace(second=0, microsecond=0)
    if interval != "minute":
        moment = moment.replace(minute=0, hour=moment.hour if interval == "hour" else 0)
    return f"{moment:%Y-%m-%dT%H:%M:%S}Z"


def _value(record: UsageRecord, dimension: str) -> str | None:
    if dimension.startswith("tag:"):
        return record.tags.get(dimension.removeprefix("tag:"))
    if dimension not in LOG_DIMENSIONS:
        raise ValueError(f"usage cannot be grouped by {dimension!r}")
    value = msgspec.to_builtins(record)[LOG_DIMENSIONS[dimension]]
    return None if value is None else str(value)


def _row(group: dict[str, str | None], records: Sequence[UsageRecord]) -> UsageRow:
    tokens: Counter[str] = Counter()
    cost: Counter[str] = Counter()
    for record in records:
        tokens.update(record.tokens)
        if record.cost_nanos is not None and record.currency is not None:
            cost[record.currency] += record.cost_nanos
    first_tokens = [record.ttft_ms for record in records if record.ttft_ms is not None]
    return UsageRow(
        group=group,
        requests=len(records),
        errors=sum(record.outcome != "ok" for record in records),
        tokens=dict(tokens),
        cost_nanos=dict(cost),
        unpriced=sum(record.unpriced for record in records),
        duration_ms=_timing([record.duration_ms for record in records]),
        ttft_ms=_timing(first_tokens),
    )


def _timing(values: Sequence[float]) -> dict[str, float | None]:
    if not values:
        return dict.fromkeys(("avg", "p50", "p95", "p99"))
    # Two values at least, as `quantiles` needs them.
    cuts = quantiles([*values, values[0]][: max(2, len(values))], n=100, method="inclusive")
    return {"avg": fmean(values), "p50": cuts[49], "p95": cuts[94], "p99": cuts[98]}
