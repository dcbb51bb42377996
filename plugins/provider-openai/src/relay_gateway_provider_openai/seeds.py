"""What OpenAI offers and charges: the catalog entities this provider ships."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from relay_gateway.plugin import CatalogSeed, EnvironmentKey, SeedEntity

SOURCE = (
    "OpenAI API documentation: model pages, pricing and deprecations "
    "(developers.openai.com/api/docs)"
)
AS_OF = "2026-11-20"

LONG_CONTEXT = 272_000
"""Input tokens above which OpenAI charges the whole request at its long-context rates."""

MULTIPLIERS = {"flex": "0.5", "batch": "0.5"}
"""Flex processing is charged at the rates of the Batch API, which are half of all others."""


class _Rates(msgspec.Struct, frozen=True):
    """US dollars per million tokens; an empty string where OpenAI names no such rate."""

    input: str
    output: str = ""
    cache_read: str = ""
    cache_write: str = ""

    def items(self) -> Iterator[tuple[str, str]]:
        """Meters and amounts, those without a rate left out."""
        amounts = {
            "tokens.input": self.input,
            "tokens.output": self.output,
            "tokens.cacheRead": self.cache_read,
            "tokens.cacheWrite": self.cache_write,
        }
        return ((meter, amount) for meter, amount in amounts.items() if amount)


class _Model(msgspec.Struct, frozen=True):
    name: str
    display_name: str
    context_window: int
    max_output_tokens: int | None
    rates: _Rates
    long_context_rates: _Rates | None = None
    wire_formats: tuple[str, ...] = ("openai.chat", "openai.responses")
    input: tuple[str, ...] = ("text", "image")
    output: tuple[str, ...] = ("text",)
    capabilities: tuple[str, ...] = ("tools", "structured-output", "vision", "prompt-caching")
    sunset: str | None = None

    @property
    def slug(self) -> str:
        """The name as a DNS label."""
        return self.name.replace(".", "-")


def _reasoning(name: str, display_name: str, rates: _Rates, long_context: _Rates) -> _Model:
    """A model of the GPT-6 families, which share their windows and their long-context rule."""
    return _Model(
        name=name,
        display_name=display_name,
        context_window=1_050_000,
        max_output_tokens=128_000,
        rates=rates,
        long_context_rates=long_context,
        capabilities=(
            "tools",
            "structured-output",
            "vision",
            "prompt-caching",
            "reasoning",
        ),
    )


def _retiring(name: str, display_name: str, window: int, output: int, rates: _Rates) -> _Model:
    """A model that OpenAI shuts down on 2027-01-14, in favour of gpt-6-luna."""
    return _Model(name, display_name, window, output, rates, sunset="2027-01-14T00:00:00Z")


def _embedding(name: str, display_name: str, price: str) -> _Model:
    return _Model(
        name=name,
        display_name=display_name,
        context_window=8_192,
        max_output_tokens=None,
        rates=_Rates(price),
        wire_formats=("openai.embeddings",),
        input=("text",),
        output=("embedding",),
        capabilities=("embeddings",),
    )


# Above LONG_CONTEXT: input and cache rates twice, output rates one and a half times (model pages).
MODELS: tuple[_Model, ...] = (
    _reasoning(
        "gpt-6.2-astra",
        "GPT-6.2 Astra",
        _Rates("8", "40", "0.4", "10"),
        _Rates("16", "60", "0.8", "20"),
    ),
    _reasoning(
        "gpt-6.2-sol",
        "GPT-6.2 Sol",
        _Rates("2", "10", "0.1", "2.5"),
        _Rates("4", "15", "0.2", "5"),
    ),
    _reasoning(
        "gpt-6.1-sol",
        "GPT-6.1 Sol",
        _Rates("2", "10", "0.1", "2.5"),
        _Rates("4", "15", "0.2", "5"),
    ),
    _reasoning(
        "gpt-6.1-terra",
        "GPT-6.1 Terra",
        _Rates("1", "5", "0.05", "1.25"),
        _Rates("2", "7.5", "0.1", "2.5"),
    ),
    _reasoning(
        "gpt-6-astra",
        "GPT-6 Astra",
        _Rates("10", "50", "1", "12.5"),
        _Rates("20", "75", "2", "25"),
    ),
    _reasoning(
        "gpt-6-luna",
        "GPT-6 Luna",
        _Rates("0.1", "0.5", "0.01", "0.125"),
        _Rates("0.2", "0.75", "0.02", "0.25"),
    ),
    _retiring("gpt-4.1", "GPT-4.1", 1_047_576, 32_768, _Rates("2", "8", "0.5")),
    _retiring("gpt-4.1-mini", "GPT-4.1 mini", 1_047_576, 32_768, _Rates("0.4", "1.6", "0.1")),
    _retiring("gpt-4o", "GPT-4o", 128_000, 16_384, _Rates("2.5", "10", "1.25")),
    _retiring("gpt-4o-mini", "GPT-4o mini", 128_000, 16_384, _Rates("0.15", "0.6", "0.075")),
    _embedding("text-embedding-3-small", "text-embedding-3-small", "0.02"),
    _embedding("text-embedding-3-large", "text-embedding-3-large", "0.13"),
)

REPLACEMENT = "gpt-6-luna"
"""Slug of the model that OpenAI recommends instead of the retiring ones."""


def _pricing(model: _Model) -> SeedEntity:
    tiers = [(0, model.rates)]
    if model.long_context_rates is not None:
        tiers.append((LONG_CONTEXT, model.long_context_rates))
    rates = [
        {"meter": meter, "unit": "perMillion", "amount": amount, "aboveTokens": above}
        for above, table in tiers
        for meter, amount in table.items()
    ]
    return SeedEntity(
        "pricing",
        model.slug,
        f"OpenAI {model.display_name}",
        {"currency": "USD", "rates": rates, "multipliers": MULTIPLIERS},
        f"{SOURCE}, {AS_OF}; standard, flex and batch processing",
    )


def _model(model: _Model) -> SeedEntity:
    binding = {
        "hostId": "openai",
        "wireFormats": list(model.wire_formats),
        "pricingId": model.slug,
    }
    spec: dict[str, Any] = {
        "name": model.name,
        "providerId": "openai",
        "bindings": [binding],
        "contextWindow": model.context_window,
        "modalities": {"input": list(model.input), "output": list(model.output)},
        "capabilities": list(model.capabilities),
    }
    if model.max_output_tokens is not None:
        spec["maxOutputTokens"] = model.max_output_tokens
    if model.sunset is not None:
        spec["deprecated"] = {"sunset": model.sunset, "replacementId": REPLACEMENT}
    return SeedEntity("model", model.slug, model.display_name, spec)


def _entities() -> Iterator[SeedEntity]:
    yield SeedEntity(
        "provider",
        "openai",
        "OpenAI",
        {
            "homepageUrl": "https://openai.com",
            "docsUrl": "https://developers.openai.com/api/docs",
            "statusPageUrl": "https://status.openai.com",
        },
    )
    yield SeedEntity(
        "host",
        "openai",
        "OpenAI API",
        {"baseUrl": "https://api.openai.com/v1", "adapter": "openai", "pathPrefix": "openai"},
    )
    for model in MODELS:
        yield _pricing(model)
        yield _model(model)


SEED = CatalogSeed(
    name="openai",
    source=SOURCE,
    as_of=AS_OF,
    entities=tuple(_entities()),
    environment_keys=(EnvironmentKey("OPENAI_API_KEY", "openai"),),
)
