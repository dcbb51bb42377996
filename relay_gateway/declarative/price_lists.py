"""Public price lists in JSON, told apart by their shape and read without rounding.

Two shapes are known. *Per token*: one object per model, whose prices are ``…_cost_per_token`` and
the like, with the provider in a field that ends with ``_provider``. *Per million*: one object per
provider, whose ``models`` have a ``cost`` per million tokens.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, get_args

import msgspec

from relay_gateway.catalog.specs import PricingMeter
from relay_gateway.errors import ConfigurationError

MILLION = 1_000_000
PLACES = Decimal("1e-12")
"""As exact as a price sheet is; a finer price is rounded to it."""
_THOUSANDS = re.compile(r"_above_([0-9]{1,5})k(?:_tokens)?$")
_METERS: tuple[str, ...] = get_args(PricingMeter)


class ListedRate(msgspec.Struct, frozen=True):
    """The price of one meter, for prompts of more than ``above_tokens`` tokens."""

    meter: str
    unit: str
    amount: Decimal
    above_tokens: int = 0


class ListedModel(msgspec.Struct, frozen=True):
    """What a list says about a model at a provider; ``None`` and empty where it says nothing.

    ``multipliers`` are those of a price sheet; ``uneven`` tiers have prices that are not the same
    multiple of all others, which a sheet cannot say.
    """

    provider: str
    name: str
    provider_name: str
    display_name: str
    rates: tuple[ListedRate, ...] = ()
    multipliers: Mapping[str, Decimal] = msgspec.field(default_factory=dict)
    uneven: tuple[str, ...] = ()
    context_window: int | None = None
    max_output_tokens: int | None = None
    input: tuple[str, ...] = ()
    output: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    sunset: str | None = None

    @property
    def listed_as(self) -> str:
        """Provider and name, by which the list knows it."""
        return f"{self.provider}/{self.name}"


def read_price_list(content: bytes) -> list[ListedModel]:
    """The models of a price list in order. Raises :class:`ConfigurationError` for anything else."""
    try:
        data = json.loads(content, parse_float=Decimal, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"the price list is no JSON: {error}") from error
    if isinstance(data, dict):
        for belongs, read in _SHAPES:
            if any(belongs(item) for item in data.values()):
                return sorted(
                    (
                        model
                        for name, item in data.items()
                        if belongs(item)
                        for model in read(name, item)
                    ),
                    key=lambda model: (model.provider, model.name),
                )
    raise ConfigurationError(
        "the price list has neither of the known shapes: models with prices per token, or "
        "providers with models and prices per million tokens"
    )


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


# Prices per token

_PER_TOKEN = {
    "input_cost_per_token": "tokens.input",
    "output_cost_per_token": "tokens.output",
    "cache_read_input_token_cost": "tokens.cacheRead",
    "cache_creation_input_token_cost": "tokens.cacheWrite",
    "cache_creation_input_token_cost_above_1hr": "tokens.cacheWrite1h",
    "output_cost_per_reasoning_token": "tokens.reasoning",
    "input_cost_per_audio_token": "tokens.audioInput",
    "output_cost_per_audio_token": "tokens.audioOutput",
}
_PER_UNIT = {
    "output_cost_per_image": "images",
    "input_cost_per_character": "characters",
    "input_cost_per_second": "audioSeconds",
    "input_cost_per_request": "requests",
    "input_cost_per_query": "searches",
}
_TIERS = {"_flex": "flex", "_priority": "priority", "_batches": "batch"}
"""How fields end that have the price in a tier, and what upstreams call the tier."""
_SAME = Decimal("1e-9")
"""Factors that differ by less are the same: lists have floating point numbers."""
_FLAGS = {
    "supports_function_calling": "tools",
    "supports_response_schema": "structured-output",
    "supports_vision": "vision",
    "supports_prompt_caching": "prompt-caching",
    "supports_reasoning": "reasoning",
}
_EXAMPLE = "sample_spec"


def _is_per_token(item: Any) -> bool:
    return isinstance(item, dict) and _provider_of(item) is not None


def _provider_of(item: Mapping[str, Any]) -> str | None:
    for name, value in item.items():
        if name.endswith("_provider") and isinstance(value, str) and value:
            return value
    return None


def _per_token(name: str, item: Mapping[str, Any]) -> Iterator[ListedModel]:
    provider = _provider_of(item)
    if provider is None or name == _EXAMPLE:
        return
    bare = name.removeprefix(f"{provider}/")
    tiers = _tier_factors(item)
    yield ListedModel(
        provider=provider,
        name=bare,
        provider_name=provider,
        display_name=bare,
        rates=_ordered(_token_rates(item)),
        multipliers={tier: factors[0] for tier, factors in tiers.items() if _even(factors)},
        uneven=tuple(tier for tier, factors in tiers.items() if not _even(factors)),
        context_window=_count(item.get("max_input_tokens")),
        max_output_tokens=_count(item.get("max_output_tokens")),
        input=_words(item.get("supported_modalities")),
        output=_words(item.get("supported_output_modalities")),
        capabilities=tuple(word for flag, word in _FLAGS.items() if item.get(flag) is True),
        sunset=_date(item.get("deprecation_date")),
    )


def _tier_factors(item: Mapping[str, Any]) -> dict[str, list[Decimal]]:
    """For each tier, how many times the ordinary price its prices per token are."""
    found: dict[str, list[Decimal]] = {}
    for name, value in item.items():
        suffix = next((end for end in _TIERS if name.endswith(end)), "")
        ordinary = name.removesuffix(suffix)
        if not suffix or _THOUSANDS.sub("", ordinary) not in _PER_TOKEN:
            continue
        price, usual = _price(value), _price(item.get(ordinary))
        if price is not None and usual:
            found.setdefault(_TIERS[suffix], []).append(_exact(price / usual))
    return found


def _even(factors: Sequence[Decimal]) -> bool:
    return all(abs(factor - factors[0]) < _SAME for factor in factors)


def _token_rates(item: Mapping[str, Any]) -> Iterator[ListedRate]:
    for field, value in item.items():
        tier = _THOUSANDS.search(field)
        above = int(tier[1]) * 1000 if tier else 0
        base = field[: tier.start()] if tier else field
        price = _price(value)
        if price is None:
            continue
        if base in _PER_TOKEN:
            yield ListedRate(_PER_TOKEN[base], "perMillion", _exact(price * MILLION), above)
        elif base in _PER_UNIT and not tier:
            yield ListedRate(_PER_UNIT[base], "perUnit", _exact(price))


# Prices per million tokens

_PER_MILLION = {
    "input": "tokens.input",
    "output": "tokens.output",
    "cache_read": "tokens.cacheRead",
    "cache_write": "tokens.cacheWrite",
    "reasoning": "tokens.reasoning",
    "input_audio": "tokens.audioInput",
    "output_audio": "tokens.audioOutput",
}
_OVER = re.compile(r"context_over_([0-9]{1,5})k$")
_ABILITIES = {
    "tool_call": "tools",
    "structured_output": "structured-output",
    "reasoning": "reasoning",
}


def _is_per_million(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("models"), dict)


def _per_million(provider: str, item: Mapping[str, Any]) -> Iterator[ListedModel]:
    for name, model in item["models"].items():
        if not isinstance(model, dict):
            continue
        limit, modalities = _object(model.get("limit")), _object(model.get("modalities"))
        taken = _words(modalities.get("input"))
        yield ListedModel(
            provider=provider,
            name=name,
            provider_name=str(item.get("name") or provider),
            display_name=str(model.get("name") or name),
            rates=_ordered(_million_rates(_object(model.get("cost")), 0)),
            context_window=_count(limit.get("context")),
            max_output_tokens=_count(limit.get("output")),
            input=taken,
            output=_words(modalities.get("output")),
            capabilities=(
                *(word for flag, word in _ABILITIES.items() if model.get(flag) is True),
                *(["vision"] if "image" in taken else []),
            ),
        )


def _million_rates(cost: Mapping[str, Any], above: int) -> Iterator[ListedRate]:
    for field, value in cost.items():
        tier = _OVER.match(field)
        if tier and isinstance(value, dict) and not above:
            yield from _million_rates(value, int(tier[1]) * 1000)
        elif field in _PER_MILLION and (price := _price(value)) is not None:
            yield ListedRate(_PER_MILLION[field], "perMillion", _exact(price), above)


_SHAPES: tuple[
    tuple[Callable[[Any], bool], Callable[[str, Mapping[str, Any]], Iterator[ListedModel]]], ...
] = ((_is_per_million, _per_million), (_is_per_token, _per_token))


def _ordered(rates: Iterator[ListedRate]) -> tuple[ListedRate, ...]:
    """One rate for each meter and threshold, in the order of the meters."""
    found = {(rate.meter, rate.above_tokens): rate for rate in rates}
    return tuple(found[key] for key in sorted(found, key=lambda k: (_METERS.index(k[0]), k[1])))


def _price(value: Any) -> Decimal | None:
    """A price; texts are taken, too, as some lists have them."""
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        return None
    try:
        price = Decimal(value)
    except ArithmeticError:
        return None
    return price if price.is_finite() and 0 <= price < MILLION else None


def _exact(price: Decimal) -> Decimal:
    rounded = price.quantize(PLACES).normalize()
    return rounded or Decimal(0)


def _count(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    if isinstance(value, Decimal) and value == value.to_integral_value():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _words(value: Any) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _date(value: Any) -> str | None:
    """The beginning of a day in UTC."""
    found = isinstance(value, str) and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value)
    return f"{value}T00:00:00Z" if found else None


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
