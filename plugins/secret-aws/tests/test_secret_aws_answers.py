"""Answers of AWS that moto does not give: throttling, failures, expiry, complaints that quote."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from relay_gateway.errors import SecretDeniedError, SecretError, SecretUnavailableError
from relay_gateway.plugin import RowBinding
from relay_gateway.testing.conformance.silence import assert_silent, wording
from relay_gateway.testing.script import Script, json_response, response
from relay_gateway.testing.upstream import ScriptedUpstream
from relay_gateway_secret_aws import AwsRef

BINDING = RowBinding("host key", "0190a0b0-0000-7000-8000-000000000001", "valueFrom", 1)
REF = AwsRef(secret_id="acme")
TOKEN = "session-token-canary-0192837465"


def error(status: int, code: str, message: str = "no") -> Script:
    return json_response(status, {"__type": code, "message": message})


def value(text: str) -> Script:
    answer = {"ARN": "a", "Name": "acme", "VersionId": "v" * 32, "SecretString": text}
    return json_response(200, answer)


@pytest.fixture
async def service() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as upstream:
        yield upstream


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (400, "ThrottlingException", SecretUnavailableError),
        (429, "TooManyRequestsException", SecretUnavailableError),
        (500, "InternalServiceError", SecretUnavailableError),
        (503, "ServiceUnavailable", SecretUnavailableError),
        (400, "DecryptionFailure", SecretDeniedError),
        (400, "AccessDeniedException", SecretDeniedError),
        (400, "InvalidParameterException", SecretDeniedError),
    ],
)
async def test_each_answer_has_its_meaning(
    make: Any, service: ScriptedUpstream, status: int, code: str, expected: type[SecretError]
) -> None:
    service.answer = lambda _: error(status, code)
    with pytest.raises(expected, match=code) as caught:
        await make(endpoint_url=service.url).resolve(REF, BINDING)
    assert type(caught.value) is expected


async def test_a_passing_failure_is_tried_once_more(make: Any, service: ScriptedUpstream) -> None:
    service.enqueue(error(500, "InternalServiceError"))
    service.enqueue(value("after-the-failure"))
    resolved = await make(endpoint_url=service.url).resolve(REF, BINDING)
    assert resolved.value.matches("after-the-failure")


async def test_expired_credentials_are_looked_for_anew_once(
    make: Any, service: ScriptedUpstream
) -> None:
    service.enqueue(error(400, "ExpiredTokenException"))
    service.enqueue(value("with-new-credentials"))
    backend = make(endpoint_url=service.url)
    assert (await backend.resolve(REF, BINDING)).value.matches("with-new-credentials")
    service.answer = lambda _: error(400, "ExpiredTokenException")
    with pytest.raises(SecretDeniedError, match="expired or unknown"):
        await backend.resolve(REF, BINDING)
    assert len(service.ledger) == 4


async def test_t11_a_complaint_that_quotes_the_signed_request_is_not_passed_on(
    aws: Any, make: Any, service: ScriptedUpstream, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    complaint = f"The canonical string should have been x-amz-security-token:{TOKEN}"
    service.answer = lambda _: error(403, "SignatureDoesNotMatch", complaint)
    environ = {**aws.identities["reader"], "AWS_SESSION_TOKEN": TOKEN}
    with pytest.raises(SecretDeniedError, match="SignatureDoesNotMatch") as caught:
        await make(environ=environ, endpoint_url=service.url).resolve(REF, BINDING)
    assert_silent(TOKEN, {"error": wording(caught.value), "log": caplog.text})


async def test_a_page_of_somebody_else_is_no_answer(make: Any, service: ScriptedUpstream) -> None:
    service.answer = lambda _: response(200, b"<html>a proxy's page</html>")
    with pytest.raises(SecretUnavailableError, match="was not Secrets Manager"):
        await make(endpoint_url=service.url).resolve(REF, BINDING)


async def test_the_proxy_that_is_configured_is_used_and_no_other(
    make: Any, service: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    service.answer = lambda _: value("the-answer-of-the-proxy")
    backend = make(endpoint_url="http://127.0.0.1:1", proxy_url=service.url)
    assert (await backend.resolve(REF, BINDING)).value.matches("the-answer-of-the-proxy")
    direct = make(endpoint_url=service.url)
    assert (await direct.resolve(REF, BINDING)).value.matches("the-answer-of-the-proxy")
