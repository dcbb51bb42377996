"""Cost is integer nano-units; each token is billed once; a meter without a rate is never free."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from pydantic import ValidationError

from relay_gateway.catalog.pricing import (
    compile_multipliers,
    compile_plain,
    compile_rates,
    price,
)
from relay_gateway.catalog.snapshot import Pricing
from relay_gateway.catalog.specs import PricingSpec


def sheet(*rates: dict[str, Any], currency: str = "USD") -> Pricing:
    return tiered({}, *rates, currency=currency)


def tiered(factors: dict[str, Any], *rates: dict[str, Any], currency: str = "USD") -> Pricing:
    """A sheet with a multiplier for each tier."""
    spec = PricingSpec.model_validate(
        {"currency": currency, "rates": list(rates), "multipliers": factors}
    )
    multipliers = compile_multipliers(spec.multipliers)
    table = compile_rates(spec.rates)
    return Pricing("p", "p", spec.currency, table, multipliers, compile_plain(table))


def rate(meter: str, amount: str, **more: Any) -> dict[str, Any]:
    return {"meter": meter, "amount": amount, **more}


def test_input_and_output_are_priced_per_million() -> None:
    pricing = sheet(rate("tokens.input", "2.50"), rate("tokens.output", "10"))
    cost = price(pricing, {"input": 1000, "output": 10}, {})
    assert (cost.nanos, cost.currency, cost.unpriced) == (2_600_000, "USD", False)


def test_a_cached_token_with_its_own_rate_is_not_billed_as_input_too() -> None:
    pricing = sheet(rate("tokens.input", "10"), rate("tokens.cacheRead", "1"))
    assert price(pricing, {"input": 1000, "cacheRead": 400}, {}).nanos == 600 * 10_000 + 400 * 1000


def test_a_part_without_a_rate_of_its_own_is_billed_within_the_whole() -> None:
    pricing = sheet(rate("tokens.input", "10"), rate("tokens.output", "20"))
    cost = price(pricing, {"input": 10, "cacheRead": 4, "output": 5, "reasoning": 3}, {})
    assert (cost.nanos, cost.unpriced) == (10 * 10_000 + 5 * 20_000, False)


def test_a_used_meter_without_a_rate_marks_the_record_unpriced() -> None:
    cost = price(sheet(rate("tokens.input", "10")), {"input": 10, "output": 5}, {})
    assert (cost.nanos, cost.unpriced) == (100_000, True)


def test_without_a_price_sheet_there_is_no_cost_instead_of_zero() -> None:
    cost = price(None, {"input": 10}, {})
    assert (cost.nanos, cost.currency, cost.unpriced) == (None, None, True)


def test_an_unused_request_without_a_sheet_is_not_unpriced() -> None:
    assert price(None, {}, {}).unpriced is False


@pytest.mark.parametrize(("prompt", "expected"), [(200_000, 1_000), (200_001, 2_000)])
def test_a_tier_applies_above_its_threshold(prompt: int, expected: int) -> None:
    pricing = sheet(rate("tokens.input", "1"), rate("tokens.input", "2", aboveTokens=200_000))
    assert price(pricing, {"input": prompt}, {}).nanos == prompt * expected


def test_units_and_requests_are_priced_each() -> None:
    pricing = sheet(
        rate("images", "0.04", unit="perUnit"), rate("requests", "0.001", unit="perUnit")
    )
    assert price(pricing, {}, {"images": 2}).nanos == 81_000_000


@given(
    st.decimals(min_value=0, max_value=10**6, places=12),
    st.sampled_from(["perMillion", "perUnit"]),
    st.integers(0, 10**9),
)
def test_integer_arithmetic_agrees_with_exact_decimals(
    amount: Decimal, unit: str, count: int
) -> None:
    pricing = sheet(rate("tokens.input", str(amount), unit=unit))
    with localcontext(prec=60):
        exact = amount * count * 10 ** (3 if unit == "perMillion" else 9)
        expected = int(exact.to_integral_value(ROUND_HALF_EVEN))
    assert price(pricing, {"input": count}, {}).nanos == expected


METERS = ["input", "output", "cacheRead", "cacheWrite", "cacheWrite1h", "reasoning", "other"]


@given(
    priced=st.sets(
        st.sampled_from([f"tokens.{name}" for name in METERS[:6]] + ["requests"]), min_size=1
    ),
    threshold=st.sampled_from([0, 0, 50]),
    tokens=st.dictionaries(st.sampled_from(METERS), st.integers(0, 1000)),
)
def test_the_short_form_of_a_sheet_says_the_same(
    priced: set[str], threshold: int, tokens: dict[str, int]
) -> None:
    rates = [rate(meter, f"1.{place}7", unit="perMillion") for place, meter in enumerate(priced)]
    if threshold:
        rates.append(rate("tokens.input", "3", aboveTokens=threshold))
    pricing = sheet(*rates)
    assert (pricing.plain is None) == bool(threshold)
    assert price(pricing, tokens, {}) == price(replace(pricing, plain=None), tokens, {})


def test_fractions_of_a_nano_are_rounded_once_at_the_end() -> None:
    pricing = sheet(rate("tokens.input", "0.0005"), rate("tokens.output", "0.0005"))
    assert price(pricing, {"input": 1, "output": 1}, {}).nanos == 1


# Amounts of published price lists: per million tokens in the tier, by its ordinary price.
PUBLISHED = (
    ("flex", "0.5", "2", "8", 1_000_000, 1_000_000, 5_000_000_000),
    ("priority", "1.75", "2", "8", 12_345, 678, 52_699_500),
    ("priority", "1.8", "0.25", "2", 1, 1, 4_050),
    ("batch", "0.5", "4", "20", 5_000, 800, 18_000_000),
    ("priority", "1.666666666667", "0.15", "0.6", 1_000_000, 1_000_000, 1_250_000_000),
)


@pytest.mark.parametrize(("tier", "factor", "put", "got", "given", "made", "nanos"), PUBLISHED)
def test_tokens_cost_the_multiple_of_the_tier_that_the_answer_names(
    tier: str, factor: str, put: str, got: str, given: int, made: int, nanos: int
) -> None:
    pricing = tiered({tier: factor}, rate("tokens.input", put), rate("tokens.output", got))
    tokens = {"input": given, "output": made}
    assert price(pricing, tokens, {}, tier).nanos == nanos
    assert price(pricing, tokens, {}, tier.upper()).nanos == nanos


@pytest.mark.parametrize("tier", [None, "default", "standard", "scale", ""])
def test_a_tier_without_a_multiplier_costs_what_the_rates_say(tier: str | None) -> None:
    pricing = tiered({"flex": "0.5"}, rate("tokens.input", "10"))
    assert price(pricing, {"input": 3}, {}, tier) == (30_000, "USD", False)


def test_a_multiplier_is_for_tokens_and_not_for_units() -> None:
    pricing = tiered(
        {"batch": "0.5"},
        rate("tokens.input", "10"),
        rate("searches", "0.01", unit="perUnit"),
        rate("requests", "0.001", unit="perUnit"),
    )
    cost = price(pricing, {"input": 100}, {"searches": 2}, "batch")
    assert cost.nanos == 500_000 + 20_000_000 + 1_000_000


def test_a_multiplier_applies_above_thresholds_and_to_the_cache_too() -> None:
    pricing = tiered(
        {"flex": "0.5"},
        rate("tokens.input", "2"),
        rate("tokens.input", "4", aboveTokens=10),
        rate("tokens.cacheRead", "0.2"),
    )
    assert price(pricing, {"input": 20, "cacheRead": 10}, {}, "flex").nanos == 20_000 + 1_000


@given(
    st.decimals(min_value=0, max_value=10**6, places=12),
    st.decimals(min_value=0, max_value=100, places=12),
    st.integers(0, 10**9),
)
def test_a_multiplied_price_is_rounded_once_from_the_exact_one(
    amount: Decimal, factor: Decimal, count: int
) -> None:
    pricing = tiered({"flex": str(factor)}, rate("tokens.input", str(amount)))
    with localcontext(prec=80):
        exact = amount * factor * count * 10**3
        expected = int(exact.to_integral_value(ROUND_HALF_EVEN))
    assert price(pricing, {"input": count}, {}, "flex").nanos == expected


@pytest.mark.parametrize(
    "factors", [{"": "1"}, {"Flex": "1"}, {"flex": "-1"}, {"flex": "0.1234567890123"}, {"a b": 1}]
)
def test_a_multiplier_that_no_sheet_can_have_is_refused(factors: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="multipliers"):
        tiered(factors, rate("tokens.input", "1"))
