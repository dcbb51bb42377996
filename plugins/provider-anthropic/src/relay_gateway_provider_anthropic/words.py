"""Words of the Messages API that mean something in the canonical form."""

from __future__ import annotations

from relay_gateway.plugin.canonical import StopKind

FORMAT = "anthropic.messages"
REDACTED = "redacted"
"""Kind of a blob that is the data of ``redacted_thinking``; all others are signatures."""

TTL_SECONDS = {"5m": 300, "1h": 3600}
TIERS = {"auto": "auto", "standard_only": "default"}

STOPS = {
    "end_turn": StopKind.END,
    "max_tokens": StopKind.LENGTH,
    "stop_sequence": StopKind.STOP_SEQUENCE,
    "tool_use": StopKind.TOOL_CALLS,
    "refusal": StopKind.REFUSAL,
    "pause_turn": StopKind.PAUSED,
    "model_context_window_exceeded": StopKind.CONTEXT,
}
STOP_REASONS = {kind: reason for reason, kind in STOPS.items()}

ERROR_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The status that an error inside a stream would have had as an answer."""
