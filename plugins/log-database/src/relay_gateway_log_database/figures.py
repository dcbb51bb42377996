"""Figures of one group, put together from the rows of one or more statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from relay_gateway.plugin import UsageRow
from relay_gateway_log_database.histogram import PERCENTILES, percentiles, spelled, unpacked
from relay_gateway_log_database.tables import METERS, SUMMED, TIMED

SUMS = 4
"""Where the sums begin, after requests, errors, unpriced and the number of the currency."""
TIMES = SUMS + len(SUMMED)
"""Where the sums of times begin."""
HISTOGRAMS = TIMES + len(TIMED)
"""Where the histograms of the times begin, where the statement gives them."""

K = TypeVar("K")
_meters = tuple(METERS)
_names = {percent: f"p{percent}" for percent in PERCENTILES}
_none: dict[str, float | None] = dict.fromkeys(("avg", *_names.values()))


class Timing:
    """Durations of one group while they are put together."""

    __slots__ = ("by_rank", "count", "entries", "less", "letters", "total")

    def __init__(self) -> None:
        self.total = 0.0
        self.count = 0
        self.entries = b""
        self.letters = ""
        self.less = b""
        """Entries of what was taken away again."""
        self.by_rank: dict[int, float] | None = None

    def add(self, total: float | None, histogram: bytes | str | None) -> None:
        """Adds the sum of the values and their histogram: entries, or a letter for each."""
        if total is None:
            return
        self.total += total
        if isinstance(histogram, str):
            self.letters += histogram
        elif histogram is not None:
            self.entries += histogram

    def merge(self, other: Timing) -> None:
        """Adds what ``other`` has; exact percentiles need :meth:`rank` besides."""
        self.total += other.total
        self.entries += other.entries
        self.letters += other.letters

    def take(self, part: Timing) -> None:
        """Takes the histogram of a part of these values away, and their sum."""
        self.total = max(0.0, self.total - part.total)
        self.less += part.entries

    def rank(self, values: Sequence[float]) -> None:
        """Has percentiles read from all the values themselves."""
        self.count = len(values)
        self.by_rank = dict(enumerate(sorted(values)))

    def figures(self) -> dict[str, float | None]:
        """Mean and percentiles in milliseconds, ``None`` without any value."""
        exact = self.by_rank
        if exact:
            return self._figures(self.count, {p: self._exact(exact, p) for p in PERCENTILES})
        if not self.entries and not self.letters:
            return _none.copy()
        counts = unpacked(self.entries)
        if self.letters:
            counts = [a + b for a, b in zip(counts, spelled(self.letters), strict=True)]
        if self.less:
            counts = [max(0, a - b) for a, b in zip(counts, unpacked(self.less), strict=True)]
        found = percentiles(counts)
        return self._figures(sum(counts), found) if found else _none.copy()

    def _figures(self, number: int, percentiles: Mapping[int, float]) -> dict[str, float | None]:
        shown: dict[str, float | None] = {"avg": self.total / number}
        for percent, value in percentiles.items():
            shown[_names[percent]] = value
        return shown

    def _exact(self, by_rank: Mapping[int, float], percent: int) -> float:
        rank, rest = divmod(percent * (self.count - 1), 100)
        low = by_rank[rank]
        return low + (by_rank[rank + 1] - low) * rest / 100 if rest else low


class Totals:
    """Figures of one group while they are put together."""

    __slots__ = ("cost", "duration", "errors", "requests", "tokens", "ttft", "unpriced")

    def __init__(self) -> None:
        self.requests = self.errors = self.unpriced = 0
        self.tokens: dict[str, int] = {}
        self.cost: dict[int, int] = {}
        """Nano-units by number of the currency, 0 for none."""
        self.duration = Timing()
        self.ttft = Timing()

    def add(self, row: Sequence[Any]) -> None:
        """Adds a row of figures: of one currency and one part of the period."""
        self.requests += int(row[0])
        self.errors += int(row[1])
        self.unpriced += int(row[2])
        for place, meter in enumerate(_meters, SUMS):
            value = row[place]
            if value is not None:
                self.tokens[meter] = self.tokens.get(meter, 0) + value
        cost = row[TIMES - 1]
        if cost is not None:
            self.cost[row[3]] = self.cost.get(row[3], 0) + cost
        duration, ttft = row[HISTOGRAMS:] or (None, None)
        self.duration.add(row[TIMES], duration)
        self.ttft.add(row[TIMES + 1], ttft)

    def merge(self, other: Totals) -> None:
        """Adds the figures of another group."""
        self.requests += other.requests
        self.errors += other.errors
        self.unpriced += other.unpriced
        for meter, value in other.tokens.items():
            self.tokens[meter] = self.tokens.get(meter, 0) + value
        for number, nanos in other.cost.items():
            self.cost[number] = self.cost.get(number, 0) + nanos
        self.duration.merge(other.duration)
        self.ttft.merge(other.ttft)

    def take(self, part: Totals) -> None:
        """Takes the figures of a part of these requests away; a meter or a currency of which
        nothing is left is left out."""
        self.requests -= part.requests
        self.errors -= part.errors
        self.unpriced -= part.unpriced
        _take(self.tokens, part.tokens)
        _take(self.cost, part.cost)
        self.duration.take(part.duration)
        self.ttft.take(part.ttft)

    def row(self, group: dict[str, str | None], currencies: dict[int, str]) -> UsageRow:
        """The totals as the API has them."""
        return UsageRow(
            group=group,
            requests=self.requests,
            errors=self.errors,
            tokens=self.tokens,
            cost_nanos={currencies[number]: nanos for number, nanos in self.cost.items()},
            unpriced=self.unpriced,
            duration_ms=self.duration.figures(),
            ttft_ms=self.ttft.figures(),
        )


def _take(figures: dict[K, int], part: Mapping[K, int]) -> None:
    for name, value in part.items():
        left = figures.get(name, 0) - value
        if left > 0:
            figures[name] = left
        else:
            figures.pop(name, None)
