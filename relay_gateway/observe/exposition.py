"""Series in the text format of Prometheus."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from relay_gateway.observe.families import FAMILIES, Family, FamilyKind
from relay_gateway.observe.series import Series

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


def render(series: Iterable[Series]) -> bytes:
    """The exposition of ``series``, which are different from each other; with its content type
    :data:`CONTENT_TYPE`."""
    return generate_latest(_Collected(series))


class _Collected(Collector):
    """What is there, as the writer of the client library wants it."""

    def __init__(self, series: Iterable[Series]) -> None:
        self._by_family: defaultdict[str, list[Series]] = defaultdict(list)
        for one in series:
            self._by_family[one.family].append(one)

    def collect(self) -> Iterator[Metric]:
        """One metric for each family that has series."""
        for name, family in FAMILIES.items():
            if name in self._by_family:
                yield _metric(family, self._by_family[name])


def _metric(family: Family, series: Iterable[Series]) -> Metric:
    # The writer puts the suffix of counters back.
    metric = Metric(family.name.removesuffix("_total"), family.help, family.kind.value)
    for one in series:
        labels = dict(zip(family.exposed_labels, one.labels, strict=True))
        if family.kind is FamilyKind.HISTOGRAM:
            _add_histogram(metric, family, one, labels)
        else:
            metric.add_sample(family.name, labels, one.value)
    return metric


def _add_histogram(metric: Metric, family: Family, one: Series, labels: dict[str, str]) -> None:
    bounds = (*(f"{bound / 1000:g}" for bound in family.bounds_ms), "+Inf")
    below = 0
    for bound, count in zip(bounds, one.buckets, strict=True):
        below += count
        metric.add_sample(f"{family.name}_bucket", {**labels, "le": bound}, below)
    metric.add_sample(f"{family.name}_count", labels, below)
    metric.add_sample(f"{family.name}_sum", labels, one.value)
