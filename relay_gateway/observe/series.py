"""Series: what a process says when it is asked for its metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from relay_gateway.observe.families import FAMILIES, Family


class Series(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One value of one family, or one histogram.

    ``labels`` are values in the order of the family's names. Of a histogram ``buckets`` are the
    counts of each bucket alone, the unbounded one last, and ``value`` is the sum in seconds.
    """

    family: str
    labels: tuple[str, ...] = ()
    value: int | float = 0
    buckets: tuple[int, ...] = ()


class Report(msgspec.Struct, frozen=True, array_like=True):
    """All series of one process. ``born`` is different for every process that there ever was."""

    born: str
    series: tuple[Series, ...]


def series_of(family: Family, value: float, *labels: str) -> Series:
    """A value of ``family``."""
    return Series(family.name, labels, value)


def summed(series: Iterable[Series]) -> list[Series]:
    """One series for each family and labels, in the order in which they first came."""
    found: dict[tuple[str, tuple[str, ...]], Series] = {}
    for one in series:
        key = one.family, one.labels
        before = found.get(key)
        found[key] = one if before is None else _sum(before, one)
    return list(found.values())


def lasting(series: Iterable[Series]) -> Iterator[Series]:
    """Those that still count when their process has ended."""
    return (one for one in series if FAMILIES[one.family].lasts)


def named(series: Iterable[Series], process: str) -> Iterator[Series]:
    """The same, with the name of the process where series of several must be told apart."""
    for one in series:
        if FAMILIES[one.family].per_process:
            yield Series(one.family, (*one.labels, process), one.value, one.buckets)
        else:
            yield one


def _sum(one: Series, other: Series) -> Series:
    # Processes may be of different versions for a moment only if somebody replaces the program
    # under them; then strict says so instead of giving wrong numbers.
    buckets = tuple(a + b for a, b in zip(one.buckets, other.buckets, strict=True))
    return Series(one.family, one.labels, one.value + other.value, buckets)
