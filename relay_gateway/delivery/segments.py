"""Segments: the files of a spool, each with a part of one stream."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

SEGMENT_BYTES = 16 * 1024 * 1024
"""A segment is followed by another one from this size on."""

_NAME = re.compile(r"(usage|payload)-(\d{10})-([0-9a-f]{8})\.segment")


class Route(msgspec.Struct, frozen=True, array_like=True):
    """Where the records go that follow, and which instance wrote them."""

    sinks: tuple[str, ...] = ()
    instance: str = ""


class Segment(msgspec.Struct, eq=False):
    """One file. ``size`` counts the bytes that are good, ``records`` those that it has numbered up
    to ``last``, the highest."""

    path: Path
    sequence: int
    salt: int
    size: int = 0
    records: int = 0
    last: int = 0


def new_segment(directory: Path, stream: str, sequence: int) -> Segment:
    """The segment with this number; its file is not made yet."""
    salt = int.from_bytes(os.urandom(4), "little")
    return Segment(directory / f"{stream}-{sequence:010d}-{salt:08x}.segment", sequence, salt)


def segments_named(directory: Path, names: Iterable[str], stream: str) -> list[Segment]:
    """The segments of a stream among the names in a directory, oldest first; sizes are not set."""
    found = []
    for name in names:
        match = _NAME.fullmatch(name)
        if match is not None and match[1] == stream:
            found.append(Segment(directory / name, int(match[2]), int(match[3], 16)))
    return sorted(found, key=lambda segment: segment.sequence)
