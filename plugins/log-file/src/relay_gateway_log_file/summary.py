"""Totals per group and step of time, counted record by record."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime

from relay_gateway.plugin import (
    LOG_DIMENSIONS,
    Interval,
    SeriesQuery,
    UsagePoint,
    UsageQuery,
    UsageRecord,
    UsageRow,
)
from relay_gateway_log_file.archive import SECOND, Archive
from relay_gateway_log_file.filters import Conditions, conditions_of, member_of
from relay_gateway_log_file.lines import microseconds, record_of

PERCENTILES = (50, 95, 99)
STEPS: Mapping[Interval, int] = {"minute": 60, "hour": 3600, "day": 86400}
"""Seconds."""
ALL_TIME = 0
"""The step of everything, where time does not matter."""

Group = tuple[str | None, ...]
OTHER: Group = ()
"""All groups that are not among the largest of a series."""


class Totals:
    """Figures of one group while they are counted."""

    __slots__ = ("cost_nanos", "durations", "errors", "first_tokens", "requests", "tokens",
                 "unpriced")  # fmt: skip

    def __init__(self) -> None:
        self.requests = 0
        self.errors = 0
        self.unpriced = 0
        self.tokens: Counter[str] = Counter()
        self.cost_nanos: Counter[str] = Counter()
        self.durations = array("d")
        self.first_tokens = array("d")

    def add(self, record: UsageRecord) -> None:
        """Counts ``record``."""
        self.requests += 1
        self.errors += record.outcome != "ok"
        self.unpriced += record.unpriced
        for meter, count in record.tokens.items():
            self.tokens[meter] += count
        if record.cost_nanos is not None:
            self.cost_nanos[record.currency or ""] += record.cost_nanos
        self.durations.append(record.duration_ms)
        if record.ttft_ms is not None:
            self.first_tokens.append(record.ttft_ms)

    def merge(self, other: Totals) -> None:
        """Counts what ``other`` has counted."""
        self.requests += other.requests
        self.errors += other.errors
        self.unpriced += other.unpriced
        for mine, added in ((self.tokens, other.tokens), (self.cost_nanos, other.cost_nanos)):
            for name, count in added.items():
                mine[name] += count
        self.durations += other.durations
        self.first_tokens += other.first_tokens

    def row(self, names: Sequence[str], group: Group) -> UsageRow:
        """The totals as the API has them."""
        return UsageRow(
            group=dict(zip(names, group, strict=True)) if group else {},
            requests=self.requests,
            errors=self.errors,
            tokens=dict(self.tokens),
            cost_nanos=dict(self.cost_nanos),
            unpriced=self.unpriced,
            duration_ms=_timing(self.durations),
            ttft_ms=_timing(self.first_tokens),
        )


class Count:
    """One summary while the files are read, in steps of so many ``seconds``."""

    def __init__(self, query: UsageQuery, seconds: int | None = None) -> None:
        """Raises :class:`ValueError` saying what is wrong with ``query``."""
        self._step = None if seconds is None else seconds * SECOND
        self._names = tuple(dict.fromkeys(query.group_by))
        self._dimensions = [_dimension(name) for name in self._names]
        self.conditions: Conditions = conditions_of(
            query.start, query.end, query.equals, query.tags, text=None
        )
        self._groups: defaultdict[tuple[int, Group], Totals] = defaultdict(Totals)

    def add(self, piece: bytes) -> int:
        """Counts the records in ``piece`` that are wanted; tells how many lines are damaged."""
        damaged = 0
        for line in piece.split(b"\n")[:-1]:
            if self.conditions.may_match(line):
                try:
                    self._add(record_of(line))
                except ValueError:
                    damaged += 1
        return damaged

    def rows(self) -> list[UsageRow]:
        """The totals, largest number of requests first."""
        found = (totals.row(self._names, group) for (_, group), totals in self._groups.items())
        return sorted(found, key=_rank)

    def points(self, top: int | None) -> list[UsagePoint]:
        """The totals, oldest step first, and in each the largest number of requests first; with
        ``top`` of so many groups, and of all others together last."""
        points = [
            UsagePoint(
                start=_moment(step),
                row=totals.row(self._names, group),
                other=bool(self._names) and group == OTHER,
            )
            for (step, group), totals in self._largest(top).items()
        ]
        return sorted(points, key=lambda one: (one.start, one.other, _rank(one.row)))

    def _largest(self, top: int | None) -> Mapping[tuple[int, Group], Totals]:
        sizes: Counter[Group] = Counter()
        for (_, group), totals in self._groups.items():
            sizes[group] += totals.requests
        if top is None or len(sizes) <= top:
            return self._groups
        own = set(sorted(sizes, key=lambda group: (-sizes[group], _texts(group)))[:top])
        found: defaultdict[tuple[int, Group], Totals] = defaultdict(Totals)
        for (step, group), totals in self._groups.items():
            if group in own:
                found[step, group] = totals
            else:
                found[step, OTHER].merge(totals)
        return found

    def _add(self, record: UsageRecord) -> None:
        wanted = self.conditions
        moment = microseconds(record.started_at)
        if wanted.in_period(moment) and wanted.match(record):
            group = tuple(dimension(record) for dimension in self._dimensions)
            step = ALL_TIME if self._step is None else moment - moment % self._step
            self._groups[step, group].add(record)


def summarize(archive: Archive, query: UsageQuery) -> list[UsageRow]:
    """Totals per group; none where there are no records. Raises :class:`ValueError` for a wrong
    query or one that would read too much."""
    return _counted(archive, Count(query)).rows()


def timeseries(archive: Archive, query: SeriesQuery) -> list[UsagePoint]:
    """Totals per step and group. Raises :class:`ValueError` as :func:`summarize`."""
    return _counted(archive, Count(query, STEPS[query.interval])).points(query.top)


def _counted(archive: Archive, count: Count) -> Count:
    budget = archive.budget()
    with archive.sources() as sources:
        for source in sources:
            if source.overlaps(count.conditions.start, count.conditions.end):
                damaged = 0
                for piece in archive.pieces(source):
                    budget.spend(len(piece))
                    damaged += count.add(piece)
                archive.report_damage(source, damaged)
    return count


def _rank(row: UsageRow) -> tuple[int, list[str]]:
    return -row.requests, _texts(row.group.values())


def _texts(values: Iterable[str | None]) -> list[str]:
    return [value or "" for value in values]


def _moment(step: int) -> str:
    return datetime.fromtimestamp(step // SECOND, UTC).isoformat().replace("+00:00", "Z")


def _dimension(name: str) -> Callable[[UsageRecord], str | None]:
    if name in LOG_DIMENSIONS:
        member = member_of(LOG_DIMENSIONS[name])
        return lambda record: _text(getattr(record, member))
    prefix, _, tag = name.partition(":")
    if prefix == "tag" and tag:
        return lambda record: record.tags.get(tag)
    known = ", ".join(LOG_DIMENSIONS)
    raise ValueError(f"usage cannot be grouped by {name!r}; it can by {known} and tag:<name>")


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _timing(values: Sequence[float]) -> dict[str, float | None]:
    """Mean and percentiles in milliseconds, ``None`` without any value."""
    if not values:
        return {"avg": None, **{f"p{percent}": None for percent in PERCENTILES}}
    ordered = sorted(values)
    percentiles = {f"p{percent}": _percentile(ordered, percent) for percent in PERCENTILES}
    return {"avg": sum(ordered) / len(ordered), **percentiles}


def _percentile(ordered: Sequence[float], percent: int) -> float:
    """Interpolated between its neighbours."""
    rank, rest = divmod(percent * (len(ordered) - 1), 100)
    low = ordered[rank]
    return low + (ordered[rank + 1] - low) * rest / 100 if rest else low
