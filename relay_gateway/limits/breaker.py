"""When to leave a state store alone that cannot be asked, and when to try it again."""

from __future__ import annotations

FAILURES = 3
"""How many failures in a row open the breaker."""
PAUSE_SECONDS = 1.0
"""How long it stays open; then one call probes."""


class Breaker:
    """Closed, open or half open; times are of the monotonic clock."""

    __slots__ = ("_failures", "_opened_at", "_probe_at", "_probing", "is_open")

    def __init__(self) -> None:
        self.is_open = False
        """Whether calls are kept away, but for a probe."""
        self._failures = 0
        self._opened_at = 0.0
        self._probe_at = 0.0
        self._probing = False

    def admits(self, now: float) -> bool:
        """Whether a call may be made now; of those after a pause one may, as the probe."""
        if not self.is_open:
            return True
        if self._probing or now < self._probe_at:
            return False
        self._probing = True
        return True

    def succeeded(self, now: float) -> float | None:
        """A call was answered. How long the breaker was open, where this closes it."""
        self._failures = 0
        self._probing = False
        was_open, self.is_open = self.is_open, False
        return now - self._opened_at if was_open else None

    def left(self) -> None:
        """Whoever made a call did not wait for what comes of it; another one may probe."""
        self._probing = False

    def failed(self, now: float) -> bool:
        """A call was not answered. Whether this opens the breaker."""
        self._failures += 1
        self._probing = False
        if self.is_open:
            self._probe_at = now + PAUSE_SECONDS
            return False
        if self._failures < FAILURES:
            return False
        self.is_open, self._opened_at, self._probe_at = True, now, now + PAUSE_SECONDS
        return True
