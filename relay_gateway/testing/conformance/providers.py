"""What providers promise: sane verdicts and, where they ask over a network, safe requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from relay_gateway.plugin import (
    Classification,
    Endpoint,
    Secret,
    UpstreamCall,
    UpstreamHost,
    UpstreamProvider,
    Verdict,
    WireFormat,
)
from relay_gateway.testing.conformance.silence import assert_silent, wording
from relay_gateway.testing.conformance.wire_formats import NONSENSE, WireFormatConformance

CREDENTIAL = "cred-Zq7Xw2Rk9Tn4Vb6M"
BODY = b'{"model":"acme","messages":[{"role":"user","content":"h\\u00e9"}]}'
FORBIDDEN = frozenset(
    {
        b"connection",
        b"content-length",
        b"expect",
        b"host",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""What the gateway writes itself, or what belongs to one connection only (RFC 9110 §7.6.1)."""
NEVER_FROM_CALLERS = FORBIDDEN | {b"authorization", b"x-api-key", b"x-goog-api-key", b"cookie"}
NEVER_TO_CALLERS = FORBIDDEN | {b"set-cookie", b"www-authenticate"}
TOKEN = frozenset(b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


class ProviderConformance(WireFormatConformance):
    """What every provider promises; to be subclassed by way of one of the two suites that say where
    answers come from: :class:`UpstreamProviderConformance`, :class:`LocalProviderConformance`."""

    @pytest.fixture
    def provider(self) -> UpstreamProvider:
        """The provider, made but not opened."""
        raise NotImplementedError

    @pytest.fixture
    def host(self, provider: UpstreamProvider) -> UpstreamHost:
        """A host with the defaults of its configuration model."""
        return UpstreamHost("h1", "acme", "http://acme.test/v1", "/v1", provider.HostConfig())

    @pytest.fixture
    def formats(self, provider: UpstreamProvider) -> Mapping[str, WireFormat]:
        """Wire formats by name; override to add those that other distributions define."""
        return {wire_format.name: wire_format() for wire_format in provider.defines}

    async def test_it_bears_being_closed_unopened_and_twice(
        self, provider: UpstreamProvider
    ) -> None:
        await provider.aclose()
        await provider.aopen()
        await provider.aclose()
        await provider.aclose()

    def test_it_says_what_it_speaks(
        self, provider: UpstreamProvider, formats: Mapping[str, WireFormat]
    ) -> None:
        assert provider.wire_formats, "a provider speaks at least one wire format"
        assert len(set(provider.wire_formats)) == len(provider.wire_formats)
        tested = [name for name in provider.wire_formats if name in formats]
        assert any(formats[name].endpoints for name in tested), (
            "none of its wire formats has an endpoint: override `formats`"
        )

    def test_header_lists_hold_no_credentials_and_nothing_of_one_connection(
        self, provider: UpstreamProvider
    ) -> None:
        listed = provider.request_headers | provider.response_headers
        assert all(name == name.lower() for name in listed), "names in these lists are lower case"
        leaking = provider.request_headers & NEVER_FROM_CALLERS
        assert not leaking, f"a caller's {sorted(leaking)} would reach the upstream"
        leaking = provider.response_headers & NEVER_TO_CALLERS
        assert not leaking, f"an upstream's {sorted(leaking)} would reach the caller"

    @pytest.mark.parametrize("body", NONSENSE, ids=range(len(NONSENSE)))
    def test_every_status_gets_a_verdict_whatever_the_body(
        self, provider: UpstreamProvider, body: bytes
    ) -> None:
        for status in range(300, 600):
            verdict = provider.classify(status, {}, body)
            assert isinstance(verdict, Classification)

    @pytest.mark.parametrize(
        ("status", "verdict"),
        [
            (400, Verdict.DELIVER),
            (404, Verdict.DELIVER),
            (422, Verdict.DELIVER),
            (401, Verdict.CREDENTIAL),
            (403, Verdict.CREDENTIAL),
            (429, Verdict.THROTTLED),
            (408, Verdict.FAILURE),
            (500, Verdict.FAILURE),
            (502, Verdict.FAILURE),
            (503, Verdict.FAILURE),
            (504, Verdict.FAILURE),
        ],
    )
    def test_a_status_without_a_body_has_its_usual_meaning(
        self, provider: UpstreamProvider, status: int, verdict: Verdict
    ) -> None:
        assert provider.classify(status, {}, b"").verdict is verdict

    @pytest.mark.parametrize("value", [b"", b"soon", b"-3", b"\xff", b"1e999", b"nan"])
    def test_a_strange_retry_after_is_no_number_to_wait(
        self, provider: UpstreamProvider, value: bytes
    ) -> None:
        wait = provider.classify(429, {b"retry-after": value}, b"").retry_after
        assert wait is None or 0 <= wait < float("inf"), f"a key would be benched for {wait} s"

    def test_retry_after_is_honoured(self, provider: UpstreamProvider) -> None:
        assert provider.classify(429, {b"retry-after": b"7"}, b"").retry_after == 7

    def test_an_error_that_quotes_the_credential_is_taken_in_silence(
        self, provider: UpstreamProvider, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("DEBUG")
        body = b'{"error":{"message":"%s","code":"x"}}' % CREDENTIAL.encode()
        shown = [
            repr(provider.classify(status, {b"x-key": CREDENTIAL.encode()}, body))
            for status in range(300, 600)
        ]
        assert_silent(CREDENTIAL, {"log": caplog.text, "classification": "".join(shown)})


class UpstreamProviderConformance(ProviderConformance):
    """Subclass and provide ``provider``, ``answer_samples`` and ``stream_samples``."""

    @pytest.fixture
    def calls(
        self, provider: UpstreamProvider, host: UpstreamHost, formats: Mapping[str, WireFormat]
    ) -> list[UpstreamCall]:
        """One call for each endpoint, streamed and not, as the gateway would make it."""
        headers = [(name, b"caller") for name in sorted(provider.request_headers)]
        return [
            call_of(host, name, endpoint, BODY, headers, streamed=streamed)
            for name in provider.wire_formats
            if name in formats
            for endpoint in formats[name].endpoints
            for streamed in {False, endpoint.streams}
        ]

    def test_it_asks_over_a_network(self, provider: UpstreamProvider) -> None:
        assert not provider.local, (
            "a local provider builds no requests: subclass LocalProviderConformance"
        )

    def test_a_request_is_well_formed(
        self, provider: UpstreamProvider, calls: Sequence[UpstreamCall]
    ) -> None:
        for call in calls:
            request = provider.build_request(call)
            assert request.target.startswith(b"/"), f"{request.target!r} is no absolute path"
            assert all(0x21 <= byte <= 0x7E for byte in request.target), (
                f"{request.target!r} has bytes that a request line cannot carry"
            )
            names = [name.lower() for name, _ in _header_lines(request.headers)]
            taken = FORBIDDEN & set(names)
            assert not taken, f"{sorted(taken)} are the gateway's to send"

    def test_the_credential_travels_in_one_header_only(
        self, provider: UpstreamProvider, calls: Sequence[UpstreamCall]
    ) -> None:
        for call in calls:
            call.secret = Secret(CREDENTIAL)
            request = provider.build_request(call)
            assert CREDENTIAL.encode() not in request.target, "URLs end up in logs everywhere"
            assert CREDENTIAL.encode() not in request.body
            carriers = [
                name
                for name, value in _header_lines(request.headers)
                if CREDENTIAL.encode() in value
            ]
            assert len(carriers) == 1, f"the credential is in {carriers}, it belongs in one header"

    def test_without_a_credential_none_is_sent(
        self, provider: UpstreamProvider, calls: Sequence[UpstreamCall]
    ) -> None:
        carrier = _header_lines(provider.credential(Secret(CREDENTIAL)))[0][0].lower()
        for call in calls:
            call.secret = None
            names = [
                name.lower() for name, _ in _header_lines(provider.build_request(call).headers)
            ]
            assert carrier not in names, "a host with noAuth must not get an empty credential"

    def test_the_callers_body_and_headers_arrive_unchanged(
        self, provider: UpstreamProvider, calls: Sequence[UpstreamCall]
    ) -> None:
        for call in calls:
            request = provider.build_request(call)
            assert request.body == BODY, "same wire format in and out means the same bytes"
            lines = _header_lines(request.headers)
            assert [line for line in lines if line[1] == b"caller"] == list(call.headers)

    def test_building_a_request_leaves_no_trace(
        self, provider: UpstreamProvider, calls: Sequence[UpstreamCall]
    ) -> None:
        for call in calls:
            call.secret = Secret(CREDENTIAL)
            first = provider.build_request(call)
            call.secret = Secret("another-credential-entirely")
            other = provider.build_request(call)
            call.secret = Secret(CREDENTIAL)
            assert provider.build_request(call) == first, "equal calls give equal requests"
            assert CREDENTIAL.encode() not in other.headers, "a credential is kept between calls"

    def test_a_probe_is_a_request_that_changes_nothing(
        self, provider: UpstreamProvider, host: UpstreamHost
    ) -> None:
        request = provider.probe(host, Secret(CREDENTIAL))
        assert request.method in (b"GET", b"HEAD"), "a probe costs nothing and changes nothing"
        assert request.body == b""
        assert request.target.startswith(b"/")
        assert all(33 <= byte <= 126 for byte in request.target)
        names = [name.lower() for name, _ in _header_lines(request.headers)]
        assert not FORBIDDEN & set(names)

    def test_a_probe_carries_the_credential_as_requests_do(
        self, provider: UpstreamProvider, host: UpstreamHost
    ) -> None:
        (carrier, value), *_ = _header_lines(provider.credential(Secret(CREDENTIAL)))
        request = provider.probe(host, Secret(CREDENTIAL))
        lines = _header_lines(request.headers)
        assert (carrier, value) in lines, "a probe that sends no credential tests none"
        assert [name for name, sent in lines if CREDENTIAL.encode() in sent] == [carrier]
        assert CREDENTIAL.encode() not in request.target, "URLs end up in logs everywhere"
        without = provider.probe(host, None)
        assert without.target == request.target
        names = {name.lower() for name, _ in _header_lines(without.headers)}
        assert carrier.lower() not in names, "a host with noAuth must not get an empty credential"

    @pytest.mark.parametrize("body", [BODY, *NONSENSE], ids=range(len(NONSENSE) + 1))
    def test_the_credential_is_never_shown(
        self,
        provider: UpstreamProvider,
        calls: Sequence[UpstreamCall],
        body: bytes,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        caplog.set_level("DEBUG")
        for call in calls:
            call.body, call.secret = body, Secret(CREDENTIAL)
            try:
                shown = repr(provider.build_request(call))
            except Exception as error:  # noqa: BLE001 - a provider may refuse what it cannot read
                shown = wording(error)
            texts = {"request or error": shown, "host": repr(call.host), "log": caplog.text}
            assert_silent(CREDENTIAL, texts | {"provider": f"{provider!r} {provider.config!r}"})


def call_of(
    host: UpstreamHost,
    wire_format: str,
    endpoint: Endpoint,
    body: bytes,
    headers: Sequence[tuple[bytes, bytes]] = (),
    *,
    streamed: bool,
) -> UpstreamCall:
    """A call as the gateway would make it, with a credential that is to be kept secret."""
    return UpstreamCall(
        host=host,
        wire_format=wire_format,
        endpoint=endpoint,
        upstream_model="acme",
        secret=Secret(CREDENTIAL),
        headers=headers,
        body=body,
        streamed=streamed,
    )


def _header_lines(block: bytes) -> list[tuple[bytes, bytes]]:
    assert block == b"" or block.endswith(b"\r\n"), "the header block ends with CRLF"
    pairs = []
    for line in block.split(b"\r\n")[:-1]:
        name, colon, value = line.partition(b":")
        assert colon, "a header line without a colon, or an empty line"
        assert name, "a header without a name"
        assert TOKEN.issuperset(name), f"{name!r} is not a header name"
        assert not set(value) & set(b"\r\n\x00"), f"the value of {name!r} breaks its line"
        pairs.append((name, value.strip()))
    return pairs
