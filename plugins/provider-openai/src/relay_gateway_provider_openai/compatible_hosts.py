"""Well-known other hosts with the OpenAI API, ready in the catalog of a new gateway.

They differ in nothing but what their specs say. A host of which the address is not known before (an
account's own, or a server on this machine) is disabled until somebody says where it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from relay_gateway.plugin import CatalogSeed, EnvironmentKey, SeedEntity

SOURCE = (
    "The API documentation of each host: console.groq.com/docs/openai, docs.mistral.ai, "
    "api-docs.deepseek.com, docs.x.ai, openrouter.ai/docs, docs.together.ai, docs.fireworks.ai, "
    "docs.ollama.com, docs.vllm.ai, github.com/ggml-org/llama.cpp, learn.microsoft.com/azure"
)
AS_OF = "2026-11-20"

_OLDER_CHAT = {"maxTokensField": "max_tokens", "developerRole": False}
"""For hosts that know the member and the roles that chat completions had at first."""
_TEXT = ("chat", "completions", "embeddings")


class CompatibleHost(msgspec.Struct, frozen=True):
    """A host before it is a catalog entity. ``operations`` are wire formats without their family;
    ``variable`` is empty for a host that wants no credential or has no address of its own yet."""

    slug: str
    display_name: str
    base_url: str
    operations: tuple[str, ...]
    config: Mapping[str, Any] = msgspec.field(default_factory=dict)
    variable: str = ""
    no_auth: bool = False

    def entity(self) -> SeedEntity:
        """The host as the catalog has it."""
        spec: dict[str, Any] = {
            "baseUrl": self.base_url,
            "adapter": "openai",
            "adapterConfig": dict(self.config),
            "wireFormats": [f"openai.{operation}" for operation in self.operations],
        }
        if self.variable:
            spec["pathPrefix"] = self.slug
        else:
            spec["enabled"] = False
        if self.no_auth:
            spec["noAuth"] = True
        return SeedEntity("host", self.slug, self.display_name, spec, f"{SOURCE}, {AS_OF}")


HOSTS: tuple[CompatibleHost, ...] = (
    CompatibleHost(
        "groq",
        "Groq",
        "https://api.groq.com/openai/v1",
        ("chat", "responses", "speech", "transcriptions"),
        {"developerRole": False},
        "GROQ_API_KEY",
    ),
    # Unknown members are refused with 422; usage is in the last event of each stream.
    CompatibleHost(
        "mistral",
        "Mistral AI",
        "https://api.mistral.ai/v1",
        ("chat", "embeddings", "moderations", "transcriptions"),
        {**_OLDER_CHAT, "streamUsage": False},
        "MISTRAL_API_KEY",
    ),
    CompatibleHost(
        "deepseek",
        "DeepSeek",
        "https://api.deepseek.com/v1",
        ("chat",),
        _OLDER_CHAT,
        "DEEPSEEK_API_KEY",
    ),
    CompatibleHost(
        "xai",
        "xAI",
        "https://api.x.ai/v1",
        ("chat", "responses", "images"),
        {"developerRole": False},
        "XAI_API_KEY",
    ),
    CompatibleHost(
        "openrouter",
        "OpenRouter",
        "https://openrouter.ai/api/v1",
        (*_TEXT, "responses", "rerank"),
        {},
        "OPENROUTER_API_KEY",
    ),
    CompatibleHost(
        "together",
        "Together AI",
        "https://api.together.ai/v1",
        (*_TEXT, "images", "speech", "transcriptions", "rerank"),
        _OLDER_CHAT,
        "TOGETHER_API_KEY",
    ),
    # Usage is in the last event of each stream, asked for or not.
    CompatibleHost(
        "fireworks",
        "Fireworks AI",
        "https://api.fireworks.ai/inference/v1",
        (*_TEXT, "rerank"),
        {**_OLDER_CHAT, "streamUsage": False},
        "FIREWORKS_API_KEY",
    ),
    CompatibleHost(
        "azure-openai",
        "Azure OpenAI",
        "https://your-resource.openai.azure.com/openai/v1",
        (*_TEXT, "responses", "images", "speech", "transcriptions"),
        {"credentialHeader": "api-key"},
    ),
    CompatibleHost(
        "azure-openai-deployments",
        "Azure OpenAI, dated API versions",
        "https://your-resource.openai.azure.com/openai",
        (*_TEXT, "images", "speech", "transcriptions"),
        {"credentialHeader": "api-key", "deployments": True, "apiVersion": "2024-10-21"},
    ),
    CompatibleHost(
        "ollama",
        "Ollama on this machine",
        "http://127.0.0.1:11434/v1",
        (*_TEXT, "responses"),
        _OLDER_CHAT,
        no_auth=True,
    ),
    CompatibleHost(
        "vllm",
        "vLLM on this machine",
        "http://127.0.0.1:8000/v1",
        (*_TEXT, "responses", "transcriptions", "rerank"),
        {"developerRole": False},
        no_auth=True,
    ),
    # Its own default is port 8080, which is the gateway's.
    CompatibleHost(
        "llama-cpp",
        "llama.cpp on this machine",
        "http://127.0.0.1:8090/v1",
        (*_TEXT, "rerank"),
        _OLDER_CHAT,
        no_auth=True,
    ),
)


def _environment_keys() -> Iterator[EnvironmentKey]:
    return (EnvironmentKey(host.variable, host.slug) for host in HOSTS if host.variable)


HOSTS_SEED = CatalogSeed(
    name="openai-hosts",
    source=SOURCE,
    as_of=AS_OF,
    entities=tuple(host.entity() for host in HOSTS),
    environment_keys=tuple(_environment_keys()),
)
