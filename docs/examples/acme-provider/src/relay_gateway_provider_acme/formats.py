"""The wire format: its path, how it is metered, what translates it."""

from __future__ import annotations

from typing import Any

import msgspec

from relay_gateway.plugin import (
    CONTENT,
    FAILED,
    LAST,
    TERMINAL,
    Endpoint,
    UsageMeter,
    WireCodec,
    WireFormat,
    count,
)
from relay_gateway_provider_acme.codec import TalkCodec
from relay_gateway_provider_acme.words import FIGURES, FORMAT

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class TalkMeter(UsageMeter):
    """Reads usage from one answer. It sees copies: whatever it does, the answer stays as it is."""

    def body(self, body: bytes) -> None:
        """A whole answer."""
        self._read(_members(body))

    def event(self, name: bytes, data: bytes) -> int:
        """One event of a stream; what it is, as flags."""
        members = _members(data)
        self._read(members)
        if "error" in members:
            return FAILED
        kind = members.get("type")
        if kind == "end":
            return TERMINAL | LAST
        return CONTENT if kind == "more" and members.get("text") else 0

    def _read(self, members: dict[str, Any]) -> None:
        for member, attribute in (("model", "upstream_model"), ("stop", "finish_reason")):
            word = members.get(member)
            if isinstance(word, str) and word:
                setattr(self.reading, attribute, word)
        usage = members.get("usage")
        if not isinstance(usage, dict):
            return
        for word, meter in FIGURES.values():
            figure = count(usage.get(word))
            if figure is not None:
                self.reading.tokens[meter] = figure


def _members(data: bytes) -> dict[str, Any]:
    try:
        return _decode(data)
    except (ValueError, RecursionError):
        return {}


class TalkFormat(WireFormat):
    """``acme.talk``. Its streams always tell usage, so there is no option to ask for it."""

    name = FORMAT
    endpoints = (Endpoint("acme.talk", "/v1/acme/talk", "/talk"),)
    output_limits = ("limit",)

    def meter(self) -> UsageMeter:
        """A fresh meter for one answer."""
        return TalkMeter()

    def codec(self) -> WireCodec:
        """What translates the format; it is stateless."""
        return TalkCodec()
