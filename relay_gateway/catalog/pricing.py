"""From metered figures to money: integer nano-units, each token billed once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal

from relay_gateway.catalog.snapshot import Pricing
from relay_gateway.catalog.specs import Rate

NANOS = Decimal(1_000_000_000)
_MILLION = Decimal(1_000_000)

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


def compile_rates(rates: Sequence[Rate]) -> dict[str, tuple[tuple[int, Decimal], ...]]:
    """Rates by meter in nano-units per unit, the highest threshold first."""
    table: dict[str, list[tuple[int, Decimal]]] = {}
    for rate in rates:
        per_unit = rate.amount / _MILLION if rate.unit == "perMillion" else rate.amount
        table.setdefault(rate.meter, []).append((rate.above_tokens, per_unit * NANOS))
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
    total = Decimal(0)
    unpriced = False
    for meter, amount in used.items():
        rate = _rate(pricing, meter, prompt)
        if rate is None:
            unpriced = unpriced or (meter != "requests" and not _billed_within(pricing, meter))
            continue
        total += rate * max(0, amount - _parts_billed_apart(pricing, meter, used))
    nanos = int(total.to_integral_value(ROUND_HALF_EVEN))
    return Cost(nanos, pricing.currency, unpriced)


def _rate(pricing: Pricing, meter: str, prompt: int) -> Decimal | None:
    for above, rate in pricing.rates.get(meter, ()):
        if above == 0 or prompt > above:
            return rate
    return None


def _billed_within(pricing: Pricing, meter: str) -> bool:
    whole = _CONTAINED.get(meter)
    return whole is not None and whole in pricing.rates


def _parts_billed_apart(pricing: Pricing, meter: str, used: Mapping[str, int]) -> int:
    return sum(used.get(part, 0) for part in _PARTS.get(meter, ()) if part in pricing.rates)
