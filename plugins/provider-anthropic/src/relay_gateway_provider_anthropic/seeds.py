"""What Anthropic offers and charges: the catalog entities this provider ships."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from relay_gateway.plugin import CatalogSeed, EnvironmentKey, SeedEntity

SOURCE = "Anthropic API documentation: models and pricing (platform.claude.com/docs)"
AS_OF = "2026-11-20"

LONG_PROMPT = 100_000
"""Input tokens above which Claude Haiku 5.5 is charged at its higher rates, as a whole request."""

MULTIPLIERS = {"batch": "0.5"}
"""Batches are charged at half of all rates, those of the cache too."""


class _Rates(msgspec.Struct, frozen=True):
    """US dollars per million tokens; cache writes are kept for five minutes or one hour."""

    input: str
    output: str
    cache_read: str
    cache_write: str
    cache_write_1h: str

    def items(self) -> Iterator[tuple[str, str]]:
        """Meters and amounts."""
        yield "tokens.input", self.input
        yield "tokens.output", self.output
        yield "tokens.cacheRead", self.cache_read
        yield "tokens.cacheWrite", self.cache_write
        yield "tokens.cacheWrite1h", self.cache_write_1h


class _Model(msgspec.Struct, frozen=True):
    """A model; its name is a DNS label already, and so its slug too."""

    name: str
    display_name: str
    rates: _Rates
    context_window: int = 1_000_000
    max_output_tokens: int = 128_000
    long_prompt_rates: _Rates | None = None
    aliases: tuple[str, ...] = ()


MODELS: tuple[_Model, ...] = (
    _Model("claude-fable-5-2", "Claude Fable 5.2", _Rates("8", "40", "0.2", "10", "16")),
    _Model("claude-opus-5-5", "Claude Opus 5.5", _Rates("4", "20", "0.2", "5", "8")),
    _Model("claude-sonnet-5-5", "Claude Sonnet 5.5", _Rates("2", "10", "0.1", "2.5", "4")),
    _Model(
        "claude-haiku-5-5",
        "Claude Haiku 5.5",
        _Rates("0.1", "0.5", "0.01", "0.125", "0.2"),
        long_prompt_rates=_Rates("0.5", "2.5", "0.05", "0.625", "1"),
    ),
    _Model("claude-fable-5-1", "Claude Fable 5.1", _Rates("10", "50", "0.25", "12.5", "20")),
    _Model("claude-opus-5", "Claude Opus 5", _Rates("5", "25", "0.5", "6.25", "10")),
    _Model("claude-sonnet-5", "Claude Sonnet 5", _Rates("2", "10", "0.2", "2.5", "4")),
    _Model(
        "claude-haiku-4-5",
        "Claude Haiku 4.5",
        _Rates("1", "5", "0.1", "1.25", "2"),
        context_window=200_000,
        max_output_tokens=64_000,
        aliases=("claude-haiku-4-5-20251001",),
    ),
)


def _pricing(model: _Model) -> SeedEntity:
    tiers = [(0, model.rates)]
    if model.long_prompt_rates is not None:
        tiers.append((LONG_PROMPT, model.long_prompt_rates))
    rates = [
        {"meter": meter, "unit": "perMillion", "amount": amount, "aboveTokens": above}
        for above, table in tiers
        for meter, amount in table.items()
    ]
    return SeedEntity(
        "pricing",
        model.name,
        f"Anthropic {model.display_name}",
        {"currency": "USD", "rates": rates, "multipliers": MULTIPLIERS},
        f"{SOURCE}, {AS_OF}; standard and batch processing",
    )


def _model(model: _Model) -> SeedEntity:
    binding = {"hostId": "anthropic", "pricingId": model.name}
    spec: dict[str, Any] = {
        "name": model.name,
        "providerId": "anthropic",
        "aliases": list(model.aliases),
        "bindings": [binding],
        "contextWindow": model.context_window,
        "maxOutputTokens": model.max_output_tokens,
        "modalities": {"input": ["text", "image"], "output": ["text"]},
        "capabilities": ["tools", "vision", "prompt-caching", "reasoning"],
    }
    return SeedEntity("model", model.name, model.display_name, spec)


def _entities() -> Iterator[SeedEntity]:
    yield SeedEntity(
        "provider",
        "anthropic",
        "Anthropic",
        {
            "homepageUrl": "https://www.anthropic.com",
            "docsUrl": "https://platform.claude.com/docs",
            "statusPageUrl": "https://status.claude.com",
        },
    )
    yield SeedEntity(
        "host",
        "anthropic",
        "Anthropic API",
        {
            "baseUrl": "https://api.anthropic.com",
            "adapter": "anthropic",
            "pathPrefix": "anthropic",
        },
    )
    for model in MODELS:
        yield _pricing(model)
        yield _model(model)


SEED = CatalogSeed(
    name="anthropic",
    source=SOURCE,
    as_of=AS_OF,
    entities=tuple(_entities()),
    environment_keys=(EnvironmentKey("ANTHROPIC_API_KEY", "anthropic"),),
)
