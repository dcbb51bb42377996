"""A meter for answers that use nothing."""

from __future__ import annotations

from relay_gateway.plugin import UsageMeter


class SilentMeter(UsageMeter):
    """Meter of ``anthropic.count_tokens``: the count in the answer is no consumption."""

    def body(self, body: bytes) -> None:
        """A whole answer; nothing in it is usage."""

    def event(self, name: bytes, data: bytes) -> int:
        """Never part of this format."""
        return 0
