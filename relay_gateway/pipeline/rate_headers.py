"""``x-ratelimit-*``: what a limited caller is told about its limits, in the widespread format."""

from __future__ import annotations

from collections.abc import Mapping

from relay_gateway.catalog.specs import Meter
from relay_gateway.limits.limiter import Reservation

MARK = b"ratelimit-"
"""What names of such headers have in them, whoever sends them."""

_FAMILIES: Mapping[Meter, bytes] = {
    "requests": b"requests",
    "tokens": b"tokens",
    "tokens.input": b"tokens",
    "tokens.output": b"tokens",
}


def rate_lines(reservation: Reservation) -> bytes:
    """The header lines of a reservation: of the rules about requests, and of those about tokens,
    the one of which the least share is left. Shadow rules are not told."""
    tightest: dict[bytes, int] = {}
    for index, (rule, hold) in enumerate(reservation.claims):
        if rule.meter not in _FAMILIES or hold.shadow:
            continue
        family = _FAMILIES[rule.meter]
        if family not in tightest or (
            _share(reservation, index) < _share(reservation, tightest[family])
        ):
            tightest[family] = index
    lines = b""
    for family, index in tightest.items():
        lines += _lines(reservation, index, family)
    return lines


def duration(seconds: float) -> bytes:
    """A time as it is written in these headers: ``17ms``, ``1.5s``, ``6m0s``, ``2h0m30s``."""
    milliseconds = max(0, round(seconds * 1000))
    if milliseconds < 1000:
        return b"%dms" % milliseconds
    whole, rest = divmod(milliseconds, 60_000)
    text = f"{rest / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    if whole >= 60:
        text = f"{whole // 60}h{whole % 60}m{text}"
    elif whole:
        text = f"{whole}m{text}"
    return text.encode()


def _share(reservation: Reservation, index: int) -> float:
    return reservation.remaining[index] / reservation.claims[index].hold.limit


def _lines(reservation: Reservation, index: int, family: bytes) -> bytes:
    limit = reservation.claims[index].hold.limit
    return (
        b"x-ratelimit-limit-%b: %d\r\nx-ratelimit-remaining-%b: %d\r\nx-ratelimit-reset-%b: %b\r\n"
    ) % (
        family, limit, family, reservation.remaining[index],
        family, duration(reservation.reset[index]),
    )  # fmt: skip
