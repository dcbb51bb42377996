"""How long to wait before a child that died is started again."""

from __future__ import annotations

FIRST_SECONDS = 0.1
LONGEST_SECONDS = 10.0
STEADY_SECONDS = 30.0
"""A child that lived this long was well; its death begins a new count."""


class Backoff:
    """Pauses that double from one early death to the next."""

    def __init__(self) -> None:
        self._pause = 0.0

    def after(self, lived: float) -> float:
        """The pause after a life of ``lived`` seconds; both in seconds."""
        if lived >= STEADY_SECONDS:
            self._pause = 0.0
            return 0.0
        self._pause = min(max(FIRST_SECONDS, 2 * self._pause), LONGEST_SECONDS)
        return self._pause
