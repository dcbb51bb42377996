"""How long an upstream asks to be left alone, in the ways in which upstreams say so.

Whatever is found is a wish: the gateway waits between one second and ten minutes.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

_SPAN = re.compile(rb"(\d{1,9}(?:\.\d{1,9})?)(ms|us|h|m|s)")
_UNITS: Final = {b"h": 3600.0, b"m": 60.0, b"s": 1.0, b"ms": 0.001, b"us": 0.000_001}
_EPOCH: Final = 1_000_000_000.0
"""A bare number above this is a time since the epoch, in seconds; a thousand times more is one in
milliseconds."""
_MILLISECONDS: Final = (b"retry-after-ms", b"x-ms-retry-after-ms")


def wait_of(headers: Mapping[bytes, bytes]) -> float | None:
    """Seconds that an answer asks to wait, from its headers by lower-case name: those in
    milliseconds, which are the more precise, then ``Retry-After``."""
    for name in _MILLISECONDS:
        wait = number(headers.get(name))
        if wait is not None:
            return wait / 1000
    return retry_after(headers.get(b"retry-after"), headers.get(b"date"))


def retry_after(value: bytes | None, sent: bytes | None = None) -> float | None:
    """Seconds from a ``Retry-After`` header (RFC 9110 §10.2.3, a number or a date), else ``None``.

    A date is compared with that at which the answer was ``sent``, where that is known: the clocks
    of both ends need not agree.
    """
    if value is None:
        return None
    seconds = number(value)
    if seconds is not None:
        return seconds
    until = _date(value)
    if until is None:
        return None
    return max(0.0, until - (_date(sent) or time.time()))


def reset_of(headers: Mapping[bytes, bytes], pairs: Iterable[tuple[bytes, bytes]]) -> float | None:
    """Seconds until a limit is there again, from ``pairs`` of headers that say what remains of it
    and when it is whole: the latest of those that are used up. Where no remainder is told, the
    earliest of all."""
    used_up, all_of_them, told = [], [], False
    for remaining, reset in pairs:
        wait = span(headers.get(reset), headers.get(b"date"))
        left = number(headers.get(remaining))
        told = told or left is not None
        if wait is not None:
            all_of_them.append(wait)
            if left == 0:
                used_up.append(wait)
    if used_up:
        return max(used_up)
    return None if told else min(all_of_them, default=None)


def span(value: bytes | None, sent: bytes | None = None) -> float | None:
    """Seconds from ``6m0s``, ``120ms`` or ``1.5`` (a duration), from an RFC 3339 time, a time since
    the epoch, or a date as HTTP has it; else ``None``."""
    if value is None:
        return None
    seconds = number(value)
    if seconds is None:
        seconds = _duration(value)
    if seconds is not None and seconds < _EPOCH:
        return seconds
    if seconds is not None:
        until: float | None = seconds / 1000 if seconds >= _EPOCH * 1000 else seconds
    else:
        until = _instant(value) or _date(value)
    return None if until is None else max(0.0, until - (_date(sent) or time.time()))


def number(value: bytes | None) -> float | None:
    """A finite number that is not negative (one that is counts as 0), else ``None``."""
    try:
        found = float(value) if value is not None else math.nan
    except ValueError:
        return None
    return max(0.0, found) if math.isfinite(found) else None


def _duration(value: bytes) -> float | None:
    text = value.strip()
    found = _SPAN.findall(text)
    if not found or b"".join(amount + unit for amount, unit in found) != text:
        return None
    return sum(float(amount) * _UNITS[unit] for amount, unit in found)


def _instant(value: bytes) -> float | None:
    try:
        moment = datetime.fromisoformat(value.decode("latin-1").strip())
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _date(value: bytes | None) -> float | None:
    if value is None:
        return None
    try:
        moment = parsedate_to_datetime(value.decode("latin-1"))
    except (ValueError, TypeError, OverflowError):
        return None
    try:
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
