"""How hosts with the OpenAI API are asked, and what their refusals mean."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from pydantic import Field

from relay_gateway.plugin import (
    AdapterConfig,
    Classification,
    UpstreamCall,
    UpstreamHost,
    UpstreamProvider,
    Verdict,
    encode_headers,
)
from relay_gateway_provider_openai.formats import FORMATS

DEFAULT_PREFIX = "/v1"
AccountId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$", max_length=128)]

CREDENTIAL_CODES = frozenset(
    {
        "account_deactivated",
        "billing_hard_limit_reached",
        "billing_not_active",
        "credit_balance_exhausted",
        "insufficient_quota",
        "invalid_api_key",
        "organization_spend_limit_exceeded",
        "organization_usage_limit_exceeded",
        "project_spend_limit_exceeded",
    }
)
"""Values of ``error.code`` or ``error.type`` that stay as long as the credential is the same:
waiting does not help, another key may (OpenAI's guide to error codes)."""


class OpenAIHost(AdapterConfig):
    """``adapterConfig`` of a host. Both members name whose account is billed where a credential
    belongs to several; they are sent as ``OpenAI-Organization`` and ``OpenAI-Project``."""

    organization: AccountId | None = None
    project: AccountId | None = None


class _Refusal(msgspec.Struct):
    """An error body; ``error`` is an object by the rules and a string with some hosts."""

    error: Any = None


_REFUSAL = msgspec.json.Decoder(_Refusal)


class OpenAIProvider(UpstreamProvider):
    """Speaks to any host with the OpenAI API.

    Paths follow the official SDKs: what follows the host's base URL is the operation alone
    (``https://host/openai/v1`` + ``/chat/completions``). A base URL without any path gets ``/v1``.
    """

    name = "openai"
    HostConfig = OpenAIHost
    defines = FORMATS
    wire_formats = tuple(wire_format.name for wire_format in FORMATS)
    # Not openai-organization and openai-project: which account pays is the host's to say.
    request_headers = frozenset(
        {b"idempotency-key", b"openai-beta", b"x-client-request-id"},
    )
    # Not x-ratelimit-*: those are the limits of a shared credential, the gateway sends its own.
    response_headers = frozenset({b"openai-processing-ms", b"openai-version", b"x-request-id"})

    def target(self, call: UpstreamCall) -> bytes:
        """The base path (``/v1`` when there is none) and the operation."""
        prefix = call.host.path or DEFAULT_PREFIX
        return (prefix + call.endpoint.upstream_path).encode("ascii")

    def headers(self, call: UpstreamCall) -> bytes:
        """The usual block, and the account that the host names."""
        return super().headers(call) + _account(call.host)

    def classify(self, status: int, headers: Mapping[bytes, bytes], body: bytes) -> Classification:
        """As usual, but an exhausted or closed account is the credential's fault with any 4xx."""
        if status == 402 or (400 <= status < 500 and _names_credential(body)):
            return Classification(Verdict.CREDENTIAL)
        usual = super().classify(status, headers, body)
        wait = _milliseconds(headers.get(b"retry-after-ms"))
        if wait is None or usual.verdict not in (Verdict.THROTTLED, Verdict.FAILURE):
            return usual
        return Classification(usual.verdict, wait)


def _account(host: UpstreamHost) -> bytes:
    lines = host.memo.get(_account)
    if lines is None:
        named = {
            "openai-organization": host.config.organization,
            "openai-project": host.config.project,
        }
        lines = encode_headers({name: value for name, value in named.items() if value is not None})
        host.memo[_account] = lines
    return bytes(lines)


def _names_credential(body: bytes) -> bool:
    try:
        error = _REFUSAL.decode(body).error
    except (ValueError, RecursionError):
        return False
    if not isinstance(error, dict):
        return False
    named = (error.get("code"), error.get("type"))
    return any(isinstance(value, str) and value in CREDENTIAL_CODES for value in named)


def _milliseconds(value: bytes | None) -> float | None:
    """Seconds from the ``retry-after-ms`` header that OpenAI sends beside ``retry-after``."""
    if value is None:
        return None
    try:
        seconds = float(value) / 1000
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
