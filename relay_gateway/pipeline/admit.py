"""Admission: what a request claims of the limits that apply to it, and what it gives back.

Claims of the caller are made once, before the upstream is asked; those of a host key when it is
drawn. Whatever becomes of the request, ``release`` settles all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

from relay_gateway.catalog.snapshot import HostKey, Model, Pricing
from relay_gateway.errors import StateBusyError
from relay_gateway.limits.limiter import Claim, Limiter, Reservation
from relay_gateway.pipeline.budget_gate import BudgetGate
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.claims import ClaimBook, estimate_of, is_limited
from relay_gateway.pipeline.estimate import used
from relay_gateway.pipeline.rate_headers import rate_lines
from relay_gateway.pipeline.route import Candidate, Plan
from relay_gateway.pipeline.standing import RuleRoom, Standing, refusal_of
from relay_gateway.plugin.usage import UsageRecord

LOOKED_AT_ONCE: Final = 64
"""How many counters one call to the state store looks at: it has little time for each call."""


class Admission:
    """Holds requests to their limits. A policy without rules costs next to nothing."""

    def __init__(self, limiter: Limiter, budgets: BudgetGate | None = None) -> None:
        self._limiter = limiter
        self._budgets = budgets
        self._book = ClaimBook()

    def admit_now(self, call: Call, plan: Plan) -> bool:
        """Admits a request without waiting; ``False`` where the store has to be waited for. Raises
        :class:`RequestRefusedError` (429) for one that its limits have no room for."""
        key, policy = call.relay_key, call.policy
        # As is_limited() says; every request comes by here, and most have no limits.
        limited = (policy is not None and policy.limits) or (key is not None and key.rate_limit_ids)
        if limited and not self._limiter.immediate:
            return False
        if policy is not None and policy.budgets:
            self._check_budgets(call, plan.model, _pricing(plan))
        if not limited:
            return True
        claims = self._book.of_caller(call, plan.model, _pricing(plan))
        if not claims:
            return True
        try:
            reservation = self._limiter.reserve_now(call.request_id, claims)
        except StateBusyError:
            return False
        _note(call, reservation)
        return True

    async def admit(self, call: Call, plan: Plan) -> None:
        """As :meth:`admit_now`, and waits."""
        self._check_budgets(call, plan.model, _pricing(plan))
        if is_limited(call):
            await self._admit(call, self._book.of_caller(call, plan.model, _pricing(plan)))

    async def admit_proxied(self, call: Call) -> None:
        """Admits a request in proxy mode, whose model may be unknown and whose body is, for the
        moment, what has been looked at of it."""
        self._check_budgets(call, call.model, call.pricing)
        if is_limited(call):
            await self._admit(call, self._book.of_caller(call, call.model, call.pricing))

    async def standing(self, call: Call, plan: Plan) -> list[Standing]:
        """How the budgets and limits stand that the request would be held to. Nothing is claimed,
        so a rule of which anything is left counts as one that has room."""
        found: list[Standing] = []
        if self._budgets is not None:
            found += (Standing("budgets", *one) for one in self._budgets.standing(call, plan.model))
        claims = self._book.of_caller(call, plan.model, _pricing(plan))
        rooms = await self._look(call, claims)
        return found + [rooms[hold.key].standing() for _, hold in claims]

    async def room_of_keys(
        self, call: Call, candidates: Iterable[Candidate]
    ) -> Mapping[tuple[str, str], Sequence[RuleRoom]]:
        """How the limits stand of the host keys that could be drawn, by model and key, for those
        that have any. Nothing is claimed."""
        claims = {
            (one.model.id, key.id): self._book.of_key(call, one, key)
            for one in candidates
            for key in one.keys
            if key.policy.limits
        }
        rooms = await self._look(call, [one for several in claims.values() for one in several])
        return {
            place: [rooms[hold.key] for _, hold in several] for place, several in claims.items()
        }

    async def _look(self, call: Call, claims: Iterable[Claim]) -> Mapping[str, RuleRoom]:
        """What is left of each counter, by its name."""
        distinct = iter({claim.hold.key: claim for claim in claims}.values())
        rooms: dict[str, RuleRoom] = {}
        while part := list(islice(distinct, LOOKED_AT_ONCE)):
            grant = await self._limiter.look(_part(call), [hold for _, hold in part])
            for index, (rule, hold) in enumerate(part):
                rooms[hold.key] = (
                    RuleRoom(rule, None, None)
                    if grant is None
                    else RuleRoom(rule, grant.remaining[index], grant.reset[index])
                )
        return rooms

    def admits_now(self, call: Call, candidate: Candidate, key: HostKey | None) -> bool | None:
        """Whether the limits of a host key have room for the request, which then holds it instead
        of the key before; ``None`` where the store has to be waited for."""
        if call.key_reservation is not None:
            self._put_back(call, call.key_reservation)
        if key is None or not key.policy.limits:
            return True
        if not self._limiter.immediate:
            return None
        claims = self._book.of_key(call, candidate, key)
        try:
            return not claims or _note_key(call, self._limiter.reserve_now(_part(call), claims))
        except StateBusyError:
            return None

    async def admits(self, call: Call, candidate: Candidate, key: HostKey | None) -> bool:
        """As :meth:`admits_now`, and waits."""
        if call.key_reservation is not None:
            self._put_back(call, call.key_reservation)
        if key is None or not key.policy.limits:
            return True
        claims = self._book.of_key(call, candidate, key)
        return not claims or _note_key(call, await self._limiter.reserve(_part(call), claims))

    def _put_back(self, call: Call, held: Reservation) -> None:
        """Gives back what the request holds of a host key that did not serve it."""
        call.key_reservation = None
        self._limiter.settle(held, [0] * len(held.claims))

    def release(self, call: Call, record: UsageRecord) -> None:
        """Settles what the request holds with what it has used."""
        for held in (call.reservation, call.key_reservation):
            if held is not None:
                figures = [used(record, rule.meter, hold.amount) for rule, hold in held.claims]
                self._limiter.settle(held, figures)
        call.reservation = call.key_reservation = None
        if self._budgets is not None:
            self._budgets.release(call, record)

    def _check_budgets(self, call: Call, model: Model | None, pricing: Pricing | None) -> None:
        if call.budget_hold is not None:
            return  # it was let pass before its limits had to be waited for
        if self._budgets is not None and call.policy is not None and call.policy.budgets:
            self._budgets.admit(call, model, lambda: estimate_of(call, model, pricing).of("cost"))

    async def _admit(self, call: Call, claims: Sequence[Claim]) -> None:
        if claims:
            _note(call, await self._limiter.reserve(call.request_id, claims))


def _pricing(plan: Plan) -> Pricing | None:
    """The price where the request will most likely go."""
    return plan.groups[0][0].binding.pricing if plan.groups and plan.groups[0] else None


def _part(call: Call) -> str:
    """The id of the next reservation of the same request: a host key's."""
    call.keys_tried += 1
    return f"{call.request_id}/{call.keys_tried}"


def _note(call: Call, reservation: Reservation) -> None:
    """Takes a reservation into ``call``; raises where it was refused."""
    call.rate_lines = rate_lines(reservation)
    if reservation.refused >= 0:
        raise refusal_of(reservation)
    call.reservation = reservation


def _note_key(call: Call, reservation: Reservation) -> bool:
    if reservation.refused >= 0:
        call.full_key = call.full_key or refusal_of(reservation)
        return False
    call.key_reservation = reservation
    return True
