"""How hosts with the Gemini API are asked, and what their refusals mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import msgspec

from relay_gateway.plugin import (
    Classification,
    Scope,
    Secret,
    UpstreamCall,
    UpstreamProvider,
    Verdict,
    span,
)
from relay_gateway_provider_gemini.formats import FORMATS, GenerateFormat

VERSION = "/v1beta"
"""The version of the API that is asked; a base URL may end in it, or in another one."""

_CREDENTIAL_REASONS = frozenset({"API_KEY_INVALID", "API_KEY_EXPIRED", "BILLING_DISABLED"})
"""Values of ``error.details[].reason`` that stay as long as the credential is the same; an invalid
key is answered with 400."""


class _Refusal(msgspec.Struct):
    error: Any = None


_REFUSAL = msgspec.json.Decoder(_Refusal)


class GeminiProvider(UpstreamProvider):
    """Speaks to any host with the Gemini API.

    The model and the operation are in the path; streams are asked for as server-sent events.
    """

    name = "gemini"
    defines = FORMATS
    wire_formats = tuple(wire_format.name for wire_format in FORMATS)
    request_headers = frozenset({b"x-goog-api-client"})
    response_headers = frozenset()

    def target(self, call: UpstreamCall) -> bytes:
        """The base path, the version unless it names one, the model and the operation."""
        prefix = call.host.path
        if not prefix.rpartition("/")[2].startswith("v1"):
            prefix += VERSION
        model = quote(call.upstream_model.removeprefix("models/"), safe="/.-_~@")
        return f"{prefix}/models/{model}:{_operation(call)}".encode("ascii")

    def credential(self, secret: Secret) -> bytes:
        """The ``x-goog-api-key`` line."""
        return b"x-goog-api-key: %s\r\n" % secret.reveal().encode("ascii")

    def classify(self, status: int, headers: Mapping[bytes, bytes], body: bytes) -> Classification:
        """As usual, but a bad key is told with 400, and how long to wait, and for which model, in
        the body."""
        usual = super().classify(status, headers, body)
        if not 400 <= status < 500:
            return usual
        details = _details(body)
        if status == 402 or any(one.get("reason") in _CREDENTIAL_REASONS for one in details):
            return Classification(Verdict.CREDENTIAL)
        if usual.verdict is not Verdict.THROTTLED:
            return usual
        if usual.retry_after is None:
            usual = replace(usual, retry_after=_delay(details))
        return replace(usual, scope=Scope.MODEL if _is_of_a_model(details) else Scope.KEY)


def _operation(call: UpstreamCall) -> str:
    if call.wire_format != GenerateFormat.name:
        return call.endpoint.name
    return "streamGenerateContent?alt=sse" if call.streamed else "generateContent"


def _details(body: bytes) -> list[dict[str, Any]]:
    """The objects in ``error.details`` (google.rpc.Status)."""
    try:
        error = _REFUSAL.decode(body).error
    except (ValueError, RecursionError):
        return []
    details = error.get("details") if isinstance(error, dict) else None
    return [one for one in details if isinstance(one, dict)] if isinstance(details, list) else []


def _delay(details: Sequence[Mapping[str, Any]]) -> float | None:
    """Seconds from a ``google.rpc.RetryInfo``."""
    for detail in details:
        delay = detail.get("retryDelay")
        if isinstance(delay, str):
            return span(delay.encode())
    return None


def _is_of_a_model(details: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a ``google.rpc.QuotaFailure`` names the model whose quota is used up."""
    for detail in details:
        violations = detail.get("violations")
        for one in violations if isinstance(violations, list) else ():
            dimensions = one.get("quotaDimensions") if isinstance(one, dict) else None
            if isinstance(dimensions, dict) and "model" in dimensions:
                return True
    return False
