"""Random calls to a state store, each compared with the arithmetic as it is written down."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import get_args

from relay_gateway.ids import new_id
from relay_gateway.plugin import Grant, Hold, StateStore, Strategy
from relay_gateway.testing.clock import FakeClock
from relay_gateway.testing.limit_reference import ReferenceLimits

STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
HOURS = 86400.0
"""A window during which no test ends, so that nothing comes back meanwhile."""
PRECISION = 0.002
"""Seconds by which a store may round what it tells."""


class LimitWalk:
    """Random reservations and settlements of ``store``, each compared with the reference.

    Without a ``clock`` the windows are so long that no time counts. ``seed`` says which walk it is.
    """

    def __init__(self, store: StateStore, clock: FakeClock | None, seed: int) -> None:
        self._store = store
        self._turned = clock is not None
        self._clock = clock or FakeClock()
        self._reference = ReferenceLimits(self._clock)
        self._chance = random.Random(seed)  # noqa: S311 - to be the same each time
        self._open: dict[str, list[Hold]] = {}

    async def run(self) -> None:
        """Three hundred steps, then everything is settled."""
        for step in range(300):
            if self._turned:
                self._clock.advance(round(self._chance.choice((0, 0.01, 1, 7)) *
                                          self._chance.random(), 6))  # fmt: skip
            if self._open and self._chance.random() < 0.4:
                await self._settle(self._chance.choice(list(self._open)))
            else:
                await self._reserve(step)
        for request_id in list(self._open):
            await self._settle(request_id)
        await self._reserve(-1)

    async def _reserve(self, step: int) -> None:
        repeated = self._open and self._chance.random() < 0.1
        request_id = self._chance.choice(list(self._open)) if repeated else new_id()
        holds = self._open.get(request_id) or self._holds()
        got = await self._store.reserve(request_id, holds)
        expected = self._reference.reserve(request_id, holds)
        where = f"step {step}: {holds}\nexpected {expected}\ngot      {got}"
        assert (got.refused, got.remaining, got.exceeded) == (
            expected.refused,
            expected.remaining,
            expected.exceeded,
        ), where
        if self._turned:
            _assert_close(got, expected, holds, where)
        if got.refused == -1:
            self._open[request_id] = holds

    async def _settle(self, request_id: str) -> None:
        holds = self._open.pop(request_id)
        used = [self._chance.choice((0, each.amount, each.amount // 2, each.amount + 3))
                for each in holds]  # fmt: skip
        await self._store.settle(request_id, holds, used)
        self._reference.settle(request_id, holds, used)

    def _holds(self) -> list[Hold]:
        count = self._chance.randint(1, len(STRATEGIES))
        return [
            Hold(
                key=strategy,
                amount=self._chance.randint(1, 12),
                limit=100,
                window=20.0 if self._turned else HOURS * 1000,
                strategy=strategy,
                shadow=self._chance.random() < 0.1,
            )
            for strategy in self._chance.sample(STRATEGIES, count)
        ]


def _assert_close(got: Grant, expected: Grant, holds: Sequence[Hold], where: str) -> None:
    for one, other in zip(got.reset, expected.reset, strict=True):
        assert math.isclose(one, other, abs_tol=PRECISION), where
    if got.refused != -1 and holds[got.refused].strategy == "gauge":
        assert 0 <= got.retry_after <= 1, where  # nobody knows when a request ends
    else:
        assert math.isclose(got.retry_after, expected.retry_after, abs_tol=PRECISION), where
