"""How hosts with the Anthropic API are asked, and what their refusals mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

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
    reset_of,
)
from relay_gateway_provider_anthropic.formats import FORMATS

VERSION_HEADER = b"anthropic-version"
DEFAULT_VERSION = b"2023-06-01"
"""Sent where the caller names no version; the only one that current hosts know."""

CREDENTIAL_CODES = frozenset(
    {
        "contract_spend_limit_reached",
        "enforced_spend_limit_reached",
        "linked_organization_billing_unavailable",
        "linked_organization_spend_limit_reached",
        "organization_on_hold",
    }
)
"""Values of ``error.details.error_code`` that stay as long as the credential is the same."""

CREDENTIAL_PHRASES = (
    "credit balance is too low",
    "specified api usage limits",
    "organization has been disabled",
)
"""What the messages of such refusals say that come as a plain ``invalid_request_error``."""


RESETS = tuple(
    (b"anthropic-ratelimit-%b-remaining" % one, b"anthropic-ratelimit-%b-reset" % one)
    for one in (b"requests", b"tokens", b"input-tokens", b"output-tokens")
)


class _Refusal(msgspec.Struct):
    error: Any = None


_REFUSAL = msgspec.json.Decoder(_Refusal)


class AnthropicProvider(UpstreamProvider):
    """Speaks to any host with the Anthropic Messages API.

    As with the official SDKs, ``/v1`` belongs to the operation: a base URL may end in it or not.
    """

    name = "anthropic"
    defines = FORMATS
    wire_formats = tuple(wire_format.name for wire_format in FORMATS)
    request_headers = frozenset({VERSION_HEADER, b"anthropic-beta"})
    # Not anthropic-ratelimit-*: those are the limits of a shared credential; and not
    # anthropic-organization-id, which is nobody's business outside.
    response_headers = frozenset({b"request-id"})

    def target(self, call: UpstreamCall) -> bytes:
        """The base path, ``/v1`` and the operation."""
        return f"{_prefix(call.host)}{call.endpoint.upstream_path}".encode("ascii")

    def headers(self, call: UpstreamCall) -> bytes:
        """The usual block, and the version where neither the caller nor the host names one."""
        block = super().headers(call)
        named_by_caller = any(name == VERSION_HEADER for name, _ in call.headers)
        return block if named_by_caller else block + _version(call.host)

    def probe(self, host: UpstreamHost, secret: Secret | None) -> UpstreamRequest:
        """For one entry of the list of models."""
        usual = super().probe(host, secret)
        target = f"{_prefix(host)}/models?limit=1".encode("ascii")
        return UpstreamRequest(target, usual.headers + _version(host), b"", usual.method)

    def credential(self, secret: Secret) -> bytes:
        """The ``x-api-key`` line."""
        return b"x-api-key: %s\r\n" % secret.reveal().encode("ascii")

    def classify(self, status: int, headers: Mapping[bytes, bytes], body: bytes) -> Classification:
        """As usual, but an exhausted or closed account is the credential's fault with any 4xx, and
        rate limits are those of one model."""
        usual = super().classify(status, headers, body)
        if not 400 <= status < 500:
            return usual
        error = _error_in(body)
        if status == 402 or _is_about_the_account(error):
            return Classification(Verdict.CREDENTIAL)
        if usual.verdict is not Verdict.THROTTLED:
            return usual
        if usual.retry_after is None:
            usual = replace(usual, retry_after=reset_of(headers, RESETS))
        scope = Scope.MODEL if error.get("type") == "rate_limit_error" else Scope.KEY
        return replace(usual, scope=scope)


def _prefix(host: UpstreamHost) -> str:
    return f"{host.path.removesuffix('/v1')}/v1"


def _version(host: UpstreamHost) -> bytes:
    """The line that names the version, unless the host's own headers do."""
    if VERSION_HEADER + b":" in host.headers:
        return b""
    return b"%s: %s\r\n" % (VERSION_HEADER, DEFAULT_VERSION)


def _error_in(body: bytes) -> dict[str, Any]:
    try:
        error = _REFUSAL.decode(body).error
    except (ValueError, RecursionError):
        return {}
    return error if isinstance(error, dict) else {}


def _is_about_the_account(error: Mapping[str, Any]) -> bool:
    if error.get("type") == "billing_error":
        return True
    details = error.get("details")
    code = details.get("error_code") if isinstance(details, dict) else None
    if isinstance(code, str) and code in CREDENTIAL_CODES:
        return True
    message = error.get("message")
    text = message.lower() if isinstance(message, str) else ""
    return any(phrase in text for phrase in CREDENTIAL_PHRASES)
