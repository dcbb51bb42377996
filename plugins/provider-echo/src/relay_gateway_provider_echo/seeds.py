"""The catalog entities of this provider: two models that need neither network nor credential."""

from __future__ import annotations

from relay_gateway.plugin import CatalogSeed, SeedEntity
from relay_gateway_provider_echo.provider import SPEAKERS

_EMBEDDING_FORMATS = ["openai.embeddings"]
_TEXT_FORMATS = [name for name in SPEAKERS if name not in _EMBEDDING_FORMATS]

SEED = CatalogSeed(
    name="echo",
    source="This project; the prices are made up so that costs can be seen",
    as_of="2026-11-20",
    entities=(
        SeedEntity("provider", "echo", "Echo", {}, "Answers what it was told, offline."),
        SeedEntity(
            "host",
            "echo",
            "Echo, inside the gateway",
            {"baseUrl": "http://echo.localhost", "adapter": "echo", "noAuth": True},
        ),
        SeedEntity(
            "pricing",
            "echo",
            "Echo",
            {
                "currency": "USD",
                "rates": [
                    {"meter": "tokens.input", "unit": "perMillion", "amount": "0.1"},
                    {"meter": "tokens.output", "unit": "perMillion", "amount": "0.4"},
                ],
            },
        ),
        SeedEntity(
            "model",
            "echo",
            "Echo",
            {
                "name": "echo",
                "providerId": "echo",
                "bindings": [{"hostId": "echo", "wireFormats": _TEXT_FORMATS, "pricingId": "echo"}],
                "contextWindow": 1_000_000,
                "maxOutputTokens": 100_000,
                "modalities": {"input": ["text"], "output": ["text"]},
                "capabilities": ["tools"],
            },
        ),
        SeedEntity(
            "model",
            "echo-embedding",
            "Echo embedding",
            {
                "name": "echo-embedding",
                "providerId": "echo",
                "bindings": [
                    {"hostId": "echo", "wireFormats": _EMBEDDING_FORMATS, "pricingId": "echo"}
                ],
                "contextWindow": 1_000_000,
                "modalities": {"input": ["text"], "output": ["embedding"]},
                "capabilities": ["embeddings"],
            },
        ),
    ),
)
