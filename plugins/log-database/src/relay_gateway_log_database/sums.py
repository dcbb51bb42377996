"""Adds up the rows of a batch, for each view of the rollups."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from relay_gateway_log_database.histogram import packed, shortened
from relay_gateway_log_database.rollups import LARGEST, VIEWS
from relay_gateway_log_database.rows import COLUMNS, MAX_INTEGER
from relay_gateway_log_database.tables import DAY_US, DIMENSIONS, HOUR_US, OK, SUMMED

Key = tuple[int, ...]
"""View, step, dimensions and currency: the key of a rollup."""

WHOLE = tuple(
    number
    for number, view in enumerate(VIEWS)
    if not any(set(view) < set(other) for other in VIEWS)
)
"""Views that records are added to; all others are added up from one of these."""
_PARTS: dict[int, list[tuple[int, list[int]]]] = {number: [] for number in WHOLE}
"""For each of them, those that it is added up to, with the places of their dimensions in it."""
for _view, _names in enumerate(VIEWS):
    if _view not in WHOLE:
        _from = next(number for number in WHOLE if set(_names) <= set(VIEWS[number]))
        _PARTS[_from].append((_view, [VIEWS[_from].index(name) for name in _names]))
HOURS = DAY_US // HOUR_US
MOST_STEPS = 48
"""Histograms are shortened in so many steps at once: old records may be of thousands."""


def _columns(names: Iterable[str]) -> itemgetter[Any]:
    return itemgetter(*(COLUMNS.index(name) for name in names))


_dimensions = tuple((number, _columns(VIEWS[number])) for number in WHOLE)
_summed = _columns(SUMMED)
_rest = _columns(
    (
        "started_us",
        "currency",
        "cost_nanos",
        "outcome",
        "unpriced",
        "duration_ms",
        "duration_bucket",
        "ttft_ms",
        "ttft_bucket",
    )
)


class Sum:
    """Figures of one key."""

    __slots__ = (
        "_values",
        "duration",
        "durations",
        "errors",
        "figures",
        "requests",
        "ttft",
        "ttfts",
        "unpriced",
    )

    def __init__(self) -> None:
        self.requests = self.errors = self.unpriced = 0
        self.figures: dict[int, int] = {}
        """By place in ``SUMMED``, those that any record has."""
        self.duration = 0.0
        self.ttft: float | None = None
        self.durations: dict[int, int] = {}
        self.ttfts: dict[int, int] = {}
        self._values: tuple[object, ...] | None = None

    def add(self, other: Sum) -> None:
        """Adds the figures of another one."""
        self.requests += other.requests
        self.errors += other.errors
        self.unpriced += other.unpriced
        self.duration += other.duration
        if other.ttft is not None:
            self.ttft = other.ttft + (self.ttft or 0.0)
        _add(self.figures, other.figures)
        _add(self.durations, other.durations)
        _add(self.ttfts, other.ttfts)

    def values(self) -> tuple[object, ...]:
        """What the rollups hold, after the key. Nothing may be added any more."""
        if self._values is None:
            figures = (self.figures.get(place) for place in range(len(SUMMED)))
            self._values = (
                self.requests,
                self.errors,
                self.unpriced,
                *[None if one is None else min(one, MAX_INTEGER) for one in figures],
                self.duration,
                self.ttft,
                packed(self.durations),
                packed(self.ttfts) if self.ttfts else None,
            )
        return self._values


class Sums:
    """Sums of rows that are added one by one.

    ``currency`` is that of rows which cost nothing that is known: they add nothing to the cost, and
    would otherwise make a second sum of each. Any number will do.
    """

    def __init__(self, currency: int = 0) -> None:
        self.currency = currency
        self._whole: dict[tuple[int, int, tuple[int | None, ...], int], Sum] = {}
        """By view, hour, what rows have for its dimensions, and currency."""

    def add(self, row: Sequence[Any]) -> None:
        """Adds a row, as :func:`~relay_gateway_log_database.rows.row_of` gives it."""
        started, currency, cost, outcome, unpriced, duration, bucket, ttft, first = _rest(row)
        if cost is not None:
            self.currency = currency or 0
        figures = [
            (place, min(LARGEST, value))
            for place, value in enumerate(_summed(row))
            if value is not None
        ]
        hour = started // HOUR_US
        for number, dimensions in _dimensions:
            key = (number, hour, dimensions(row), self.currency)
            one = self._whole.get(key)
            if one is None:
                one = self._whole[key] = Sum()
            one.requests += 1
            one.errors += outcome != OK
            one.unpriced += unpriced
            one.duration += duration
            counts = one.durations
            counts[bucket] = counts.get(bucket, 0) + 1
            if ttft is not None:
                one.ttft = ttft + (one.ttft or 0.0)
                counts = one.ttfts
                counts[first] = counts.get(first, 0) + 1
            sums = one.figures
            for place, value in figures:
                sums[place] = sums.get(place, 0) + value

    def hourly(self) -> dict[Key, Sum]:
        """The sums of each hour, in the order of their keys."""
        found: dict[Key, Sum] = {}
        for (number, hour, dimensions, currency), one in self._whole.items():
            values = [value or 0 for value in dimensions]
            found[_key(number, hour, values, currency)] = one
            for view, places in _PARTS[number]:
                key = _key(view, hour, [values[place] for place in places], currency)
                _sum_of(found, key).add(one)
        return dict(sorted(found.items()))


def daily(hourly: Mapping[Key, Sum]) -> dict[Key, Sum]:
    """The same for days."""
    hours = {key[1] for key in hourly}
    days = [(key[0], key[1] // HOURS, *key[2:]) for key in hourly]
    if len(hours) == len({hour // HOURS for hour in hours}):
        # One hour of each day, as nearly always: there is nothing to add up.
        return dict(zip(days, hourly.values(), strict=True))
    found: dict[Key, Sum] = {}
    for key, one in zip(days, hourly.values(), strict=True):
        _sum_of(found, key).add(one)
    return dict(sorted(found.items()))


def values_of(sums: Mapping[Key, Sum]) -> Iterator[tuple[object, ...]]:
    """Rows of the rollups."""
    return ((*key, *one.values()) for key, one in sums.items())


def steps_of(sums: Iterable[Key]) -> list[int]:
    """The newest steps that ``sums`` are of."""
    return sorted({key[1] for key in sums})[-MOST_STEPS:]


def shortened_rows(
    rows: Iterable[Sequence[Any]], sums: Collection[Key]
) -> list[tuple[object, ...]]:
    """Rows of ``REPLACED`` for those ``rows``, keys with long histograms, that belong to ``sums``:
    who has added to a sum has it for itself until the transaction ends."""
    return [
        (*row[:-2], 0, 0, 0, *(None if one is None else shortened(one) for one in row[-2:]))
        for row in rows
        if tuple(row[:-2]) in sums
    ]


def _key(view: int, step: int, values: Sequence[int], currency: int) -> Key:
    return (view, step, *values, *(0,) * (DIMENSIONS - len(values)), currency)


def _sum_of(sums: dict[Key, Sum], key: Key) -> Sum:
    found = sums.get(key)
    if found is None:
        found = sums[key] = Sum()
    return found


def _add(counts: dict[int, int], others: Mapping[int, int]) -> None:
    for place, count in others.items():
        counts[place] = counts.get(place, 0) + count
