"""Reads usage from messages, whole or streamed.

Shapes: Anthropic's API reference, "Messages" and "Streaming messages". ``message_start`` has the
first figures, ``message_delta`` the cumulative ones; the last one said wins. ``input_tokens`` there
leaves the cached part out, the gateway's ``input`` has it in.
"""

from __future__ import annotations

from typing import Any

import msgspec

from relay_gateway.plugin import CONTENT, FAILED, LAST, TERMINAL, UsageMeter, count

_VISIBLE = ("text_delta", "input_json_delta")
_FIGURES = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)


class _Message(msgspec.Struct, gc=False):
    model: Any = None
    stop_reason: Any = None
    usage: Any = None


class _Start(msgspec.Struct, gc=False):
    message: _Message | None = None


class _Delta(msgspec.Struct, gc=False):
    type: Any = None
    text: Any = None
    partial_json: Any = None
    stop_reason: Any = None


class _WithDelta(msgspec.Struct, gc=False):
    delta: _Delta | None = None
    usage: Any = None


class _Typed(msgspec.Struct, gc=False):
    type: Any = None


_MESSAGE = msgspec.json.Decoder(_Message)
_START = msgspec.json.Decoder(_Start)
_WITH_DELTA = msgspec.json.Decoder(_WithDelta)
_TYPED = msgspec.json.Decoder(_Typed)


class MessagesMeter(UsageMeter):
    """Meter of ``anthropic.messages``."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, int] = {}

    def body(self, body: bytes) -> None:
        """A whole answer."""
        try:
            self._read_message(_MESSAGE.decode(body))
        except (ValueError, RecursionError):
            return

    def event(self, name: bytes, data: bytes) -> int:
        """One event, told by its name or, with hosts that send none, by its ``type``."""
        try:
            kind = name or _type(data)
            if kind == b"content_block_delta":
                return _content(_WITH_DELTA.decode(data).delta)
            if kind == b"message_start":
                self._read_message(_START.decode(data).message)
            elif kind == b"message_delta":
                self._read_delta(_WITH_DELTA.decode(data))
        except (ValueError, RecursionError):
            return 0
        if kind == b"message_stop":
            return TERMINAL | LAST
        return FAILED if kind == b"error" else 0

    def _read_message(self, message: _Message | None) -> None:
        if message is None:
            return
        if isinstance(message.model, str) and message.model:
            self.reading.upstream_model = message.model
        self._finish(message.stop_reason)
        self._read_usage(message.usage)

    def _read_delta(self, event: _WithDelta) -> None:
        if event.delta is not None:
            self._finish(event.delta.stop_reason)
        self._read_usage(event.usage)

    def _finish(self, reason: object) -> None:
        if isinstance(reason, str) and reason:
            self.reading.finish_reason = reason

    def _read_usage(self, usage: object) -> None:
        if not isinstance(usage, dict):
            return
        for figure in _FIGURES:
            self._note(figure, usage.get(figure))
        self._note("1h", _below(usage, "cache_creation", "ephemeral_1h_input_tokens"))
        self._note("5m", _below(usage, "cache_creation", "ephemeral_5m_input_tokens"))
        self._note("thinking", _below(usage, "output_tokens_details", "thinking_tokens"))
        searches = count(_below(usage, "server_tool_use", "web_search_requests"))
        if searches is not None:
            self.reading.units["searches"] = searches
        tier = usage.get("service_tier")
        if isinstance(tier, str):
            self.reading.tier = tier or None
        self._publish()

    def _note(self, figure: str, value: object) -> None:
        amount = count(value)
        if amount is not None:
            self._said[figure] = amount

    def _publish(self) -> None:
        """Turns the host's figures into the gateway's meters; what was not said stays absent."""
        said = self._said
        written = said.get("cache_creation_input_tokens")
        if written is None and ("1h" in said or "5m" in said):
            written = said.get("1h", 0) + said.get("5m", 0)
        if "input_tokens" in said:
            cached = said.get("cache_read_input_tokens", 0) + (written or 0)
            self._set("input", said["input_tokens"] + cached)
        if written is not None:
            self._set("cacheWrite", max(0, written - said.get("1h", 0)))
        self._set("cacheRead", said.get("cache_read_input_tokens"))
        self._set("cacheWrite1h", said.get("1h"))
        self._set("output", said.get("output_tokens"))
        self._set("reasoning", said.get("thinking"))

    def _set(self, meter: str, amount: int | None) -> None:
        # Sums are checked again: two large counts together may be none.
        figure = count(amount)
        if figure is not None:
            self.reading.tokens[meter] = figure


def _type(data: bytes) -> bytes:
    kind = _TYPED.decode(data).type
    return kind.encode() if isinstance(kind, str) else b""


def _content(delta: _Delta | None) -> int:
    if delta is None or delta.type not in _VISIBLE:
        return 0
    return CONTENT if delta.text or delta.partial_json else 0


def _below(usage: dict[str, object], *path: str) -> object:
    found: object = usage
    for step in path:
        if not isinstance(found, dict):
            return None
        found = found.get(step)
    return found
