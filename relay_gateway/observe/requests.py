"""What is counted of each finished request, in plain integers.

The request path calls :meth:`RequestMetrics.observe` once. It finds the counters of the request's
endpoint, model, host and outcome in a dictionary; labels are only looked up for a combination that
was never seen before, and samples are only made when somebody asks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from relay_gateway.catalog.live import LiveCatalog
from relay_gateway.observe import families
from relay_gateway.observe.attempts import Attempts
from relay_gateway.observe.bounded import OTHER, Slugs, add_named
from relay_gateway.observe.histogram import Histogram
from relay_gateway.observe.series import Series, series_of
from relay_gateway.observe.traffic import Traffic
from relay_gateway.plugin.usage import UsageRecord

MAX_COMBINATIONS = 5000
"""How many combinations get counters of their own; later ones share those of ``other``."""

Ids = tuple[str, str | None, str | None, str]
"""Endpoint, id of the model, id of the host, outcome."""
Place = tuple[str, str, str]
"""Endpoint, model, host: as labels."""


class Combination:
    """Counters of one endpoint, model, host and outcome. Only its own count is its own: outcomes
    share histograms, endpoints share figures."""

    __slots__ = ("duration", "first_token", "overhead", "requests", "traffic")

    def __init__(
        self, duration: Histogram, first_token: Histogram, overhead: Histogram, traffic: Traffic
    ) -> None:
        self.requests = 0
        self.duration = duration
        self.first_token = first_token
        self.overhead = overhead
        self.traffic = traffic


class RequestMetrics:
    """Counts what one process has answered."""

    def __init__(self, live: LiveCatalog) -> None:
        self._slugs = Slugs(live)
        self._attempts = Attempts(self._slugs)
        self._errors: dict[str, int] = {}
        self._by_ids: dict[Ids, Combination] = {}
        self._by_labels: dict[tuple[str, str, str, str], Combination] = {}
        self._durations: dict[Place, Histogram] = {}
        self._first_tokens: dict[Place, Histogram] = {}
        self._overheads: dict[str, Histogram] = {}
        self._traffic: dict[tuple[str, str], Traffic] = {}

    def observe(self, record: UsageRecord) -> None:
        """Counts one finished request, whose ``record`` has its cost already."""
        model = record.model_id or (OTHER if record.requested_model else None)
        ids = (record.endpoint, model, record.host_id, record.outcome)
        counted = self._by_ids.get(ids) or self._combine(ids)
        counted.requests += 1
        # What Histogram.observe does, without the two calls: they are a tenth of the whole.
        duration, milliseconds = counted.duration, record.duration_ms
        duration.counts[bisect_left(duration.bounds, milliseconds)] += 1
        duration.total += milliseconds
        overhead, own = counted.overhead, record.overhead_ms
        if own is not None:
            overhead.counts[bisect_left(overhead.bounds, own)] += 1
            overhead.total += own
        if record.ttft_ms is not None:
            counted.first_token.observe(record.ttft_ms)
        if record.attempts:
            self._attempts.add(record.attempts)
        if record.tokens or record.cost_nanos or record.unpriced:
            counted.traffic.add(record)
        if record.error_code is not None:
            add_named(self._errors, record.error_code, 1)

    def series(self) -> Iterator[Series]:
        """Everything counted so far."""
        for labels, counted in self._by_labels.items():
            yield series_of(families.REQUESTS, counted.requests, *labels)
        for code, count in self._errors.items():
            yield series_of(families.REQUEST_ERRORS, count, code)
        for place, duration in self._durations.items():
            yield duration.series(*place)
        for place, first_token in self._first_tokens.items():
            yield first_token.series(*place)
        for endpoint, overhead in self._overheads.items():
            yield overhead.series(endpoint)
        for (model, host), traffic in self._traffic.items():
            yield from traffic.series(model, host)
        yield from self._attempts.series()

    def _combine(self, ids: Ids) -> Combination:
        """The counters of a combination that was not seen before, or of what it counts as."""
        endpoint, model_id, host_id, outcome = ids
        known = len(self._by_ids) < MAX_COMBINATIONS
        model = self._slugs.model(model_id) if known else OTHER
        host = self._slugs.host(host_id) if known else OTHER
        labels = (endpoint, model, host, outcome)
        counted = self._by_labels.get(labels)
        if counted is None:
            counted = self._by_labels[labels] = self._new(endpoint, model, host)
        if known:
            self._by_ids[ids] = counted
        return counted

    def _new(self, endpoint: str, model: str, host: str) -> Combination:
        place = (endpoint, model, host)
        return Combination(
            self._durations.setdefault(place, Histogram(families.DURATION)),
            self._first_tokens.setdefault(place, Histogram(families.FIRST_TOKEN)),
            self._overheads.setdefault(endpoint, Histogram(families.OVERHEAD)),
            self._traffic.setdefault((model, host), Traffic()),
        )
