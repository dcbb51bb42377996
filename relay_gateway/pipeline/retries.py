"""How many further attempts the gateway allows itself, and how long it waits before one.

A retry that everybody makes at once is what keeps a failing host down. So retries are a share of
the requests of the last minute, whatever each request by itself might still be allowed.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final

from relay_gateway.plugin.context import Clock

SLOT_SECONDS: Final = 10.0
SLOTS: Final = 6
FREE_RETRIES: Final = 3
"""So many a minute are allowed besides, or a gateway with few requests could never try again."""
FIRST_BACKOFF: Final = 0.1
LONGEST_BACKOFF: Final = 1.0
LONGEST_WISH: Final = 2.0
"""A host that asks for more time than this is not asked again by the same request."""


class RetryBudget:
    """Retries as a share of the requests of a sliding minute, in slots of ten seconds.

    Whoever begins a request adds one to ``asked`` and, when ``turns_at`` (seconds of the monotonic
    clock) has come, calls :meth:`turn` before that: the request path pays for an addition.
    """

    __slots__ = (
        "_asked",
        "_clock",
        "_former_asked",
        "_former_spent",
        "_spent",
        "asked",
        "denied",
        "granted",
        "spent",
        "turns_at",
    )

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asked: list[int] = [0] * (SLOTS - 1)
        self._spent: list[int] = [0] * (SLOTS - 1)
        self._former_asked = 0
        self._former_spent = 0
        self.asked = 0
        self.spent = 0
        self.granted = 0
        self.denied = 0
        """How many retries were allowed, and how many were wanted and not allowed, ever."""
        self.turns_at = clock.monotonic() + SLOT_SECONDS

    def turn(self, now: float) -> None:
        """Moves on to the slot of ``now``."""
        passed = int((now - self.turns_at) // SLOT_SECONDS) + 1
        for _ in range(min(SLOTS, passed)):
            self._asked = [*self._asked[1:], self.asked]
            self._spent = [*self._spent[1:], self.spent]
            self.asked = self.spent = 0
        self._former_asked, self._former_spent = sum(self._asked), sum(self._spent)
        self.turns_at += passed * SLOT_SECONDS

    def take(self, ratio: float) -> bool:
        """Takes one retry, if there is one; a ``ratio`` of 0 allows none at all."""
        now = self._clock.monotonic()
        if now >= self.turns_at:
            self.turn(now)
        allowed = FREE_RETRIES + ratio * (self._former_asked + self.asked)
        if ratio and self._former_spent + self.spent + 1 <= allowed:
            self.spent += 1
            self.granted += 1
            return True
        self.denied += 1
        return False


class Backoff:
    """The pauses before a host is asked again by the same request."""

    def __init__(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._sleep = sleep

    async def pause(self, repetition: int, wish: float | None) -> None:
        """Waits before the ``repetition``-th time, from 0: 0.1 s that double up to 1 s, half of it
        left to chance, and as long as the host asks for."""
        seconds = min(LONGEST_BACKOFF, FIRST_BACKOFF * 2.0 ** min(repetition, 10))
        seconds *= random.uniform(0.5, 1.0)  # noqa: S311 - jitter
        await self._sleep(max(seconds, wish or 0.0))


def is_patient(wish: float | None) -> bool:
    """Whether the same request can wait as long as a host asks for."""
    return wish is None or wish <= LONGEST_WISH
