"""Cost is integer nano-units; each token is billed once; a meter without a rate is never free."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_gateway.catalog.pricing import compile_rates, price
from relay_gateway.catalog.snapshot import Pricing
from relay_gateway.catalog.specs import PricingSpec


def sheet(*rates: dict[str, Any], currency: str = "USD") -> Pricing:
    spec = PricingSpec.model_validate({"currency": currency, "rates": list(rates)})
    return Pricing("p", "p", spec.currency, compile_rates(spec.rates))


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


def test_fractions_of_a_nano_are_rounded_once_at_the_end() -> None:
    pricing = sheet(rate("tokens.input", "0.0005"), rate("tokens.output", "0.0005"))
    assert price(pricing, {"input": 1, "output": 1}, {}).nanos == 1
