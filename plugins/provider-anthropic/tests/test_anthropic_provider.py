"""The Anthropic provider: requests, classification, errors, and the seeds it ships."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

import relay_gateway_provider_anthropic
from relay_gateway.plugin import (
    AdapterConfig,
    CatalogSeed,
    Classification,
    Endpoint,
    ListedModel,
    PluginConfig,
    PluginContext,
    Problem,
    Scope,
    Secret,
    UpstreamCall,
    UpstreamHost,
    Verdict,
)
from relay_gateway.testing.conformance import CatalogSeedConformance
from relay_gateway_provider_anthropic.dialect import AnthropicDialect
from relay_gateway_provider_anthropic.formats import FORMATS, CountTokensFormat, MessagesFormat
from relay_gateway_provider_anthropic.provider import AnthropicProvider
from relay_gateway_provider_anthropic.seeds import LONG_PROMPT, SEED

(MESSAGES,) = MessagesFormat.endpoints
(COUNT_TOKENS,) = CountTokensFormat.endpoints


@pytest.fixture
def provider(tmp_path: Path) -> AnthropicProvider:
    context = PluginContext("anthropic", tmp_path, "sqlite://")
    return AnthropicProvider(PluginConfig(), context)


def call_at(
    path: str = "",
    *,
    endpoint: Endpoint = MESSAGES,
    headers: tuple[tuple[bytes, bytes], ...] = (),
    host_headers: bytes = b"",
    secret: Secret | None = None,
) -> UpstreamCall:
    host = UpstreamHost(
        "id", "slug", f"https://localhost{path}", path, AdapterConfig(), host_headers
    )
    return UpstreamCall(
        host, "anthropic.messages", endpoint, "m", secret, headers, b'{"model":"m"}', streamed=False
    )


@pytest.mark.parametrize(
    ("path", "endpoint", "target"),
    [
        ("", MESSAGES, b"/v1/messages"),
        ("/v1", MESSAGES, b"/v1/messages"),
        ("/anthropic", MESSAGES, b"/anthropic/v1/messages"),
        ("/anthropic/v1", COUNT_TOKENS, b"/anthropic/v1/messages/count_tokens"),
        ("/api/v12", MESSAGES, b"/api/v12/v1/messages"),
    ],
)
def test_version_segment_is_there_exactly_once(
    provider: AnthropicProvider, path: str, endpoint: Endpoint, target: bytes
) -> None:
    assert provider.build_request(call_at(path, endpoint=endpoint)).target == target


@pytest.mark.parametrize(
    ("path", "host_headers", "target", "headers"),
    [
        ("", b"", b"/v1/models?limit=1",
         b"x-api-key: sk-ant-canary\r\nanthropic-version: 2023-06-01\r\n"),
        ("/anthropic/v1", b"anthropic-version: 2098-01-01\r\n", b"/anthropic/v1/models?limit=1",
         b"anthropic-version: 2098-01-01\r\nx-api-key: sk-ant-canary\r\n"),
    ],
)  # fmt: skip
def test_probe_asks_for_one_model(
    provider: AnthropicProvider, path: str, host_headers: bytes, target: bytes, headers: bytes
) -> None:
    host = call_at(path, host_headers=host_headers).host
    request = provider.probe(host, Secret("sk-ant-canary"))
    assert (request.method, request.target, request.body) == (b"GET", target, b"")
    assert request.headers == headers


def test_credential_goes_in_x_api_key_and_the_body_is_unchanged(
    provider: AnthropicProvider,
) -> None:
    call = call_at(secret=Secret("sk-ant-canary"))
    request = provider.build_request(call)
    assert request.body is call.body
    assert request.headers == b"x-api-key: sk-ant-canary\r\nanthropic-version: 2023-06-01\r\n"


@pytest.mark.parametrize(
    ("headers", "host_headers", "wanted"),
    [
        ((), b"", b"anthropic-version: 2023-06-01\r\n"),
        (
            ((b"anthropic-beta", b"a,b"),),
            b"",
            b"anthropic-beta: a,b\r\nanthropic-version: 2023-06-01\r\n",
        ),
        (((b"anthropic-version", b"2099-01-01"),), b"", b"anthropic-version: 2099-01-01\r\n"),
        ((), b"anthropic-version: 2098-01-01\r\n", b"anthropic-version: 2098-01-01\r\n"),
    ],
)
def test_version_is_the_callers_or_the_hosts_or_the_default(
    provider: AnthropicProvider,
    headers: tuple[tuple[bytes, bytes], ...],
    host_headers: bytes,
    wanted: bytes,
) -> None:
    call = call_at(headers=headers, host_headers=host_headers)
    assert provider.build_request(call).headers == wanted


def test_limits_of_the_shared_credential_are_not_shown_to_callers(
    provider: AnthropicProvider,
) -> None:
    assert provider.response_headers == {b"request-id"}


def error_body(kind: str, message: str = "no", **more: object) -> bytes:
    return msgspec.json.encode(
        {"type": "error", "error": {"type": kind, "message": message} | more, "request_id": "r"}
    )


CREDENTIAL = Classification(Verdict.CREDENTIAL)


@pytest.mark.parametrize(
    ("status", "headers", "body", "wanted"),
    [
        (401, {}, error_body("authentication_error"), CREDENTIAL),
        (402, {}, b"", CREDENTIAL),
        (403, {}, error_body("permission_error"), CREDENTIAL),
        (
            400,
            {},
            error_body(
                "invalid_request_error",
                "Your credit balance is too low to access the Anthropic API. Please go to Plans.",
            ),
            CREDENTIAL,
        ),
        (
            400,
            {},
            error_body(
                "invalid_request_error",
                "You have reached your specified API usage limits. You will regain access on …",
            ),
            CREDENTIAL,
        ),
        (400, {}, error_body("billing_error"), CREDENTIAL),
        (
            429,
            {},
            error_body("rate_limit_error", details={"error_code": "enforced_spend_limit_reached"}),
            CREDENTIAL,
        ),
        (
            429,
            {b"retry-after": b"7"},
            error_body("rate_limit_error"),
            Classification(Verdict.THROTTLED, 7.0, Scope.MODEL),
        ),
        (
            429,
            {
                b"anthropic-ratelimit-requests-remaining": b"40",
                b"anthropic-ratelimit-requests-reset": b"2026-01-01T00:00:40Z",
                b"anthropic-ratelimit-output-tokens-remaining": b"0",
                b"anthropic-ratelimit-output-tokens-reset": b"2026-01-01T00:00:12Z",
                b"date": b"Thu, 01 Jan 2026 00:00:00 GMT",
            },
            error_body("rate_limit_error"),
            Classification(Verdict.THROTTLED, 12.0, Scope.MODEL),
        ),
        (429, {}, b"", Classification(Verdict.THROTTLED)),
        (
            400,
            {},
            error_body("invalid_request_error", "This organization has been disabled."),
            CREDENTIAL,
        ),
        (529, {}, error_body("overloaded_error"), Classification(Verdict.FAILURE)),
        (500, {}, error_body("api_error"), Classification(Verdict.FAILURE)),
        (400, {}, error_body("invalid_request_error"), Classification(Verdict.DELIVER)),
        (400, {}, b'{"error": "credit balance is too low"}', Classification(Verdict.DELIVER)),
        (400, {}, b'{"error":' + b"[" * 5000, Classification(Verdict.DELIVER)),
        (400, {}, b"<html>", Classification(Verdict.DELIVER)),
        (404, {}, error_body("not_found_error"), Classification(Verdict.DELIVER)),
        (413, {}, error_body("request_too_large"), Classification(Verdict.DELIVER)),
    ],
)
def test_f40_answers_are_classified_by_status_and_what_the_body_tells(
    provider: AnthropicProvider,
    status: int,
    headers: Mapping[bytes, bytes],
    body: bytes,
    wanted: Classification,
) -> None:
    assert provider.classify(status, headers, body) == wanted


@pytest.mark.parametrize(
    ("status", "code", "wanted", "kind"),
    [
        (400, "invalid_request", 400, "invalid_request_error"),
        (401, "invalid_api_key", 401, "authentication_error"),
        (403, "key_expired", 403, "permission_error"),
        (403, "model_not_allowed", 404, "not_found_error"),
        (404, "model_not_found", 404, "not_found_error"),
        (413, "request_too_large", 413, "request_too_large"),
        (415, "unsupported_media_type", 415, "invalid_request_error"),
        (429, "rate_limit_exceeded", 429, "rate_limit_error"),
        (500, "internal_error", 500, "api_error"),
        (502, "upstream_unreachable", 502, "api_error"),
        (503, "no_available_host_key", 503, "overloaded_error"),
        (504, "upstream_timeout", 504, "timeout_error"),
    ],
)
def test_errors_have_the_shape_of_the_anthropic_api(
    status: int, code: str, wanted: int, kind: str
) -> None:
    given, body = AnthropicDialect().error(Problem(status, code, "why", request_id="req-1"))
    assert given == wanted
    assert msgspec.json.decode(body) == {
        "type": "error",
        "error": {"type": kind, "message": "why"},
        "request_id": "req-1",
    }


def test_error_in_a_stream_is_an_error_event() -> None:
    event = AnthropicDialect().error_event(Problem(502, "upstream_closed", "broke off"))
    assert event == (
        b'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"broke off"},'
        b'"request_id":null}\n\n'
    )


def test_dialect_is_told_by_the_version_header() -> None:
    assert AnthropicDialect().claims({b"host", b"anthropic-version"})
    assert not AnthropicDialect().claims({b"host", b"authorization"})


def test_model_lists_have_the_shape_of_the_anthropic_api() -> None:
    names = ("claude-opus-5-5", "claude-haiku-5-5")
    models = [ListedModel(name, name.title(), "anthropic", 1_790_000_000) for name in names]
    page = msgspec.json.decode(AnthropicDialect().models(models))
    assert (page["has_more"], page["first_id"], page["last_id"]) == (False, *names)
    assert page["data"][0] == {
        "type": "model",
        "id": "claude-opus-5-5",
        "display_name": "Claude-Opus-5-5",
        "created_at": "2026-09-21T14:13:20Z",
    }
    assert msgspec.json.decode(AnthropicDialect().model(models[0])) == page["data"][0]


def test_an_empty_model_list_has_no_first_and_last() -> None:
    assert msgspec.json.decode(AnthropicDialect().models([])) == {
        "data": [],
        "has_more": False,
        "first_id": None,
        "last_id": None,
    }


def test_formats_are_defined_with_distinct_names_and_paths() -> None:
    assert tuple(wire_format.name for wire_format in FORMATS) == AnthropicProvider.wire_formats
    assert (MESSAGES.path, COUNT_TOKENS.path) == ("/v1/messages", "/v1/messages/count_tokens")
    assert MESSAGES.streams
    assert not COUNT_TOKENS.streams


def test_hooks_hand_over_the_provider_and_the_seed() -> None:
    plugin = relay_gateway_provider_anthropic
    assert plugin.relay_register_upstream_providers() == (AnthropicProvider,)
    assert plugin.relay_register_catalog_seeds() == (SEED,)


class TestSeed(CatalogSeedConformance):
    """The seed keeps what is promised of seeds."""

    @pytest.fixture
    def seed(self) -> CatalogSeed:
        return SEED


def test_cache_writes_cost_a_quarter_more_than_input_and_twice_as_much_for_an_hour() -> None:
    tiers = 0
    for entity in SEED.entities:
        if entity.kind != "pricing":
            continue
        amounts = {
            (rate["aboveTokens"], rate["meter"]): Decimal(rate["amount"])
            for rate in entity.spec["rates"]
        }
        for above in {above for above, _ in amounts}:
            tiers += 1
            base = amounts[above, "tokens.input"]
            assert amounts[above, "tokens.output"] == base * 5
            assert amounts[above, "tokens.cacheWrite"] == base * Decimal("1.25")
            assert amounts[above, "tokens.cacheWrite1h"] == base * 2
            assert amounts[above, "tokens.cacheRead"] <= base / 10
            assert above in (0, LONG_PROMPT)
    assert tiers == 9


def test_seed_says_where_its_facts_come_from_and_which_variable_holds_the_credential() -> None:
    assert "claude.com" in SEED.source
    assert SEED.as_of == "2026-11-20"
    assert [(key.variable, key.host) for key in SEED.environment_keys] == [
        ("ANTHROPIC_API_KEY", "anthropic")
    ]
