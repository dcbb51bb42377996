"""The OpenAI provider: requests, classification, errors, and the seeds it ships."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pydantic import ValidationError

import relay_gateway_provider_openai
from relay_gateway.plugin import (
    CatalogSeed,
    Classification,
    ListedModel,
    PluginConfig,
    PluginContext,
    Problem,
    Scope,
    Secret,
    SeedEntity,
    UpstreamCall,
    UpstreamHost,
    Verdict,
)
from relay_gateway.testing.conformance import CatalogSeedConformance
from relay_gateway_provider_openai.compatible_hosts import HOSTS_SEED
from relay_gateway_provider_openai.dialect import OpenAIDialect, OpenAIResponsesDialect
from relay_gateway_provider_openai.formats import FORMATS, ChatFormat
from relay_gateway_provider_openai.host_config import OpenAIHost
from relay_gateway_provider_openai.provider import OpenAIProvider
from relay_gateway_provider_openai.seeds import LONG_CONTEXT, SEED

(CHAT,) = ChatFormat.endpoints


@pytest.fixture
def provider(tmp_path: Path) -> OpenAIProvider:
    context = PluginContext("openai", tmp_path, "sqlite://")
    return OpenAIProvider(PluginConfig(), context)


def call_at(path: str, **changes: Any) -> UpstreamCall:
    host = UpstreamHost("id", "slug", f"https://localhost{path}", path, OpenAIHost())
    values: dict[str, Any] = {
        "host": host,
        "wire_format": "openai.chat",
        "endpoint": CHAT,
        "upstream_model": "m",
        "secret": Secret("sk-canary"),
        "headers": [(b"openai-beta", b"x=1")],
        "body": b'{"model":"m"}',
        "streamed": False,
    }
    return UpstreamCall(**values | changes)


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("", b"/v1/chat/completions"),
        ("/v1", b"/v1/chat/completions"),
        ("/openai/v1", b"/openai/v1/chat/completions"),
        ("/v1beta/openai", b"/v1beta/openai/chat/completions"),
    ],
)
def test_operation_is_appended_to_the_base_path(
    provider: OpenAIProvider, path: str, target: bytes
) -> None:
    assert provider.build_request(call_at(path)).target == target


@pytest.mark.parametrize(
    ("path", "target"),
    [("", b"/v1/models"), ("/v1", b"/v1/models"), ("/openai/v1", b"/openai/v1/models")],
)
def test_probe_asks_for_the_models_on_the_account_of_the_host(
    provider: OpenAIProvider, path: str, target: bytes
) -> None:
    config = OpenAIHost(organization="org-1")
    host = UpstreamHost("id", "slug", "https://localhost", path, config, b"x-a: b\r\n")
    request = provider.probe(host, Secret("sk-canary"))
    assert (request.method, request.target, request.body) == (b"GET", target, b"")
    assert request.headers == (
        b"x-a: b\r\nauthorization: Bearer sk-canary\r\nopenai-organization: org-1\r\n"
    )


def test_request_carries_the_body_unchanged_and_the_credential_as_bearer(
    provider: OpenAIProvider,
) -> None:
    call = call_at("/v1")
    request = provider.build_request(call)
    assert request.body is call.body
    assert request.method == b"POST"
    assert request.headers == b"openai-beta: x=1\r\nauthorization: Bearer sk-canary\r\n"


def test_host_without_authentication_gets_no_credential(provider: OpenAIProvider) -> None:
    assert provider.build_request(call_at("", secret=None)).headers == b"openai-beta: x=1\r\n"


def test_account_named_by_the_host_is_sent_and_a_caller_cannot_name_one(
    provider: OpenAIProvider,
) -> None:
    config = OpenAIHost.model_validate({"organization": "org-1", "project": "proj_2"})
    host = UpstreamHost("id", "slug", "https://localhost", "", config)
    for _ in range(2):
        headers = provider.build_request(call_at("", host=host, headers=(), secret=None)).headers
        assert headers == b"openai-organization: org-1\r\nopenai-project: proj_2\r\n"
    assert not {b"openai-organization", b"openai-project"} & provider.request_headers


def test_account_ids_that_would_break_a_header_are_refused() -> None:
    for value in ("a\r\nx: y", "a b", "", "ä"):
        with pytest.raises(ValidationError):
            OpenAIHost.model_validate({"organization": value})


def test_limits_of_the_shared_credential_are_not_shown_to_callers(
    provider: OpenAIProvider,
) -> None:
    assert not any(name.startswith(b"x-ratelimit") for name in provider.response_headers)


def error_body(code: str | None, kind: str = "invalid_request_error") -> bytes:
    return msgspec.json.encode({"error": {"message": "no", "type": kind, "code": code}})


def limited(message: str) -> bytes:
    error = {"message": message, "type": "requests", "code": "rate_limit_exceeded"}
    return msgspec.json.encode({"error": error})


@pytest.mark.parametrize(
    ("status", "headers", "body", "wanted"),
    [
        (401, {}, error_body("invalid_api_key"), Classification(Verdict.CREDENTIAL)),
        (402, {}, b"", Classification(Verdict.CREDENTIAL)),
        (403, {}, b"<html>", Classification(Verdict.CREDENTIAL)),
        (
            429,
            {b"retry-after": b"20"},
            error_body("insufficient_quota", "insufficient_quota"),
            Classification(Verdict.CREDENTIAL),
        ),
        (429, {}, error_body(None, "insufficient_quota"), Classification(Verdict.CREDENTIAL)),
        (
            429,
            {},
            error_body("project_spend_limit_exceeded"),
            Classification(Verdict.CREDENTIAL),
        ),
        (400, {}, error_body("billing_hard_limit_reached"), Classification(Verdict.CREDENTIAL)),
        (
            429,
            {b"retry-after": b"20"},
            error_body("rate_limit_exceeded"),
            Classification(Verdict.THROTTLED, 20.0),
        ),
        (
            429,
            {b"retry-after": b"2", b"retry-after-ms": b"1250"},
            b"",
            Classification(Verdict.THROTTLED, 1.25),
        ),
        (429, {b"retry-after-ms": b"nan"}, b"", Classification(Verdict.THROTTLED)),
        (
            429,
            {b"x-ratelimit-remaining-requests": b"0", b"x-ratelimit-reset-requests": b"6m0s"},
            limited("Rate limit reached for requests. Limit 3500 per min."),
            Classification(Verdict.THROTTLED, 360.0),
        ),
        (
            429,
            {b"x-ratelimit-remaining-tokens": b"0", b"x-ratelimit-reset-tokens": b"120ms"},
            limited("Rate limit reached for acme-large in organization org-x on tokens per min"),
            Classification(Verdict.THROTTLED, 0.12, Scope.MODEL),
        ),
        (
            429,
            {},
            error_body(None, "engine_overloaded_error"),
            Classification(Verdict.THROTTLED, None, Scope.HOST),
        ),
        (
            403,
            {},
            error_body("model_not_found"),
            Classification(Verdict.CREDENTIAL, None, Scope.MODEL),
        ),
        (503, {b"retry-after-ms": b"500"}, b"", Classification(Verdict.FAILURE, 0.5)),
        (400, {b"retry-after-ms": b"500"}, b"", Classification(Verdict.DELIVER)),
        (400, {}, error_body("context_length_exceeded"), Classification(Verdict.DELIVER)),
        (404, {}, error_body("model_not_found"), Classification(Verdict.DELIVER)),
        (400, {}, b'{"error":"insufficient_quota"}', Classification(Verdict.DELIVER)),
        (400, {}, b'{"error":' + b"[" * 5000, Classification(Verdict.DELIVER)),
        (408, {}, b"", Classification(Verdict.FAILURE)),
        (500, {}, error_body("insufficient_quota"), Classification(Verdict.FAILURE)),
    ],
)
def test_f40_answers_are_classified_by_status_and_what_the_body_tells(
    provider: OpenAIProvider,
    status: int,
    headers: Mapping[bytes, bytes],
    body: bytes,
    wanted: Classification,
) -> None:
    assert provider.classify(status, headers, body) == wanted


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "invalid_request", "invalid_request_error"),
        (401, "invalid_api_key", "authentication_error"),
        (403, "model_not_allowed", "permission_error"),
        (404, "model_not_found", "invalid_request_error"),
        (429, "rate_limit_exceeded", "rate_limit_error"),
        (429, "budget_exceeded", "insufficient_quota"),
        (502, "upstream_unreachable", "server_error"),
    ],
)
def test_errors_have_the_shape_of_the_openai_api(status: int, code: str, kind: str) -> None:
    given, body = OpenAIDialect().error(Problem(status, code, "why", "model"))
    assert given == status
    assert msgspec.json.decode(body) == {
        "error": {"message": "why", "type": kind, "param": "model", "code": code}
    }


def test_error_in_a_chat_stream_is_a_data_line_of_its_own() -> None:
    event = OpenAIDialect().error_event(Problem(502, "upstream_closed", "broke off"))
    assert event.startswith(b'data: {"error":{"message":"broke off"')
    assert event.endswith(b"}\n\n")


def test_error_in_a_responses_stream_is_an_error_event() -> None:
    event = OpenAIResponsesDialect().error_event(Problem(502, "upstream_closed", "broke off"))
    name, data, *rest = event.split(b"\n")
    assert (name, rest) == (b"event: error", [b"", b""])
    assert msgspec.json.decode(data.removeprefix(b"data: ")) == {
        "type": "error",
        "code": "upstream_closed",
        "message": "broke off",
        "param": None,
        "sequence_number": 0,
    }


def test_model_lists_have_the_shape_of_the_openai_api() -> None:
    model = ListedModel("gpt-6-luna", "GPT-6 Luna", "openai", 1_700_000_000)
    listed = {"id": "gpt-6-luna", "object": "model", "created": 1_700_000_000, "owned_by": "openai"}
    assert msgspec.json.decode(OpenAIDialect().models([model])) == {
        "object": "list",
        "data": [listed],
    }
    assert msgspec.json.decode(OpenAIDialect().model(model)) == listed


def test_formats_are_defined_with_distinct_names_and_paths() -> None:
    assert [wire_format.name for wire_format in FORMATS] == list(OpenAIProvider.wire_formats)
    paths = [endpoint.path for wire_format in FORMATS for endpoint in wire_format.endpoints]
    assert sorted(paths) == [
        "/v1/audio/speech",
        "/v1/audio/transcriptions",
        "/v1/audio/translations",
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/embeddings",
        "/v1/images/edits",
        "/v1/images/generations",
        "/v1/moderations",
        "/v1/rerank",
        "/v1/responses",
    ]


def test_hooks_hand_over_the_provider_and_the_seed() -> None:
    assert relay_gateway_provider_openai.relay_register_upstream_providers() == (OpenAIProvider,)
    assert relay_gateway_provider_openai.relay_register_catalog_seeds() == (SEED, HOSTS_SEED)


def seeded(kind: str) -> Iterator[SeedEntity]:
    return (entity for entity in SEED.entities if entity.kind == kind)


class TestSeed(CatalogSeedConformance):
    """The seed keeps what is promised of seeds."""

    @pytest.fixture
    def seed(self) -> CatalogSeed:
        return SEED


def test_every_seeded_model_is_bound_to_formats_that_the_provider_speaks_and_priced() -> None:
    priced = {entity.slug: entity.spec for entity in seeded("pricing")}
    for entity in seeded("model"):
        (binding,) = entity.spec["bindings"]
        assert set(binding["wireFormats"]) <= set(OpenAIProvider.wire_formats)
        meters = {rate["meter"] for rate in priced[binding["pricingId"]]["rates"]}
        assert "tokens.input" in meters
        if "openai.chat" in binding["wireFormats"]:
            assert {"tokens.output", "tokens.cacheRead"} <= meters


def test_long_context_rates_double_input_and_add_half_to_output() -> None:
    for entity in seeded("pricing"):
        amounts = {
            (rate["meter"], rate["aboveTokens"]): Decimal(rate["amount"])
            for rate in entity.spec["rates"]
        }
        for (meter, above), amount in amounts.items():
            if above == LONG_CONTEXT:
                factor = Decimal("1.5") if meter == "tokens.output" else Decimal(2)
                assert amount == amounts[meter, 0] * factor


def test_seed_says_where_its_facts_come_from_and_which_variable_holds_the_credential() -> None:
    assert "openai.com" in SEED.source
    assert SEED.as_of == "2026-11-20"
    assert [(key.variable, key.host) for key in SEED.environment_keys] == [
        ("OPENAI_API_KEY", "openai")
    ]
