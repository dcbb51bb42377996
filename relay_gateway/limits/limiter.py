"""Reserving and settling the claims of requests, with or without a state store that answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from relay_gateway.catalog.limit_rules import LEASE_SECONDS, LimitRule
from relay_gateway.errors import StateBusyError, StateUnavailableError
from relay_gateway.limits.breaker import PAUSE_SECONDS
from relay_gateway.limits.guarded_store import GuardedStore
from relay_gateway.limits.memory_store import MemoryStore
from relay_gateway.limits.tally import Tally
from relay_gateway.plugin.state import Grant, Hold

RENEWAL_SECONDS: Final = LEASE_SECONDS / 4


class Claim(NamedTuple):
    """What a request claims of one rule."""

    rule: LimitRule
    hold: Hold


class Reservation:
    """The answer to the claims of one request. ``refused`` is the index of the one that was
    refused, or -1; ``lost`` says that it was for want of a state store."""

    __slots__ = ("_indexes", "_local", "claims", "holds", "lost", "refused", "remaining",
                 "request_id", "reset", "retry_after")  # fmt: skip

    def __init__(
        self, request_id: str, claims: Sequence[Claim], holds: Sequence[Hold], grant: Grant
    ) -> None:
        self.request_id = request_id
        self.claims = claims
        self.holds = holds
        """The holds that were taken, where it was not refused."""
        self.refused = grant.refused
        self.retry_after = grant.retry_after
        self.remaining: Sequence[int] = grant.remaining
        self.reset: Sequence[float] = grant.reset
        self.lost = False
        self._local = False
        self._indexes: Sequence[int] | None = None

    def place(self, indexes: Sequence[int]) -> None:
        """Notes that only the claims at ``indexes`` were taken, and those by this process alone."""
        self._local, self._indexes = True, indexes
        self.holds = [self.claims[index].hold for index in indexes]

    @property
    def is_local(self) -> bool:
        """Whether this process alone has counted what is claimed."""
        return self._local

    def figures(self, used: Sequence[int]) -> Sequence[int]:
        """Of ``used``, one figure for each claim, those for ``holds``."""
        return used if self._indexes is None else [used[index] for index in self._indexes]


class Limiter:
    """One owner of what limits count. ``local`` counts where the store cannot be asked."""

    def __init__(self, store: GuardedStore, local: MemoryStore) -> None:
        self._store = store
        self._local = local
        self.immediate = store.immediate
        self.tally = Tally()
        self._leased: dict[str, Reservation] = {}
        """Those that hold something of a gauge."""

    @property
    def store(self) -> GuardedStore:
        """What is asked first."""
        return self._store

    def reserve_now(self, request_id: str, claims: Sequence[Claim]) -> Reservation:
        """Takes all ``claims`` or none; only where ``immediate`` is true. Raises
        :class:`StateBusyError` where :meth:`reserve` would wait a moment."""
        holds = [hold for _, hold in claims]
        try:
            grant = self._store.reserve_now(request_id, holds)
        except StateBusyError:
            raise
        except StateUnavailableError:
            return self._without_store(request_id, claims)
        return self._granted(Reservation(request_id, claims, holds, grant), grant)

    async def reserve(self, request_id: str, claims: Sequence[Claim]) -> Reservation:
        """Takes all ``claims`` or none, within the deadline for state stores."""
        holds = [hold for _, hold in claims]
        try:
            grant = await self._store.reserve(request_id, holds)
        except StateUnavailableError as error:
            return self._without_store(request_id, claims, busy=isinstance(error, StateBusyError))
        return self._granted(Reservation(request_id, claims, holds, grant), grant)

    async def look(self, request_id: str, holds: Sequence[Hold]) -> Grant | None:
        """What is left of each limit, without taking anything of it; ``None`` where the store
        cannot be asked. To look begins a session window that has not begun."""
        nothing = [
            Hold(hold.key, 0, hold.limit, hold.window, hold.strategy, shadow=True) for hold in holds
        ]
        try:
            grant = await self._store.reserve(request_id, nothing)
        except StateUnavailableError:
            return None
        self._store.settle(request_id, nothing, [0] * len(nothing))
        return grant

    def settle(self, reservation: Reservation, used: Sequence[int]) -> None:
        """Corrects what a reservation has taken to what was ``used`` of each claim."""
        if reservation.refused >= 0:
            return
        self._leased.pop(reservation.request_id, None)
        holds, figures = reservation.holds, reservation.figures(used)
        if reservation.is_local:
            self._local.settle_now(reservation.request_id, holds, figures)
        else:
            self._store.settle(reservation.request_id, holds, figures)

    async def keep_leases(self) -> None:
        """Renews the leases of whatever is held for long; runs until it is cancelled."""
        while True:
            await asyncio.sleep(RENEWAL_SECONDS)
            await self.renew_leases()

    async def renew_leases(self) -> None:
        """Has the leases of all that is held begin anew; a store that cannot be asked is tried
        again the next time, well before they end."""
        for reservation in list(self._leased.values()):
            if reservation.request_id not in self._leased:
                continue  # it ended meanwhile
            holds = reservation.holds
            if reservation.is_local:
                self._local.reserve_now(reservation.request_id, holds)
                continue
            with suppress(StateUnavailableError):
                await self._store.renew(reservation.request_id, holds)

    async def aclose(self) -> None:
        """Waits for settlements that are under way."""
        await self._store.aclose()

    def _granted(self, reservation: Reservation, grant: Grant) -> Reservation:
        claims = reservation.claims
        if grant.refused >= 0:
            self.tally.add(claims[grant.refused].rule.name, "refused")
            return reservation
        if grant.exceeded:
            for index, (rule, _) in enumerate(claims):
                self.tally.add(rule.name, "shadow" if index in grant.exceeded else "allowed")
        else:
            self.tally.allow(claims)
        return self._noted(reservation)

    def _noted(self, reservation: Reservation) -> Reservation:
        """Renews its leases from now on, where it has any."""
        for hold in reservation.holds:
            if hold.strategy == "gauge":
                self._leased[reservation.request_id] = reservation
                break
        return reservation

    def _without_store(
        self, request_id: str, claims: Sequence[Claim], *, busy: bool = False
    ) -> Reservation:
        """As each rule says for the time without a state store. One that is only ``busy`` has all
        the counts and will go on with them: to count beside it would admit too much."""
        for rule, _ in claims:
            self.tally.add(rule.name, "lost")
        closed = ("closed", "local") if busy else ("closed",)
        full = tuple(hold.limit for _, hold in claims)
        for index, (rule, hold) in enumerate(claims):
            if rule.on_state_loss in closed and not hold.shadow:
                refusal = Grant(index, PAUSE_SECONDS, full, (0.0,) * len(claims))
                reservation = Reservation(request_id, claims, (), refusal)
                reservation.lost = True
                return reservation
        counted = [
            index
            for index, (rule, _) in enumerate(claims)
            if rule.on_state_loss == "local" and not busy
        ]
        local = self._local.reserve_now(request_id, [claims[index].hold for index in counted])
        spread = _spread(request_id, claims, local, counted)
        return self._noted(spread) if spread.refused < 0 else spread


def _spread(
    request_id: str, claims: Sequence[Claim], local: Grant, counted: Sequence[int]
) -> Reservation:
    """The answer for all ``claims`` of which only those at ``counted`` were asked for."""
    remaining = [hold.limit for _, hold in claims]
    reset = [0.0] * len(claims)
    for place, index in enumerate(counted):
        remaining[index], reset[index] = local.remaining[place], local.reset[place]
    refused = counted[local.refused] if local.refused >= 0 else -1
    grant = Grant(refused, local.retry_after, tuple(remaining), tuple(reset))
    reservation = Reservation(request_id, claims, (), grant)
    reservation.place(counted)
    return reservation
