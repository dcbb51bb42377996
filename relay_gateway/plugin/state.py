"""State stores: what limits have counted, shared by instances where the store can."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import msgspec

from relay_gateway.plugin.base import ConfigT, Plugin

Strategy = Literal["token-bucket", "sliding-window", "fixed-window", "session-window", "gauge"]


class Hold(msgspec.Struct, frozen=True, gc=False):
    """One claim on one limited resource.

    ``key`` names the counter (rule and scope, printable ASCII). ``amount`` is claimed of ``limit``
    per ``window`` seconds; both are whole numbers in the unit of the rule's meter. A ``gauge``
    counts what is held right now: :meth:`StateStore.settle` gives it back, and ``window`` is its
    lease, after which a claim that nobody gave back ends by itself. A ``shadow`` claim is counted
    and never refused. The keys of one reservation are distinct. The arithmetic of each strategy is
    written down in ``docs/explanation/limits.md``.
    """

    key: str
    amount: int
    limit: int
    window: float
    strategy: Strategy
    shadow: bool = False


class Grant(msgspec.Struct, frozen=True, gc=False):
    """Answer to a reservation.

    ``refused`` is the index of the first hold that did not fit, or ``-1`` when all were taken;
    ``retry_after`` says after how many seconds it would. ``remaining`` and ``reset`` have one
    figure per hold: what is left of its limit (never below 0) and the seconds until all of it is
    there again. ``exceeded`` are the indexes of shadow holds that would have been refused.
    """

    refused: int
    retry_after: float
    remaining: tuple[int, ...]
    reset: tuple[float, ...]
    exceeded: tuple[int, ...] = ()


class StateStore(Plugin[ConfigT]):
    """Atomic operations of limits. One call reserves all claims of a request or none of them.

    Every counter ends by itself: a store keeps none longer than two of its windows after its last
    use. Time is the store's own; where instances share a store, they share its clock.
    """

    schemes: ClassVar[tuple[str, ...]] = ()
    """Schemes of ``RELAY_STATE_URL`` that choose this store, in lower case; the URL is then the
    field ``url`` of its configuration."""
    shared: ClassVar[bool] = False
    """Whether instances that use the same store see the same state."""
    immediate: ClassVar[bool] = False
    """Whether :meth:`reserve_now` and :meth:`settle_now` work: the store waits for nothing."""

    async def reserve(self, request_id: str, holds: Sequence[Hold]) -> Grant:
        """Takes all ``holds`` or none, in one round trip. A repeated ``request_id`` with the same
        holds, before it is settled, is a repetition of the same call: it takes nothing twice, and
        the leases of its gauges begin anew. Raises what it likes when the store cannot be
        asked."""
        raise NotImplementedError

    async def settle(self, request_id: str, holds: Sequence[Hold], used: Sequence[int]) -> None:
        """Corrects each hold of a reservation to what was really ``used`` (more or less than was
        claimed, 0 to give all back); gauges are given back whole whatever ``used`` says. A
        repetition changes nothing."""
        raise NotImplementedError

    def reserve_now(self, request_id: str, holds: Sequence[Hold]) -> Grant:
        """As :meth:`reserve`, without waiting; only where ``immediate`` is true."""
        raise NotImplementedError

    def settle_now(self, request_id: str, holds: Sequence[Hold], used: Sequence[int]) -> None:
        """As :meth:`settle`, without waiting; only where ``immediate`` is true."""
        raise NotImplementedError
