"""How hosts with the Anthropic API are asked, and what their refusals mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from relay_gateway.plugin import (
    Classification,
    Secret,
    UpstreamCall,
    UpstreamProvider,
    Verdict,
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

CREDENTIAL_PHRASES = ("credit balance is too low", "specified api usage limits")
"""What the messages of such refusals say that come as a plain ``invalid_request_error``."""


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
        prefix = call.host.path.removesuffix("/v1")
        return f"{prefix}/v1{call.endpoint.upstream_path}".encode("ascii")

    def headers(self, call: UpstreamCall) -> bytes:
        """The usual block, and the version where neither the caller nor the host names one."""
        block = super().headers(call)
        named_by_caller = any(name == VERSION_HEADER for name, _ in call.headers)
        if named_by_caller or VERSION_HEADER + b":" in call.host.headers:
            return block
        return block + b"%s: %s\r\n" % (VERSION_HEADER, DEFAULT_VERSION)

    def credential(self, secret: Secret) -> bytes:
        """The ``x-api-key`` line."""
        return b"x-api-key: %s\r\n" % secret.reveal().encode("ascii")

    def classify(self, status: int, headers: Mapping[bytes, bytes], body: bytes) -> Classification:
        """As usual, but an exhausted or closed account is the credential's fault with any 4xx."""
        if status == 402 or (400 <= status < 500 and _is_about_the_account(body)):
            return Classification(Verdict.CREDENTIAL)
        return super().classify(status, headers, body)


def _is_about_the_account(body: bytes) -> bool:
    try:
        error = _REFUSAL.decode(body).error
    except (ValueError, RecursionError):
        return False
    if not isinstance(error, dict):
        return False
    if error.get("type") == "billing_error":
        return True
    details = error.get("details")
    code = details.get("error_code") if isinstance(details, dict) else None
    if isinstance(code, str) and code in CREDENTIAL_CODES:
        return True
    message = error.get("message")
    text = message.lower() if isinstance(message, str) else ""
    return any(phrase in text for phrase in CREDENTIAL_PHRASES)
