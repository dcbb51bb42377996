"""Durations counted in buckets that grow by a constant factor, and percentiles read from them.

Bucket 0 holds what is shorter than a millisecond, bucket ``n`` what is from 2^((n-1)/2) to below
2^(n/2) milliseconds, the last one everything from there on (17 minutes). A percentile is found in
the right bucket and interpolated inside, so it is off by less than the factor √2 at the very worst;
where a bucket holds many values it is off by some per cent.

Rollups hold a histogram as entries of two bytes: six bits for the bucket, two for which byte of the
count this is, eight for that byte. Histograms are added by putting one's entries after the other's.
Rows of a group are one letter each.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import frexp
from struct import pack

BUCKETS = 42
LAST = BUCKETS - 1
PERCENTILES = (50, 95, 99)
LOWER = (0.0, *(2 ** ((n - 1) / 2) for n in range(1, BUCKETS)))
"""Lower edges of the buckets in milliseconds."""
FIRST_LETTER = ord("0")
"""The letter of bucket 0; that of the next bucket follows it, and so on."""
MOST = (1 << 32) - 1
_HALF_ROOT = 0.5**0.5
_PLACES = 4
"""Bytes of a count, each of which may have an entry of its own."""
_LOWEST = bytes(range(0, BUCKETS * _PLACES, _PLACES))
"""First bytes of the entries for the lowest byte of a count."""


def bucket_of(milliseconds: float) -> int:
    """Which bucket a duration belongs to."""
    if not milliseconds >= 1.0:
        return 0
    if milliseconds >= LOWER[LAST]:
        return LAST
    fraction, exponent = frexp(milliseconds)  # from 0.5 to below 1, times 2^exponent
    return 2 * exponent - (fraction < _HALF_ROOT)


def packed(counts: Mapping[int, int]) -> bytes:
    """The entries for so many values per bucket; beyond 2³²-1 of one bucket are not counted."""
    if max(counts.values(), default=0) < 256:
        entries = [bucket << 10 | count for bucket, count in counts.items() if count]
        return pack(f">{len(entries)}H", *entries)
    entries = []
    for bucket, count in counts.items():
        rest, place = min(count, MOST), 0
        while rest:
            if rest & 255:
                entries.append(bucket << 10 | place << 8 | rest & 255)
            rest >>= 8
            place += 1
    return pack(f">{len(entries)}H", *entries)


def unpacked(entries: bytes) -> list[int]:
    """How many values each bucket has, by entries in any order."""
    sums = [0] * (BUCKETS * _PLACES)
    # By what the first byte says, bucket and place: a series reads some hundred thousand entries.
    firsts = entries[::2]
    for first, value in zip(firsts, entries[1::2], strict=True):
        sums[first] += value
    counts = sums[::_PLACES]
    if firsts.translate(None, _LOWEST):
        for place in range(1, _PLACES):
            higher = sums[place::_PLACES]
            counts = [low + (high << 8 * place) for low, high in zip(counts, higher, strict=True)]
    return counts


def shortened(entries: bytes) -> bytes:
    """The same counts in as few entries as possible."""
    return packed(dict(enumerate(unpacked(entries))))


def spelled(letters: str) -> list[int]:
    """How many values each bucket has, by one letter for each value."""
    return [letters.count(chr(FIRST_LETTER + bucket)) for bucket in range(BUCKETS)]


def percentiles(counts: Sequence[int]) -> dict[int, float]:
    """The durations that so many per cent of the values do not exceed, by ``PERCENTILES``; empty
    without any value."""
    up_to = list(accumulate(counts))
    last = up_to[-1] - 1
    if last < 0:
        return {}
    found = {}
    for percent in PERCENTILES:
        rank = percent * last / 100
        bucket = bisect_right(up_to, rank)
        count = counts[bucket]
        part = min(1.0, (rank + count - up_to[bucket] + 0.5) / count)
        # Durations lie more evenly on a scale of ratios than on one of differences.
        if 0 < bucket < LAST:
            found[percent] = LOWER[bucket] * 2.0 ** (part / 2)
        else:
            found[percent] = LOWER[bucket] if bucket else part
    return found
