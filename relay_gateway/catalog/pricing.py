"""From metered figures to money: integer nano-units, each token billed once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from relay_gateway.catalog.snapshot import Pricing
from relay_gateway.catalog.specs import Rate

SCALE = 10**12
"""Rates are integers in 1/SCALE of a nano-unit: exact for every amount that a sheet can say."""
_SQUARE = SCALE * SCALE
_PER_UNIT = Decimal(10**9 * SCALE)
_PER_MILLION = Decimal(10**3 * SCALE)

Rates = Mapping[str, tuple[tuple[int, int], ...]]

_PARTS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "tokens.input": (
        ("cacheRead", "tokens.cacheRead"),
        ("cacheWrite", "tokens.cacheWrite"),
        ("cacheWrite1h", "tokens.cacheWrite1h"),
        ("audioInput", "tokens.audioInput"),
    ),
    "tokens.output": (("reasoning", "tokens.reasoning"), ("audioOutput", "tokens.audioOutput")),
}
"""Meters whose figure contains other meters, by their names without and with prefix; a part with a
rate of its own is taken out of the whole."""

_CONTAINED = {part: whole for whole, parts in _PARTS.items() for _, part in parts}


_TOKENS = {
    name: f"tokens.{name}"
    for name in (
        "input",
        "output",
        "cacheRead",
        "cacheWrite",
        "cacheWrite1h",
        "reasoning",
        "audioInput",
        "audioOutput",
    )
}


class Cost(NamedTuple):
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


def compile_multipliers(multipliers: Mapping[str, Decimal]) -> dict[str, int]:
    """Factors by tier, in 1/SCALE."""
    return {tier: int(factor * SCALE) for tier, factor in multipliers.items()}


def compile_plain(rates: Rates) -> tuple[int, dict[str, tuple[int, tuple[str, ...]]]] | None:
    """What a request costs by itself, and by token meter (without prefix) its rate and the meters
    within it that have rates of their own. ``None`` where a rate depends on the prompt's size."""
    if any(tiers[0][0] for tiers in rates.values()):
        return None
    table = {}
    for name, meter in _TOKENS.items():
        rate = _rate(rates, meter, 0)
        if rate is not None:
            apart = tuple(part for part, own in _PARTS.get(meter, ()) if own in rates)
            table[name] = (rate, apart)
        elif _billed_within(rates, meter):
            table[name] = (0, ())
    return _rate(rates, "requests", 0) or 0, table


def price(
    pricing: Pricing | None,
    tokens: Mapping[str, int],
    units: Mapping[str, int],
    tier: str | None = None,
) -> Cost:
    """What the figures of one request cost.

    ``tokens`` has meters without their prefix, ``units`` the others; ``requests`` counts 1 by
    itself. ``tier`` is how the upstream says that it processed the request: tokens cost the
    sheet's multiple for it.
    """
    if pricing is None:
        return Cost(None, None, any(tokens.values()) or any(units.values()))
    if pricing.plain is not None and tier is None and not units:
        total, table = pricing.plain
        for name, amount in tokens.items():
            entry = table.get(name)
            if entry is None:
                break
            rate, apart = entry
            if not apart:
                total += rate * amount
                continue
            rest = amount
            for part in apart:
                if part in tokens:
                    rest -= tokens[part]
            if rest > 0:
                total += rate * rest
        else:
            return Cost(_rounded(total, SCALE), pricing.currency, False)
    return _price(pricing, tokens, units, tier)


def _price(
    pricing: Pricing, tokens: Mapping[str, int], units: Mapping[str, int], tier: str | None
) -> Cost:
    rates = pricing.rates
    prompt = tokens.get("input", 0)
    total = 0
    unpriced = False
    for name, amount in tokens.items():
        if not amount:
            continue
        meter = _TOKENS.get(name) or f"tokens.{name}"
        rate = _rate(rates, meter, prompt)
        if rate is None:
            unpriced = unpriced or not _billed_within(rates, meter)
        else:
            apart = _billed_apart(rates, meter, tokens) if len(tokens) > 1 else 0
            total += rate * max(0, amount - apart)
    factor = SCALE if tier is None else pricing.multipliers.get(tier.lower(), SCALE)
    total *= factor
    for meter, amount in units.items():
        rate = _rate(rates, meter, prompt)
        if rate is None:
            unpriced = unpriced or amount > 0
        elif meter != "requests":
            total += rate * amount * SCALE
    total += (_rate(rates, "requests", prompt) or 0) * SCALE
    return Cost(_rounded(total, _SQUARE), pricing.currency, unpriced)


def _rounded(total: int, scale: int) -> int:
    """Nano-units of a total in 1/``scale``, halves to the even neighbour."""
    nanos, rest = divmod(total, scale)
    if rest and (rest * 2 > scale or (rest * 2 == scale and nanos % 2)):
        nanos += 1
    return nanos


def _rate(rates: Rates, meter: str, prompt: int) -> int | None:
    for above, rate in rates.get(meter, ()):
        if above == 0 or prompt > above:
            return rate
    return None


def _billed_within(rates: Rates, meter: str) -> bool:
    whole = _CONTAINED.get(meter)
    return whole is not None and whole in rates


def _billed_apart(rates: Rates, meter: str, tokens: Mapping[str, int]) -> int:
    """What is in the figure of ``meter`` and has a rate of its own."""
    apart = 0
    for name, part in _PARTS.get(meter, ()):
        if name in tokens and part in rates:
            apart += tokens[name]
    return apart
