"""Reads nothing, from answers that cost nothing."""

from __future__ import annotations

from relay_gateway.plugin import UsageMeter


class SilentMeter(UsageMeter):
    """Meter of ``openai.moderations``: its answers have no usage, and it is free of charge."""

    def body(self, body: bytes) -> None:
        """A whole answer; nothing in it is usage."""

    def event(self, name: bytes, data: bytes) -> int:
        """Never part of this format."""
        return 0
