"""Requests changed at random, out of a seed: what a caller, a bad proxy or an attacker may send."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final

from relay_gateway.testing.probes import ACCEPTED, REFUSED

LAST: Final = b"GET /last HTTP/1.1\r\nHost: a.example\r\n\r\n"
"""A sound request, to follow a changed one on the same connection."""

_SEED_BYTES = 600
_MOST_CHANGES = 4
_MOST_CUTS = 4
TOKENS: Final = (
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"\n\n",
    b"\0",
    b" ",
    b"\t",
    b":",
    b";",
    b",",
    b"_",
    b"0",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"%2e",
    b"%00",
    b"..",
    b"//",
    b"#",
    b"0x",
    b"+",
    b"-",
    b"HTTP/1.0",
    b"HTTP/1.1",
    b"0\r\n\r\n",
    b"5\r\nhello\r\n",
    b"chunked",
    b"Content-Length: 0\r\n",
    b"Content-Length: 3\r\n",
    b"Content-Length: 40\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: identity\r\n",
    b"Transfer-Encoding : chunked\r\n",
    b"Expect: 100-continue\r\n",
    b"Connection: close\r\n",
    b"Connection: keep-alive\r\n",
    b"Connection: content-length\r\n",
    b"Host: b.example\r\n",
    b" folded\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
)
"""What has a meaning of its own to some reader of requests."""


class Mutator:
    """An endless supply of changed requests; the same ``seed`` gives the same ones in order."""

    def __init__(self, seed: int, seeds: Sequence[bytes] = ()) -> None:
        self._random = random.Random(seed)  # noqa: S311 - repeatable, not secret
        # Sound requests more often: a small change of one gets further than one of a broken one.
        probes = [probe.data for probe in ACCEPTED * 12 + REFUSED]
        self._seeds = seeds or [data for data in probes if len(data) <= _SEED_BYTES]
        self._changes: tuple[Callable[[bytes], bytes], ...] = (
            self._insert,
            self._insert,
            self._replace,
            self._remove,
            self._repeat,
            self._flip,
            self._move_line,
            self._cross,
        )

    def request(self, last: bytes = LAST) -> bytes:
        """One or two requests with up to four changes, and ``last``, unchanged, after them."""
        data = self._random.choice(self._seeds)
        if self._random.random() < 0.2:
            data += self._random.choice(self._seeds)
        return self.changed(data) + last

    def changed(self, data: bytes) -> bytes:
        """``data`` with up to four changes."""
        for _ in range(self._random.randrange(_MOST_CHANGES + 1)):
            data = self._random.choice(self._changes)(data)
        return data

    def pieces(self, data: bytes) -> list[bytes]:
        """``data`` cut at a few places, as a network may deliver it."""
        count = self._random.randrange(_MOST_CUTS + 1)
        cuts = sorted(self._random.randrange(len(data)) for _ in range(count))
        bounds = zip([0, *cuts], [*cuts, len(data)], strict=True)
        return [data[start:end] for start, end in bounds if end > start]

    def _place(self, data: bytes) -> int:
        return self._random.randrange(len(data) + 1)

    def _span(self, data: bytes) -> tuple[int, int]:
        start = self._place(data)
        return start, min(len(data), start + self._random.choice((1, 1, 2, 4, 16)))

    def _insert(self, data: bytes) -> bytes:
        at = self._place(data)
        return data[:at] + self._random.choice(TOKENS) + data[at:]

    def _replace(self, data: bytes) -> bytes:
        start, end = self._span(data)
        return data[:start] + self._random.choice(TOKENS) + data[end:]

    def _remove(self, data: bytes) -> bytes:
        start, end = self._span(data)
        return data[:start] + data[end:]

    def _repeat(self, data: bytes) -> bytes:
        start, end = self._span(data)
        return data[:end] + data[start:end] + data[end:]

    def _flip(self, data: bytes) -> bytes:
        at = self._place(data)
        bit = 1 << self._random.randrange(8)
        return data[:at] + bytes(byte ^ bit for byte in data[at : at + 1]) + data[at + 1 :]

    def _move_line(self, data: bytes) -> bytes:
        lines = data.split(b"\r\n")
        line = lines.pop(self._random.randrange(len(lines)))
        lines.insert(self._random.randrange(len(lines) + 1), line)
        return b"\r\n".join(lines)

    def _cross(self, data: bytes) -> bytes:
        other = self._random.choice(self._seeds)
        return data[: self._place(data)] + other[self._place(other) :]
