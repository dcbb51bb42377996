"""Buckets hold what their edges say, and percentiles keep their bound."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_gateway_log_database.histogram import (
    BUCKETS,
    FIRST_LETTER,
    LAST,
    LOWER,
    PERCENTILES,
    bucket_of,
    packed,
    percentiles,
    shortened,
    spelled,
    unpacked,
)

counts_of_buckets = st.dictionaries(
    st.integers(0, LAST), st.one_of(st.integers(1, 300), st.integers(1, (1 << 32) - 1))
)
durations = st.floats(0, LOWER[LAST], allow_nan=False)


@given(durations)
def test_a_duration_lies_between_the_edges_of_its_bucket(milliseconds: float) -> None:
    bucket = bucket_of(milliseconds)
    nearly = 1 + 1e-12  # edges are roots of two, which floats only approximate
    assert LOWER[bucket] <= milliseconds * nearly
    assert bucket == LAST or milliseconds < LOWER[bucket + 1] * nearly


@pytest.mark.parametrize("bucket", range(1, BUCKETS))
def test_buckets_have_no_gap_between_them(bucket: int) -> None:
    assert bucket_of(LOWER[bucket] * 1.001) == bucket
    assert bucket_of(LOWER[bucket] * 0.999) == bucket - 1


@pytest.mark.parametrize(
    ("milliseconds", "bucket"), [(0.0, 0), (-1.0, 0), (math.nan, 0), (math.inf, LAST), (1e30, LAST)]
)
def test_any_number_has_a_bucket(milliseconds: float, bucket: int) -> None:
    assert bucket_of(milliseconds) == bucket


@given(st.lists(durations, min_size=1, max_size=200))
def test_a_percentile_is_off_by_less_than_the_root_of_two(values: list[float]) -> None:
    counts = [0] * BUCKETS
    for value in values:
        counts[bucket_of(value)] += 1
    ordered = sorted(values)
    for percent in PERCENTILES:
        exact = ordered[math.floor(percent * (len(values) - 1) / 100)]
        found = percentiles(counts)[percent]
        assert abs(found - exact) <= 1 or exact / 1.4143 <= found <= exact * 1.4143


def in_order(counts: dict[int, int]) -> list[int]:
    return [counts.get(bucket, 0) for bucket in range(BUCKETS)]


@given(st.lists(counts_of_buckets, max_size=4))
def test_histograms_are_added_by_putting_their_entries_together(
    histograms: list[dict[int, int]],
) -> None:
    together = b"".join(packed(one) for one in histograms)
    wanted = [sum(column) for column in zip(*map(in_order, histograms), strict=True)]
    assert unpacked(together) == (wanted or [0] * BUCKETS)


@given(counts_of_buckets, st.integers(1, 3))
def test_a_shortened_histogram_counts_the_same_in_no_more_bytes(
    counts: dict[int, int], times: int
) -> None:
    counts = {bucket: count // 4 + 1 for bucket, count in counts.items()}  # the sum has 32 bits
    long = packed(counts) * times
    assert unpacked(shortened(long)) == unpacked(long)
    assert len(shortened(long)) <= 8 * len(counts)


def test_a_bucket_holds_no_more_than_32_bits_can_say() -> None:
    assert unpacked(packed({3: 1 << 40}))[3] == (1 << 32) - 1


@given(st.lists(st.integers(0, LAST)))
def test_rows_are_counted_by_their_letters(buckets: list[int]) -> None:
    letters = "".join(chr(FIRST_LETTER + bucket) for bucket in buckets)
    assert spelled(letters) == [buckets.count(bucket) for bucket in range(BUCKETS)]


def test_without_values_there_is_no_percentile() -> None:
    assert percentiles([0] * BUCKETS) == {}
