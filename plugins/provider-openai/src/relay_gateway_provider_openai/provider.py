"""How hosts with the OpenAI API are asked, and what their refusals mean."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import msgspec

from relay_gateway.plugin import (
    Classification,
    Scope,
    Secret,
    UpstreamCall,
    UpstreamHost,
    UpstreamProvider,
    UpstreamRequest,
    Verdict,
    encode_headers,
    reset_of,
)
from relay_gateway_provider_openai.formats import FORMATS
from relay_gateway_provider_openai.host_config import AUTHORIZATION, OpenAIHost

DEFAULT_PREFIX = "/v1"
WITHOUT_DEPLOYMENT = frozenset({"openai.responses"})
"""Formats whose path names no deployment even where others do; their body does
(Azure OpenAI, "Responses API")."""

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

NO_ACCESS = "model_not_found"
"""What a refusal with 403 says where the credential is good for other models."""
OVERLOADED_CODES = frozenset({"engine_overloaded", "engine_overloaded_error", "server_overloaded"})
"""With these a host has no room for anybody, whatever the status."""
RESETS = (
    (b"x-ratelimit-remaining-requests", b"x-ratelimit-reset-requests"),
    (b"x-ratelimit-remaining-tokens", b"x-ratelimit-reset-tokens"),
)
_OF_A_MODEL = re.compile(r"rate limit reached for \S+ (?:in|on) ", re.IGNORECASE)
"""How a limit of one model is worded; one of the account names no model."""


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
        """The base path (``/v1`` when there is none), the deployment where the host has such, and
        the operation."""
        host, path = call.host, _prefix(call.host)
        if host.config.deployments and call.wire_format not in WITHOUT_DEPLOYMENT:
            path += f"/deployments/{quote(call.upstream_model, safe='')}"
        return (path + call.endpoint.upstream_path + _query(host)).encode("ascii")

    def headers(self, call: UpstreamCall) -> bytes:
        """The caller's headers, the host's, the credential where the host wants it, and the account
        that the host names."""
        block = [b"%s: %s\r\n" % pair for pair in call.headers]
        block.append(self._own_headers(call.host, call.secret))
        return b"".join(block)

    def takes_usage_option(self, host: UpstreamHost) -> bool:
        """What the host's configuration says."""
        return bool(host.config.stream_usage)

    def probe(self, host: UpstreamHost, secret: Secret | None) -> UpstreamRequest:
        """For the list of models, on the account that the host names."""
        target = f"{_prefix(host)}/models{_query(host)}".encode("ascii")
        return UpstreamRequest(target, self._own_headers(host, secret), b"", b"GET")

    def classify(self, status: int, headers: Mapping[bytes, bytes], body: bytes) -> Classification:
        """As usual, but an exhausted or closed account is the credential's fault with any 4xx, and
        limits and rights may be those of one model."""
        usual = super().classify(status, headers, body)
        if not 400 <= status < 500:
            return usual
        names, message = _named(body)
        if status == 402 or not CREDENTIAL_CODES.isdisjoint(names):
            return Classification(Verdict.CREDENTIAL)
        if status == 403 and NO_ACCESS in names:
            return Classification(Verdict.CREDENTIAL, scope=Scope.MODEL)
        if usual.verdict is not Verdict.THROTTLED:
            return usual
        if usual.retry_after is None:
            usual = replace(usual, retry_after=reset_of(headers, RESETS))
        if not OVERLOADED_CODES.isdisjoint(names):
            return replace(usual, scope=Scope.HOST)
        return replace(usual, scope=Scope.MODEL if _OF_A_MODEL.search(message) else Scope.KEY)

    def _own_headers(self, host: UpstreamHost, secret: Secret | None) -> bytes:
        credential, name = b"", host.config.credential_header
        if secret is not None and name == AUTHORIZATION:
            credential = self.credential(secret)
        elif secret is not None:
            credential = b"%s: %s\r\n" % (name.encode(), secret.reveal().encode("ascii"))
        return host.headers + credential + _account(host)


def _prefix(host: UpstreamHost) -> str:
    return host.path or DEFAULT_PREFIX


def _query(host: UpstreamHost) -> str:
    version = host.config.api_version
    return "" if version is None else f"?api-version={version}"


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


def _named(body: bytes) -> tuple[set[str], str]:
    """What an error body has as code and type, and its message."""
    try:
        error = _REFUSAL.decode(body).error
    except (ValueError, RecursionError):
        return set(), ""
    if not isinstance(error, dict):
        return set(), ""
    named = {value for value in (error.get("code"), error.get("type")) if isinstance(value, str)}
    message = error.get("message")
    return named, message if isinstance(message, str) else ""
