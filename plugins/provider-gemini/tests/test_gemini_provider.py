"""The Gemini provider: requests, classification, errors, meters, and the seeds it ships."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import relay_gateway_provider_gemini
from relay_gateway.plugin import (
    CONTENT,
    FAILED,
    TERMINAL,
    AdapterConfig,
    CatalogSeed,
    Classification,
    Endpoint,
    ListedModel,
    PluginConfig,
    Problem,
    Reading,
    Scope,
    Secret,
    UpstreamCall,
    UpstreamHost,
    UpstreamProvider,
    Verdict,
)
from relay_gateway.testing.conformance import (
    AnswerSample,
    CatalogSeedConformance,
    StreamSample,
    UpstreamProviderConformance,
)
from relay_gateway.testing.context import plugin_context
from relay_gateway.testing.plugin_tests import events_in
from relay_gateway_provider_gemini.dialect import GeminiDialect
from relay_gateway_provider_gemini.formats import (
    FORMATS,
    CountTokensFormat,
    EmbedFormat,
    GenerateFormat,
)
from relay_gateway_provider_gemini.meters import GenerateMeter
from relay_gateway_provider_gemini.provider import GeminiProvider
from relay_gateway_provider_gemini.seeds import SEED

ANSWERS = Path(__file__).parent / "answers"
GENERATE, _, STREAM, _ = GenerateFormat.endpoints
COUNT, _ = CountTokensFormat.endpoints
EMBED, _, EMBED_SEVERAL, _ = EmbedFormat.endpoints
TEXT = Reading(
    {"input": 9, "output": 27, "reasoning": 20, "cacheRead": 4},
    finish_reason="STOP",
    upstream_model="gemini-3.8-flash",
)
WHOLE = Reading(
    {"input": 105, "output": 23, "reasoning": 20, "cacheRead": 60, "audioInput": 20},
    finish_reason="STOP",
    upstream_model="gemini-3.8-flash",
)


def events_of(name: str) -> list[tuple[bytes, bytes]]:
    return [event for event in events_in((ANSWERS / name).read_bytes()) if event[1]]


class TestConformance(UpstreamProviderConformance):
    """The provider keeps what the base classes promise, on the recorded answers."""

    @pytest.fixture
    def provider(self, tmp_path: Path) -> UpstreamProvider:
        return GeminiProvider(PluginConfig(), plugin_context(tmp_path))

    @pytest.fixture
    def answer_samples(self) -> Sequence[AnswerSample]:
        return [
            AnswerSample("gemini.generate", (ANSWERS / "answer.json").read_bytes(), WHOLE),
            AnswerSample("gemini.count_tokens", (ANSWERS / "count.json").read_bytes(), Reading()),
            AnswerSample(
                "gemini.embed", (ANSWERS / "embedding.json").read_bytes(), Reading({"input": 3})
            ),
        ]

    @pytest.fixture
    def stream_samples(self) -> Sequence[StreamSample]:
        return [StreamSample("gemini.generate", events_of("text.sse"), TEXT)]


def call_at(
    path: str = "",
    *,
    wire_format: str = "gemini.generate",
    endpoint: Endpoint = GENERATE,
    model: str = "gemini-3.8-flash",
    streamed: bool = False,
) -> UpstreamCall:
    host = UpstreamHost("id", "slug", f"https://localhost{path}", path, AdapterConfig(), b"")
    secret = Secret("made-up-key")
    return UpstreamCall(host, wire_format, endpoint, model, secret, (), b"{}", streamed)


@pytest.fixture
def provider(tmp_path: Path) -> GeminiProvider:
    return GeminiProvider(PluginConfig(), plugin_context(tmp_path))


@pytest.mark.parametrize(
    ("call", "target"),
    [
        (call_at(), b"/v1beta/models/gemini-3.8-flash:generateContent"),
        (call_at("/v1"), b"/v1/models/gemini-3.8-flash:generateContent"),
        (call_at("/google/v1beta"), b"/google/v1beta/models/gemini-3.8-flash:generateContent"),
        (
            call_at(streamed=True),
            b"/v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse",
        ),
        (call_at(model="models/m"), b"/v1beta/models/m:generateContent"),
        (call_at(model="a?b#c d"), b"/v1beta/models/a%3Fb%23c%20d:generateContent"),
        (
            call_at(wire_format="gemini.count_tokens", endpoint=COUNT),
            b"/v1beta/models/gemini-3.8-flash:countTokens",
        ),
        (
            call_at(wire_format="gemini.embed", endpoint=EMBED),
            b"/v1beta/models/gemini-3.8-flash:embedContent",
        ),
        (
            call_at(wire_format="gemini.embed", endpoint=EMBED_SEVERAL),
            b"/v1beta/models/gemini-3.8-flash:batchEmbedContents",
        ),
    ],
)
def test_model_and_operation_are_in_the_path(
    provider: GeminiProvider, call: UpstreamCall, target: bytes
) -> None:
    request = provider.build_request(call)
    assert request.target == target
    assert request.headers == b"x-goog-api-key: made-up-key\r\n"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (b'{"content":{}, "model":"models/m"}', b'{"content":{},"model":"models/real"}'),
        (
            b'{"requests":[{"model":"models/m","content":{"a": 1}},{"content":{}}]}',
            b'{"requests":[{"model":"models/real","content":{"a": 1}},{"content":{}}]}',
        ),
        (
            b'{"generateContentRequest":{"model":"models/m","contents":[]}}',
            b'{"generateContentRequest":{"model":"models/real","contents":[]}}',
        ),
        (b'{"requests":[] , "model" : 1}', b'{"requests":[],"model":"models/real"}'),
        (b'{"contents": [{"role": "model"}]}', b'{"contents": [{"role": "model"}]}'),
        (b'{"requests": "model": 1', b'{"requests": "model": 1'),
        (b'{"requests": 7, "model": 1}', b'{"requests": 7, "model": 1}'),
    ],
)
def test_model_that_a_body_says_again_gets_the_name_of_the_host(
    given: bytes, wanted: bytes
) -> None:
    for wire_format in (EmbedFormat(), CountTokensFormat()):
        assert wire_format.renamed(given, "real") == wanted
    tuned = EmbedFormat().renamed(b'{"model":"models/m"}', "tunedModels/x")
    assert tuned == b'{"model":"tunedModels/x"}'


def refusal(**error: object) -> bytes:
    return json.dumps({"error": error}).encode()


@pytest.mark.parametrize(
    ("status", "body", "verdict"),
    [
        (400, refusal(details=[{"reason": "API_KEY_INVALID"}]), Verdict.CREDENTIAL),
        (403, refusal(details=[{"reason": "BILLING_DISABLED"}]), Verdict.CREDENTIAL),
        (400, refusal(details=[{"reason": "OTHER"}, "x"]), Verdict.DELIVER),
        (400, refusal(details="x"), Verdict.DELIVER),
        (400, b'{"error":[]}', Verdict.DELIVER),
        (429, refusal(status="RESOURCE_EXHAUSTED"), Verdict.THROTTLED),
        (503, refusal(status="UNAVAILABLE"), Verdict.FAILURE),
    ],
)
def test_refusals_are_told_apart(
    provider: GeminiProvider, status: int, body: bytes, verdict: Verdict
) -> None:
    assert provider.classify(status, {}, body) == Classification(verdict)


def test_f39_a_used_up_quota_says_of_which_model_it_is_and_for_how_long(
    provider: GeminiProvider,
) -> None:
    quota = {"quotaId": "PerMinute", "quotaDimensions": {"model": "m", "location": "global"}}
    details = [
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [quota, 1]},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.074823224s"},
    ]
    told = provider.classify(429, {}, refusal(status="RESOURCE_EXHAUSTED", details=details))
    assert told.verdict is Verdict.THROTTLED
    assert told.scope is Scope.MODEL
    assert told.retry_after == pytest.approx(34.074823224)
    del quota["quotaDimensions"]
    told = provider.classify(429, {b"retry-after": b"7"}, refusal(details=details))
    assert told == Classification(Verdict.THROTTLED, 7.0)


def test_the_meter_sees_content_the_end_and_errors() -> None:
    meter = GenerateMeter()
    flags = [meter.event(*event) for event in events_of("text.sse")]
    assert flags == [0, CONTENT, CONTENT, TERMINAL]
    broken = GenerateMeter()
    assert [broken.event(*event) for event in events_of("error.sse")] == [CONTENT, FAILED]
    blocked = GenerateMeter()
    assert [blocked.event(*event) for event in events_of("blocked.sse")] == [TERMINAL]
    assert blocked.reading.finish_reason == "PROHIBITED_CONTENT"


def test_f44_an_explicit_zero_is_kept_apart_from_missing() -> None:
    meter = GenerateMeter()
    meter.body(b'{"usageMetadata":{"promptTokenCount":0}}')
    assert meter.reading.tokens == {"input": 0}


@pytest.mark.parametrize(
    ("status", "word"), [(400, "INVALID_ARGUMENT"), (429, "RESOURCE_EXHAUSTED"), (502, "INTERNAL")]
)
def test_errors_have_the_shape_of_the_gemini_api(status: int, word: str) -> None:
    given, body = GeminiDialect().error(Problem(status, "code", "why"))
    assert given == status
    assert json.loads(body) == {"error": {"code": status, "message": "why", "status": word}}


def test_dialect_is_told_by_the_headers_of_its_clients() -> None:
    assert GeminiDialect().claims({b"x-goog-api-key"})
    assert not GeminiDialect().claims({b"authorization"})


def test_model_lists_have_the_shape_of_the_gemini_api() -> None:
    model = ListedModel("gemini-3.8-flash", "Gemini 3.8 Flash", "google", 0)
    listed = json.loads(GeminiDialect().models([model]))["models"][0]
    assert (listed["name"], listed["displayName"]) == (
        "models/gemini-3.8-flash",
        "Gemini 3.8 Flash",
    )


def test_hooks_hand_over_the_provider_and_the_seed() -> None:
    plugin = relay_gateway_provider_gemini
    assert plugin.relay_register_upstream_providers() == (GeminiProvider,)
    assert plugin.relay_register_catalog_seeds() == (SEED,)
    assert tuple(wire_format.name for wire_format in FORMATS) == GeminiProvider.wire_formats
    assert not GENERATE.streams
    assert STREAM.streams


class TestSeed(CatalogSeedConformance):
    """The seed keeps what is promised of seeds."""

    @pytest.fixture
    def seed(self) -> CatalogSeed:
        return SEED
