"""Reads usage from responses, whole or streamed.

Shapes: OpenAI's API reference, "Responses" and its "Streaming events". A stream has no ``[DONE]``;
it ends with ``response.completed``, ``response.incomplete`` or ``response.failed``, each of which
carries the whole response with its usage.
"""

from __future__ import annotations

from typing import Any

import msgspec

from relay_gateway.plugin import CONTENT, FAILED, LAST, TERMINAL, UsageMeter
from relay_gateway_provider_openai.chat_meter import DONE
from relay_gateway_provider_openai.figures import figure, read_responses_usage

_ENDS = {
    b"response.completed": TERMINAL | LAST,
    b"response.incomplete": TERMINAL | LAST,
    b"response.failed": FAILED,
    b"error": FAILED,
}
_BEGINNINGS = (b"response.created", b"response.in_progress")
_REASONING = b"response.reasoning"


class _Response(msgspec.Struct):
    model: Any = None
    status: Any = None
    incomplete_details: Any = None
    usage: Any = None
    tool_usage: Any = None
    service_tier: Any = None


class _Event(msgspec.Struct):
    response: _Response | None = None


class _Typed(msgspec.Struct):
    type: Any = None


_RESPONSE = msgspec.json.Decoder(_Response)
_EVENT = msgspec.json.Decoder(_Event)
_TYPED = msgspec.json.Decoder(_Typed)


class ResponsesMeter(UsageMeter):
    """Meter of ``openai.responses``."""

    def body(self, body: bytes) -> None:
        """A whole answer."""
        try:
            self._read(_RESPONSE.decode(body))
        except (ValueError, RecursionError):
            return

    def event(self, name: bytes, data: bytes) -> int:
        """One event, told by its name or, with hosts that send none, by its ``type``."""
        if data == DONE:
            return TERMINAL | LAST
        kind = name if name.startswith(b"response.") or name == b"error" else _type(data)
        if kind.endswith(b".delta"):
            return 0 if kind.startswith(_REASONING) else CONTENT
        end = _ENDS.get(kind)
        if end is not None or kind in _BEGINNINGS:
            self._read_event(data)
        return end or 0

    def _read_event(self, data: bytes) -> None:
        try:
            response = _EVENT.decode(data).response
        except (ValueError, RecursionError):
            return
        if response is not None:
            self._read(response)

    def _read(self, response: _Response) -> None:
        reading = self.reading
        if isinstance(response.model, str) and response.model:
            reading.upstream_model = response.model
        if isinstance(response.service_tier, str):
            reading.tier = response.service_tier or None
        read_responses_usage(reading, response.usage)
        searches = figure(response.tool_usage, "web_search", "num_requests")
        if searches is not None:
            reading.units["searches"] = searches
        reading.finish_reason = _finish_reason(response)


def _type(data: bytes) -> bytes:
    try:
        kind = _TYPED.decode(data).type
    except (ValueError, RecursionError):
        return b""
    return kind.encode() if isinstance(kind, str) else b""


def _finish_reason(response: _Response) -> str | None:
    """Why the response ended: its status, or the reason that an incomplete one gives."""
    status = response.status
    if not isinstance(status, str) or status in ("in_progress", "queued"):
        return None
    details = response.incomplete_details
    reason = details.get("reason") if isinstance(details, dict) else None
    return reason if isinstance(reason, str) else status
