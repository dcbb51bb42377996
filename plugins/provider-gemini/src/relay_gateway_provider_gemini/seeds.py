"""What Google offers and charges for the Gemini API: the catalog entities this provider ships."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from relay_gateway.plugin import CatalogSeed, EnvironmentKey, SeedEntity

SOURCE = "Gemini API documentation: pricing and models (ai.google.dev/gemini-api/docs)"
AS_OF = "2026-10-07"
"""When this was put together, from copies of the pages and from price lists that others keep. Most
rates agreed in all of them; the cached rates of 3.1 Pro above the threshold and of 2.5 Flash had no
second source. Lists do not agree on what cached input of 3.5 Flash and 3.5 Flash-Lite costs, so
these have no rate of their own for it: it is charged as other input, rather too much."""

LONG_PROMPT = 200_000
"""Input tokens above which Pro models are charged at their higher rates, as a whole request."""


class _Rates(msgspec.Struct, frozen=True):
    """US dollars per million tokens; output includes thinking, and an empty string is no rate of
    its own: cached and audio input then cost what other input costs."""

    input: str
    output: str
    cache_read: str = ""
    audio_input: str = ""

    def items(self) -> Iterator[tuple[str, str]]:
        """Meters and amounts, those without a rate left out."""
        amounts = {
            "tokens.input": self.input,
            "tokens.output": self.output,
            "tokens.cacheRead": self.cache_read,
            "tokens.audioInput": self.audio_input,
        }
        return ((meter, amount) for meter, amount in amounts.items() if amount)


class _Model(msgspec.Struct, frozen=True):
    name: str
    display_name: str
    rates: _Rates
    long_prompt_rates: _Rates | None = None
    note: str = ""

    @property
    def slug(self) -> str:
        """The name as a DNS label."""
        return self.name.replace(".", "-")


MODELS: tuple[_Model, ...] = (
    _Model(
        "gemini-3.8-flash",
        "Gemini 3.8 Flash",
        _Rates("0.75", "3.75", "0.075"),
        note="half price through 2026-12-31, twice as much from 2027-01-01",
    ),
    _Model("gemini-3.5-flash", "Gemini 3.5 Flash", _Rates("1.5", "9")),
    _Model("gemini-3.5-flash-lite", "Gemini 3.5 Flash-Lite", _Rates("0.3", "2.5")),
    _Model(
        "gemini-3.1-pro-preview",
        "Gemini 3.1 Pro Preview",
        _Rates("2", "12", "0.2"),
        _Rates("4", "18", "0.4"),
    ),
    _Model("gemini-2.5-flash", "Gemini 2.5 Flash", _Rates("0.3", "2.5", "0.03", audio_input="1")),
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
    said = f"{SOURCE}, {AS_OF}; standard processing"
    return SeedEntity(
        "pricing",
        model.slug,
        f"Google {model.display_name}",
        {"currency": "USD", "rates": rates},
        f"{said}; {model.note}" if model.note else said,
    )


def _model(model: _Model) -> SeedEntity:
    spec = {
        "name": model.name,
        "providerId": "google",
        "bindings": [{"hostId": "gemini", "pricingId": model.slug}],
        "contextWindow": 1_048_576,
        "maxOutputTokens": 65_536,
        "modalities": {"input": ["text", "image", "audio", "video"], "output": ["text"]},
        "capabilities": ["tools", "structured-output", "vision", "prompt-caching", "reasoning"],
    }
    return SeedEntity("model", model.slug, model.display_name, spec)


def _entities() -> Iterator[SeedEntity]:
    yield SeedEntity(
        "provider",
        "google",
        "Google",
        {
            "homepageUrl": "https://deepmind.google",
            "docsUrl": "https://ai.google.dev/gemini-api/docs",
            "statusPageUrl": "https://status.cloud.google.com",
        },
    )
    yield SeedEntity(
        "host",
        "gemini",
        "Gemini API",
        {
            "baseUrl": "https://generativelanguage.googleapis.com",
            "adapter": "gemini",
            "pathPrefix": "gemini",
        },
    )
    for model in MODELS:
        yield _pricing(model)
        yield _model(model)


SEED = CatalogSeed(
    name="gemini",
    source=SOURCE,
    as_of=AS_OF,
    entities=tuple(_entities()),
    environment_keys=(EnvironmentKey("GEMINI_API_KEY", "gemini"),),
)
