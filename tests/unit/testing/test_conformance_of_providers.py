"""The suite for providers passes a sound provider and names what is wrong with a broken one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from relay_gateway.plugin import (
    CONTENT,
    TERMINAL,
    USAGE_ONLY,
    AdapterConfig,
    Classification,
    Endpoint,
    PluginConfig,
    Reading,
    Secret,
    UpstreamCall,
    UpstreamHost,
    UpstreamProvider,
    UpstreamRequest,
    UsageMeter,
    Verdict,
    WireFormat,
    count,
)
from relay_gateway.testing.conformance import (
    AnswerSample,
    LocalProviderConformance,
    StreamSample,
    UpstreamProviderConformance,
)
from relay_gateway.testing.conformance.providers import BODY, CREDENTIAL
from relay_gateway.testing.context import plugin_context


class AcmeMeter(UsageMeter):
    """Reads ``{"in": …, "out": …, "stop": …}``."""

    def body(self, body: bytes) -> None:
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            return
        if isinstance(answer, dict):
            self.read(answer)

    def event(self, name: bytes, data: bytes) -> int:
        if name == b"usage":
            self.body(data)
            return USAGE_ONLY
        if name == b"stop":
            return TERMINAL
        return CONTENT if name == b"text" else 0

    def read(self, answer: Mapping[str, object]) -> None:
        for meter, member in (("input", "in"), ("output", "out")):
            figure = count(answer.get(member))
            if figure is not None:
                self.reading.tokens[meter] = figure


class AcmeFormat(WireFormat):
    name = "acme.chat"
    endpoints = (Endpoint("chat", "/v1/acme", "/acme"),)

    def meter(self) -> UsageMeter:
        return AcmeMeter()


class Acme(UpstreamProvider[PluginConfig]):
    name = "acme"
    wire_formats = ("acme.chat",)
    defines = (AcmeFormat,)
    request_headers = frozenset({b"acme-version"})


ANSWERS = (AnswerSample("acme.chat", b'{"in":3,"out":2}', Reading({"input": 3, "output": 2})),)
STREAMS = (
    StreamSample(
        "acme.chat",
        [(b"text", b'{"t":"a"}'), (b"usage", b'{"in":3,"out":2}'), (b"stop", b"{}")],
        Reading({"input": 3, "output": 2}),
        usage_only=[1],
    ),
)


class TestAcme(UpstreamProviderConformance):
    @pytest.fixture
    def provider(self, tmp_path: Path) -> UpstreamProvider:
        return Acme(PluginConfig(), plugin_context(tmp_path))

    @pytest.fixture
    def answer_samples(self) -> Sequence[AnswerSample]:
        return ANSWERS

    @pytest.fixture
    def stream_samples(self) -> Sequence[StreamSample]:
        return STREAMS


class KeyInUrl(Acme):
    def target(self, call: UpstreamCall) -> bytes:
        key = call.secret.reveal() if call.secret is not None else ""
        return super().target(call) + f"?key={key}".encode()


class KeyTwice(Acme):
    def credential(self, secret: Secret) -> bytes:
        return super().credential(secret) + b"x-acme-key: %s\r\n" % secret.reveal().encode()


class KeyKept(Acme):
    def headers(self, call: UpstreamCall) -> bytes:
        block: bytes = call.host.memo.setdefault("block", super().headers(call))
        return block


class Overreaching(Acme):
    def headers(self, call: UpstreamCall) -> bytes:
        return super().headers(call) + b"host: acme.test\r\n"


class Injecting(Acme):
    def headers(self, call: UpstreamCall) -> bytes:
        return super().headers(call) + b"a: b\r\n\r\n"


class Rewriting(Acme):
    def build_request(self, call: UpstreamCall) -> UpstreamRequest:
        request = super().build_request(call)
        return UpstreamRequest(request.target, request.headers, request.body.replace(b":", b": "))


class Relative(Acme):
    def target(self, call: UpstreamCall) -> bytes:
        return b"acme chat"


class Leaking(Acme):
    request_headers = frozenset({b"cookie"})


class Optimistic(Acme):
    def classify(self, status: int, headers: Mapping[bytes, bytes], body: bytes) -> Classification:
        return Classification(Verdict.DELIVER)


class BodyBound(Acme):
    def classify(self, status: int, headers: Mapping[bytes, bytes], body: bytes) -> Classification:
        json.loads(body)
        return super().classify(status, headers, body)


SUITE = UpstreamProviderConformance()
Calls = Callable[[UpstreamProvider, Sequence[UpstreamCall]], None]


def calls() -> list[UpstreamCall]:
    host = UpstreamHost("h1", "acme", "http://acme.test", "", AdapterConfig())
    endpoint = AcmeFormat.endpoints[0]
    secret = Secret(CREDENTIAL)
    return [UpstreamCall(host, "acme.chat", endpoint, "acme", secret, [], BODY, streamed=False)]


@pytest.mark.parametrize(
    ("broken", "check", "complaint"),
    [
        (KeyInUrl, SUITE.test_the_credential_travels_in_one_header_only, "URLs end up in logs"),
        (KeyTwice, SUITE.test_the_credential_travels_in_one_header_only, "in one header"),
        (KeyKept, SUITE.test_building_a_request_leaves_no_trace, "kept between calls"),
        (Overreaching, SUITE.test_a_request_is_well_formed, "the gateway's to send"),
        (Injecting, SUITE.test_a_request_is_well_formed, "without a colon"),
        (Relative, SUITE.test_a_request_is_well_formed, "no absolute path"),
        (Rewriting, SUITE.test_the_callers_body_and_headers_arrive_unchanged, "same bytes"),
    ],
)
def test_a_provider_that_builds_bad_requests_is_told(
    broken: type[Acme], check: Calls, complaint: str, tmp_path: Path
) -> None:
    provider = broken(PluginConfig(), plugin_context(tmp_path))
    with pytest.raises(AssertionError, match=complaint):
        check(provider, calls())


def test_a_provider_that_sends_a_credential_to_hosts_without_one_is_told(tmp_path: Path) -> None:
    provider = KeyKept(PluginConfig(), plugin_context(tmp_path))
    built = calls()
    provider.build_request(built[0])
    with pytest.raises(AssertionError, match="empty credential"):
        SUITE.test_without_a_credential_none_is_sent(provider, built)


def test_a_provider_that_lets_cookies_through_is_told(tmp_path: Path) -> None:
    provider = Leaking(PluginConfig(), plugin_context(tmp_path))
    with pytest.raises(AssertionError, match=r"cookie.* would reach the upstream"):
        SUITE.test_header_lists_hold_no_credentials_and_nothing_of_one_connection(provider)


def test_a_provider_with_wrong_verdicts_is_told(tmp_path: Path) -> None:
    context = plugin_context(tmp_path)
    with pytest.raises(AssertionError):
        SUITE.test_a_status_without_a_body_has_its_usual_meaning(
            Optimistic(PluginConfig(), context), 401, Verdict.CREDENTIAL
        )
    with pytest.raises(ValueError, match="Expecting value"):
        SUITE.test_every_status_gets_a_verdict_whatever_the_body(
            BodyBound(PluginConfig(), context), b"<html>"
        )


class Talkative(Acme):
    def headers(self, call: UpstreamCall) -> bytes:
        block = super().headers(call)
        self.context.logger.debug("asking with %r", block)
        return block


class Quoting(Acme):
    def build_request(self, call: UpstreamCall) -> UpstreamRequest:
        request = super().build_request(call)
        try:
            json.loads(call.body)
        except ValueError as error:
            raise ValueError("cannot be sent", request.headers) from error
        return request


class Noting(Acme):
    def classify(self, status: int, headers: Mapping[bytes, bytes], body: bytes) -> Classification:
        self.context.logger.debug("refused: %s", body)
        return super().classify(status, headers, body)


@pytest.mark.parametrize(
    ("broken", "body", "place"), [(Talkative, BODY, "log"), (Quoting, b"{", "request or error")]
)
def test_a_provider_that_shows_the_credential_is_told(
    broken: type[Acme], body: bytes, place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    provider = broken(PluginConfig(), plugin_context(tmp_path))
    with pytest.raises(AssertionError, match=f"can be read in: {place}") as caught:
        SUITE.test_the_credential_is_never_shown(provider, calls(), body, caplog)
    assert CREDENTIAL not in str(caught.value)


def test_a_provider_that_logs_what_a_host_says_of_the_credential_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    provider = Noting(PluginConfig(), plugin_context(tmp_path))
    with pytest.raises(AssertionError, match="can be read in: log"):
        SUITE.test_an_error_that_quotes_the_credential_is_taken_in_silence(provider, caplog)


class Costly(Acme):
    def probe(self, host: UpstreamHost, secret: Secret | None) -> UpstreamRequest:
        request = super().probe(host, secret)
        return UpstreamRequest(request.target, request.headers, b"{}", b"POST")


class Anonymous(Acme):
    def probe(self, host: UpstreamHost, secret: Secret | None) -> UpstreamRequest:
        return super().probe(host, None)


class InTheUrl(Acme):
    def probe(self, host: UpstreamHost, secret: Secret | None) -> UpstreamRequest:
        request = super().probe(host, secret)
        key = secret.reveal() if secret is not None else ""
        return UpstreamRequest(
            b"/models?key=%s" % key.encode(), request.headers, b"", request.method
        )


class Empty(Acme):
    def probe(self, host: UpstreamHost, secret: Secret | None) -> UpstreamRequest:
        return super().probe(host, secret if secret is not None else Secret(""))


def test_a_provider_whose_probe_is_none_is_told(tmp_path: Path) -> None:
    context, host = plugin_context(tmp_path), calls()[0].host
    with pytest.raises(AssertionError, match="costs nothing and changes nothing"):
        SUITE.test_a_probe_is_a_request_that_changes_nothing(Costly(PluginConfig(), context), host)
    for broken, complaint in (
        (Anonymous, "tests none"),
        (InTheUrl, "URLs end up in logs"),
        (Empty, "empty credential"),
    ):
        with pytest.raises(AssertionError, match=complaint):
            SUITE.test_a_probe_carries_the_credential_as_requests_do(
                broken(PluginConfig(), context), host
            )


def test_a_provider_is_told_which_suite_is_for_it(tmp_path: Path) -> None:
    class Inside(Acme):
        local = True

    context = plugin_context(tmp_path)
    with pytest.raises(AssertionError, match="subclass LocalProviderConformance"):
        SUITE.test_it_asks_over_a_network(Inside(PluginConfig(), context))
    with pytest.raises(AssertionError, match="subclass UpstreamProviderConformance"):
        LocalProviderConformance().test_it_answers_by_itself(Acme(PluginConfig(), context))


class Gullible(AcmeMeter):
    def read(self, answer: Mapping[str, object]) -> None:
        self.reading.tokens["input"] = answer.get("in", 0)  # type: ignore[assignment]


class Fragile(AcmeMeter):
    def event(self, name: bytes, data: bytes) -> int:
        json.loads(data)
        return super().event(name, data)


class Blind(AcmeMeter):
    def event(self, name: bytes, data: bytes) -> int:
        return super().event(name, data) & ~TERMINAL


class Withholding(AcmeMeter):
    def event(self, name: bytes, data: bytes) -> int:
        return super().event(name, data) | USAGE_ONLY


def formats(meter: type[UsageMeter]) -> dict[str, WireFormat]:
    class Metered(AcmeFormat):
        def meter(self) -> UsageMeter:
            return meter()

    return {"acme.chat": Metered()}


def test_a_meter_that_believes_anything_is_told() -> None:
    with pytest.raises(AssertionError, match="input is -1: out of range"):
        SUITE.test_figures_that_are_none_are_ignored(formats(Gullible), ANSWERS, STREAMS, -1)
    with pytest.raises(AssertionError, match="not an integer"):
        SUITE.test_figures_that_are_none_are_ignored(formats(Gullible), ANSWERS, STREAMS, "7")


def test_a_meter_that_nonsense_upsets_is_told() -> None:
    with pytest.raises(ValueError, match="Expecting value"):
        SUITE.test_nonsense_between_events_changes_nothing_and_never_raises(
            formats(Fragile), STREAMS
        )


def test_a_meter_that_misses_the_end_or_withholds_content_is_told() -> None:
    with pytest.raises(AssertionError, match="count as broken off"):
        SUITE.test_a_stream_is_read_and_its_end_is_seen(formats(Blind), STREAMS)
    with pytest.raises(AssertionError, match="may be withheld"):
        SUITE.test_a_stream_is_read_and_its_end_is_seen(formats(Withholding), STREAMS)


def test_a_format_without_samples_is_told() -> None:
    with pytest.raises(AssertionError, match=r"no stream of acme\.chat is tested"):
        SUITE.test_each_format_has_samples(formats(AcmeMeter), ANSWERS, [])
    with pytest.raises(AssertionError, match=r"no whole answer of acme\.chat is tested"):
        SUITE.test_each_format_has_samples(formats(AcmeMeter), [], STREAMS)
