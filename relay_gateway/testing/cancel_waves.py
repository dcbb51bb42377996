"""Waves of requests that are all cancelled, some while the state store is asked for them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from relay_gateway.catalog.limit_rules import LimitRule
from relay_gateway.limits.limiter import Claim, Limiter
from relay_gateway.plugin import Hold

WAVE = 250
PATIENCE = 60.0
"""Seconds that a machine which is busy with something else may take for a wave."""


class Callers:
    """Requests that hold what they have reserved until they are cancelled."""

    def __init__(self, limiter: Limiter, claims: Sequence[Claim]) -> None:
        self._limiter = limiter
        self._claims = claims
        self._holding = 0
        self._changed = asyncio.Event()

    async def run(self, request_id: str) -> None:
        """One request."""
        reservation = await self._limiter.reserve(request_id, self._claims)
        assert reservation.refused < 0
        assert not reservation.is_local, "the store was not asked"
        self._holding += 1
        self._changed.set()
        try:
            await asyncio.Event().wait()
        finally:
            self._limiter.settle(reservation, [0] * len(self._claims))

    async def until_holding(self, number: int) -> None:
        """Waits for so many that hold something."""
        async with asyncio.timeout(PATIENCE):
            while self._holding < number:
                self._changed.clear()
                await self._changed.wait()


async def cancel_waves(limiter: Limiter, number: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Has ``number`` requests come in waves and be cancelled. The limits of the three rules that
    each was held to, and what is left of them in the end."""
    claims = _claims(number)
    for wave in range(number // WAVE):
        callers = Callers(limiter, claims)
        tasks = [asyncio.create_task(callers.run(f"{wave}-{one}")) for one in range(WAVE)]
        await callers.until_holding(WAVE // 2)  # of the others, some are being reserved for
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(end) for end in ends} == {asyncio.CancelledError}
        # Or calls that nobody waits for would pile up until the store is not asked any more.
        await limiter.aclose()
    left = await limiter.look("afterwards", [hold for _, hold in claims])
    assert left is not None, "the store cannot be asked"
    return tuple(hold.limit for _, hold in claims), left.remaining


def _claims(number: int) -> list[Claim]:
    """A claim of each kind of counter that has room for so many requests."""
    day = 86_400.0
    rules = (
        (LimitRule("rpd", "rpd", "requests", number, day, "sliding-window"), 1),
        (LimitRule("slots", "slots", "concurrency", number, 600.0, "gauge"), 1),
        (LimitRule("tpd", "tpd", "tokens", 40 * number, 10 * day, "fixed-window"), 40),
    )
    return [
        Claim(rule, Hold(rule.counter, amount, rule.amount, rule.window, rule.strategy))
        for rule, amount in rules
    ]
