"""Price lists: both shapes, read to the last digit."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_gateway.declarative.price_lists import ListedModel, read_price_list
from relay_gateway.errors import ConfigurationError

LISTS = Path(__file__).parent
LARGE = {
    ("tokens.input", 0): "3",
    ("tokens.input", 200_000): "6",
    ("tokens.output", 0): "15",
    ("tokens.output", 200_000): "22.5",
    ("tokens.cacheRead", 0): "0.3",
    ("tokens.cacheRead", 200_000): "0.6",
    ("tokens.cacheWrite", 0): "3.75",
    ("tokens.cacheWrite", 200_000): "7.5",
}


def models(name: str) -> dict[str, ListedModel]:
    found = read_price_list((LISTS / f"{name}.json").read_bytes())
    return {model.listed_as: model for model in found}


def rates(model: ListedModel) -> dict[tuple[str, int], str]:
    return {(rate.meter, rate.above_tokens): format(rate.amount, "f") for rate in model.rates}


def test_both_shapes_say_the_same_about_the_same_model() -> None:
    token, million = (
        models("per_token")["acme/acme-large"],
        models("per_million")["acme/acme-large"],
    )
    assert rates(million) == LARGE
    assert rates(token) == LARGE | {("tokens.cacheWrite1h", 0): "6"}
    for model in (token, million):
        assert (model.context_window, model.max_output_tokens) == (1_000_000, 64_000)
        assert {"tools", "vision"} <= set(model.capabilities)
    assert token.sunset == "2027-03-31T00:00:00Z"
    assert million.display_name == "Acme Large"
    assert million.provider_name == "Acme AI"


def test_the_example_entry_of_a_list_is_no_model() -> None:
    assert sorted(models("per_token")) == [
        "acme/acme-draw",
        "acme/acme-embed",
        "acme/acme-large",
        "other/acme-large",
        "other/whisper",
    ]


def test_units_other_than_tokens_are_priced_each() -> None:
    found = models("per_token")
    (image,), (second,) = found["acme/acme-draw"].rates, found["other/whisper"].rates
    assert (image.meter, image.unit, image.amount) == ("images", "perUnit", Decimal("0.04"))
    assert (second.meter, second.unit, second.amount) == (
        "audioSeconds",
        "perUnit",
        Decimal("1e-4"),
    )


def test_prices_in_a_tier_become_a_multiplier_if_they_are_one_multiple() -> None:
    found = models("per_token")
    even, uneven = found["acme/acme-large"], found["other/acme-large"]
    factors = {"batch": Decimal("0.5"), "flex": Decimal("0.5"), "priority": Decimal("1.75")}
    assert (even.multipliers, even.uneven) == (factors, ())
    assert (uneven.multipliers, uneven.uneven) == ({"flex": Decimal(1)}, ("priority",))
    assert models("per_million")["acme/acme-large"].multipliers == {}


def test_a_tier_whose_ordinary_price_is_zero_or_missing_has_no_multiplier() -> None:
    fields = '"x_provider": "p", "input_cost_per_token": 0, "input_cost_per_token_flex": 0, '
    text = f'{{"m": {{{fields} "output_cost_per_token_flex": 1e-6}}}}'
    (model,) = read_price_list(text.encode())
    assert (model.multipliers, model.uneven) == ({}, ())


def test_a_price_of_zero_is_a_price_and_no_price_is_none() -> None:
    found = models("per_million")
    assert rates(found["acme/acme-free"]) == {("tokens.input", 0): "0", ("tokens.output", 0): "0"}
    assert found["other/org/open-model"].rates == ()


def test_noise_beyond_twelve_digits_is_rounded_away() -> None:
    assert rates(models("per_token")["acme/acme-embed"])["tokens.input", 0] == "0.02"


@given(st.decimals(0, 999, places=12, allow_nan=False))
def test_no_digit_of_a_price_is_lost(price: Decimal) -> None:
    text = f'{{"p": {{"models": {{"m": {{"cost": {{"input": {price:f}}}}}}}}}}}'
    (model,) = read_price_list(text.encode())
    assert model.rates[0].amount == price


@pytest.mark.parametrize("price", ['"free"', "-1", "true", "null", "[]", "1e9", '"NaN"'])
def test_what_is_no_price_is_left_out(price: str) -> None:
    text = f'{{"m": {{"x_provider": "p", "input_cost_per_token": {price}}}}}'
    (model,) = read_price_list(text.encode())
    assert model.rates == ()


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b'{"a": 1}', b'{"a": NaN}', b"[" * 100_000, b"\xff"]
)
def test_what_is_no_price_list_is_refused(content: bytes) -> None:
    with pytest.raises(ConfigurationError, match="the price list"):
        read_price_list(content)
