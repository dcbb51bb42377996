"""Hosts with the OpenAI API that are not OpenAI: what they want, and the seeded ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from pydantic import ValidationError

from relay_gateway.plugin import (
    CatalogSeed,
    EncodeOptions,
    PluginConfig,
    Secret,
    UpstreamCall,
    UpstreamHost,
)
from relay_gateway.testing.conformance import CatalogSeedConformance
from relay_gateway.testing.context import plugin_context
from relay_gateway_provider_openai.chat_codec import ChatCodec
from relay_gateway_provider_openai.compatible_hosts import HOSTS, HOSTS_SEED, CompatibleHost
from relay_gateway_provider_openai.formats import ChatFormat, ResponsesFormat
from relay_gateway_provider_openai.host_config import OpenAIHost
from relay_gateway_provider_openai.provider import OpenAIProvider
from relay_gateway_provider_openai.responses_codec import ResponsesCodec

DEPLOYMENTS = {"credentialHeader": "Api-Key", "deployments": True, "apiVersion": "2024-10-21"}
ASKED = {
    "model": "m",
    "input": [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "Hello"},
    ],
    "max_output_tokens": 9,
    "stream": True,
}


@pytest.fixture
def provider(tmp_path: Path) -> OpenAIProvider:
    return OpenAIProvider(PluginConfig(), plugin_context(tmp_path))


def host_of(base_url: str, config: dict[str, Any]) -> UpstreamHost:
    path = "/" + base_url.partition("://")[2].partition("/")[2]
    return UpstreamHost("id", "slug", base_url, path.rstrip("/"), OpenAIHost.model_validate(config))


def call_at(host: UpstreamHost, wire_format: type[ChatFormat | ResponsesFormat]) -> UpstreamCall:
    (endpoint,) = wire_format.endpoints
    secret = Secret("sk-canary")
    return UpstreamCall(host, wire_format.name, endpoint, "dep/1", secret, (), b"{}", True)


def test_deployment_and_version_are_in_the_address_and_the_key_stands_alone(
    provider: OpenAIProvider,
) -> None:
    host = host_of("https://acme.test/openai", DEPLOYMENTS)
    request = provider.build_request(call_at(host, ChatFormat))
    path = b"/openai/deployments/dep%2F1/chat/completions?api-version=2024-10-21"
    assert (request.target, request.headers) == (path, b"api-key: sk-canary\r\n")


def test_responses_name_their_deployment_in_the_body(provider: OpenAIProvider) -> None:
    host = host_of("https://acme.test/openai", DEPLOYMENTS)
    request = provider.build_request(call_at(host, ResponsesFormat))
    assert request.target == b"/openai/responses?api-version=2024-10-21"


def test_probe_goes_where_requests_go(provider: OpenAIProvider) -> None:
    host = host_of("https://acme.test/openai", DEPLOYMENTS)
    request = provider.probe(host, Secret("sk-canary"))
    assert request.target == b"/openai/models?api-version=2024-10-21"
    assert request.headers == b"api-key: sk-canary\r\n"
    assert provider.probe(host, None).headers == b""


@pytest.mark.parametrize(
    "config",
    [
        {"credentialHeader": "Host"},
        {"credentialHeader": "content-length"},
        {"credentialHeader": "a b"},
        {"credentialHeader": ""},
        {"apiVersion": "1&x=2"},
        {"apiVersion": ""},
        {"maxTokensField": "limit"},
        {"stream_usage": "perhaps"},
        {"unheardOf": 1},
    ],
)
def test_t22_configuration_that_would_bend_a_request_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        OpenAIHost.model_validate(config)


def written(config: object) -> dict[str, Any]:
    """``ASKED`` as a chat completion for a host."""
    asked = ResponsesCodec().decode_request(msgspec.json.encode(ASKED))
    done = ChatCodec().encode_request(asked, "m", EncodeOptions(None, config))
    body: dict[str, Any] = msgspec.json.decode(done.body)
    return body


@pytest.mark.parametrize("config", [None, OpenAIHost(), object()])
def test_translated_requests_are_those_of_openai_unless_a_host_says_otherwise(
    config: object,
) -> None:
    body = written(config)
    assert body["max_completion_tokens"] == 9
    assert body["stream_options"] == {"include_usage": True}
    assert [message["role"] for message in body["messages"]] == ["developer", "user"]


def test_translated_requests_say_only_what_the_host_knows() -> None:
    config = {"maxTokensField": "max_tokens", "streamUsage": False, "developerRole": False}
    body = written(OpenAIHost.model_validate(config))
    assert body["max_tokens"] == 9
    assert not {"max_completion_tokens", "stream_options"} & set(body)
    assert body["stream"] is True
    assert [message["role"] for message in body["messages"]] == ["system", "user"]


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.slug)
def test_every_seeded_host_speaks_what_the_adapter_does(host: CompatibleHost) -> None:
    spec = host.entity().spec
    OpenAIHost.model_validate(spec.get("adapterConfig", {}))
    assert set(spec["wireFormats"]) <= set(OpenAIProvider.wire_formats)
    assert "openai.chat" in spec["wireFormats"]


class TestHostsSeed(CatalogSeedConformance):
    """The seed keeps what is promised of seeds."""

    @pytest.fixture
    def seed(self) -> CatalogSeed:
        return HOSTS_SEED


def test_hosts_without_an_address_of_their_own_begin_disabled() -> None:
    disabled = {
        entity.slug for entity in HOSTS_SEED.entities if not entity.spec.get("enabled", True)
    }
    placeholders = {
        entity.slug
        for entity in HOSTS_SEED.entities
        if "your-resource" in entity.spec["baseUrl"] or "127.0.0.1" in entity.spec["baseUrl"]
    }
    assert disabled == placeholders
    assert all(entity.spec["baseUrl"].startswith("https://") for entity in enabled_hosts())


def enabled_hosts() -> list[Any]:
    return [entity for entity in HOSTS_SEED.entities if entity.spec.get("enabled", True)]


def test_each_enabled_host_has_a_variable_and_a_prefix_of_its_own() -> None:
    slugs = [entity.slug for entity in enabled_hosts()]
    assert [key.host for key in HOSTS_SEED.environment_keys] == slugs
    assert len({key.variable for key in HOSTS_SEED.environment_keys}) == len(slugs)
    assert [entity.spec["pathPrefix"] for entity in enabled_hosts()] == slugs
