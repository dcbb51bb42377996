"""From metered figures to money: integer nano-units, each token billed once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from relay_gateway.catalog.snapshot import Pricing
from relay_gateway.catalog.specs import Rate

SCALE = 10**12
"""Rates are integers in 1/SCALE of a nano-unit: exact for every amount that a sheet can say."""
_PER_UNIT = Decimal(10**9 * SCALE)
_PER_MILLION = Decimal(10**3 * SCALE)

_PARTS: Mapping[str, tuple[str, ...]] = {
    "tokens.input": (
        "tokens.cacheRead",
        "tokens.cacheWrite",
        "tokens.cacheWrite1h",
        "tokens.audioInput",
    ),
    "tokens.output": ("tokens.reasoning", "tokens.audioOutput"),
}
"""Meters whose figure contains other meters; a part with a rate of its own is taken out of the
whole."""

_CONTAINED = {part: whole for whole, parts in _PARTS.items() for part in parts}


@dataclass(frozen=True, slots=True)
class Cost:
    """``nanos`` is ``None`` when nothing could be priced; ``unpriced`` marks a used meter without a
    rate."""

    nanos: int | None
    currency: str | None
    unpriced: bool


def compile_rates(rates: Sequence[Rate]) -> dict[str, tuple[tuple[int, int], ...]]:
    """Scaled rates by meter, the highest threshold first."""
    table: dict[str, list[tuple[int, int]]] = {}
    for rate in rates:
        scaled = int(rate.amount * (_PER_MILLION if rate.unit == "perMillion" else _PER_UNIT))
        table.setdefault(rate.meter, []).append((rate.above_tokens, scaled))
    return {
        meter: tuple(sorted(tiers, key=lambda tier: -tier[0])) for meter, tiers in table.items()
    }


def price(pricing: Pricing | None, tokens: Mapping[str, int], units: Mapping[str, int]) -> Cost:
    """What the figures of one request cost.

    ``tokens`` has meters without their prefix, ``units`` the others; ``requests`` counts 1 by
    itself.
    """
    used = {f"tokens.{meter}": amount for meter, amount in tokens.items() if amount}
    used.update((meter, amount) for meter, amount in units.items() if amount)
    if pricing is None:
        return Cost(None, None, unpriced=bool(used))
    used["requests"] = 1
    prompt = tokens.get("input", 0)
    total = 0
    unpriced = False
    for meter, amount in used.items():
        rate = _rate(pricing, meter, prompt)
        if rate is None:
            unpriced = unpriced or (meter != "requests" and not _billed_within(pricing, meter))
            continue
        total += rate * max(0, amount - _parts_billed_apart(pricing, meter, used))
    return Cost(_rounded(total), pricing.currency, unpriced)


def _rounded(total: int) -> int:
    """Nano-units of a scaled total, halves to the even neighbour."""
    nanos, rest = divmod(total, SCALE)
    if rest * 2 > SCALE or (rest * 2 == SCALE and nanos % 2):
        nanos += 1
    return nanos


def _rate(pricing: Pricing, meter: str, prompt: int) -> int | None:
    for above, rate in pricing.rates.get(meter, ()):
        if above == 0 or prompt > above:
            return rate
    return None


def _billed_within(pricing: Pricing, meter: str) -> bool:
    whole = _CONTAINED.get(meter)
    return whole is not None and whole in pricing.rates


def _parts_billed_apart(pricing: Pricing, meter: str, used: Mapping[str, int]) -> int:
    return sum(used.get(part, 0) for part in _PARTS.get(meter, ()) if part in pricing.rates)
