"""State stores: limiter and breaker state, shared by instances where the store can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from relay_gateway.plugin.base import ConfigT, Plugin


@dataclass(frozen=True, slots=True)
class Hold:
    """One claim on one limited resource.

    ``key`` names the counter (rule and scope), ``amount`` is in the rule's meter, ``limit`` per
    ``window`` seconds; ``window`` 0 makes it a gauge that is given back by
    :meth:`StateStore.settle`.
    """

    key: str
    amount: int
    limit: int
    window: float
    strategy: str


@dataclass(frozen=True, slots=True)
class Grant:
    """Answer to a reservation. ``refused`` is the index of the first hold that did not fit, or
    ``-1``.

    ``retry_after`` is in seconds; ``remaining`` has one figure per hold.
    """

    refused: int
    retry_after: float
    remaining: tuple[int, ...]


class StateStore(Plugin[ConfigT]):
    """Atomic limiter operations. One call reserves all rules of a request or none."""

    shared: ClassVar[bool] = False
    """Whether instances that use the same store see the same state."""

    async def reserve(self, request_id: str, holds: Sequence[Hold]) -> Grant:
        """Takes all ``holds`` or none; a claim left by a crash expires by itself."""
        raise NotImplementedError

    async def settle(self, request_id: str, holds: Sequence[Hold], used: Sequence[int]) -> None:
        """Corrects each hold to what was really used; gauges are given back whole."""
        raise NotImplementedError
