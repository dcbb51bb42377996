from __future__ import annotations

import math

import pytest
from prometheus_client.parser import text_string_to_metric_families

from relay_gateway.observe import families
from relay_gateway.observe.exposition import CONTENT_TYPE, render
from relay_gateway.observe.families import FAMILIES, FamilyKind
from relay_gateway.observe.histogram import Histogram
from relay_gateway.observe.series import Series, named, series_of, summed


def parsed(*series: Series) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Samples as Prometheus reads them."""
    text = render(series).decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_counter_keeps_its_name_and_its_type() -> None:
    text = render([series_of(families.REQUEST_ERRORS, 3, "rate_limit_exceeded")]).decode()
    assert "# TYPE relay_request_errors_total counter\n" in text
    assert 'relay_request_errors_total{code="rate_limit_exceeded"} 3.0\n' in text
    assert CONTENT_TYPE.startswith("text/plain; version=0.0.4")


def test_a_histogram_is_cumulative_and_in_seconds() -> None:
    histogram = Histogram(families.DURATION)
    for milliseconds in (1, 30, 30, 999_999):
        histogram.observe(milliseconds)
    samples = parsed(histogram.series("chat", "m", "east"))
    where = {("endpoint", "chat"), ("model", "m"), ("host", "east")}
    name = "relay_request_duration_seconds"
    buckets = {
        float(dict(labels)["le"]): value
        for (sample, labels), value in samples.items()
        if sample == f"{name}_bucket"
    }
    assert (buckets[0.005], buckets[0.025], buckets[0.1], buckets[320]) == (1, 1, 3, 3)
    assert buckets[math.inf] == samples[f"{name}_count", frozenset(where)] == 4
    assert samples[f"{name}_sum", frozenset(where)] == pytest.approx(1000.06)


@pytest.mark.parametrize("slug", ['a"b', "a\\b", "a\nb", "ü", 'x"} 1\nrelay_ready 1'])
def test_a_label_cannot_end_its_line(slug: str) -> None:
    labels = frozenset({("sink", slug)})
    samples = parsed(series_of(families.USAGE_QUEUE, 7, slug))
    assert samples == {("relay_usage_queue_records", labels): 7}


def test_series_of_one_process_are_named_and_sums_are_not() -> None:
    own = [series_of(families.READY, 1), series_of(families.USAGE_QUEUE, 4, "file")]
    both = summed([*named(own, "worker-1"), *named(own, "worker-2")])
    assert both == [
        series_of(families.READY, 1, "worker-1"),
        series_of(families.USAGE_QUEUE, 8, "file"),
        series_of(families.READY, 1, "worker-2"),
    ]


def test_histograms_of_processes_are_added_bucket_by_bucket() -> None:
    one, other = Histogram(families.OVERHEAD), Histogram(families.OVERHEAD)
    one.observe(0.05)
    other.observe(0.05)
    other.observe(5000)
    (both,) = summed([one.series("chat"), other.series("chat")])
    assert (both.buckets[0], both.buckets[-1], sum(both.buckets)) == (2, 1, 3)
    assert both.value == pytest.approx(5.0001)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_names_and_bounds_follow_the_conventions_of_prometheus(family: families.Family) -> None:
    assert family.name.endswith("_total") is (family.kind is FamilyKind.COUNTER)
    assert family.help.endswith(".")
    assert bool(family.bounds_ms) is (family.kind is FamilyKind.HISTOGRAM)
    assert sorted(set(family.bounds_ms)) == list(family.bounds_ms)
    if family.kind is FamilyKind.HISTOGRAM:
        assert family.name.endswith("_seconds")
    assert len(set(family.exposed_labels)) == len(family.exposed_labels)
    assert "le" not in family.exposed_labels
