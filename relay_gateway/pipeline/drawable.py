"""Which host keys could be drawn for an explained request, and what is left of their limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from relay_gateway.catalog.snapshot import HostKey
from relay_gateway.errors import RequestRefusedError
from relay_gateway.pipeline.breaker import HostBreakers
from relay_gateway.pipeline.credentials import Credentials
from relay_gateway.pipeline.explanation import KeyLimit, KeyView, Stop
from relay_gateway.pipeline.keypool import KeyPools
from relay_gateway.pipeline.route import Candidate, Plan
from relay_gateway.pipeline.standing import RuleRoom

Rooms = Mapping[tuple[str, str], Sequence[RuleRoom]]
"""What is left of the limits of host keys, by model and key, for those that have any."""


class Drawable:
    """Looks at keys and hosts as one process knows them, and at what is left of limits."""

    def __init__(self, pools: KeyPools, credentials: Credentials, breakers: HostBreakers) -> None:
        self._pools = pools
        self._credentials = credentials
        self._breakers = breakers

    def ready(self, group: Sequence[Candidate], rooms: Rooms) -> list[Candidate]:
        """Those that can be asked now."""
        return [one for one in group if self.obstacle(one, rooms) is None]

    def obstacle(self, candidate: Candidate, rooms: Rooms) -> tuple[Stop, str] | None:
        """Why a host is not asked right now that could be."""
        host = candidate.binding.host
        if self._breakers.wait(host.id):
            return "ejected", f"the host fails ({self._breakers.describe(host.id).reason})"
        if host.no_auth:
            return None
        serving = self._serving(candidate)
        if not serving:
            return "benched", "every host key is benched for now"
        if all(_refusal(candidate, key, rooms) for key in serving):
            return "limited", "no host key that is not benched has room left within its limits"
        return None

    def no_room(self, plan: Plan, rooms: Rooms) -> RequestRefusedError | None:
        """What the limits say of the first host key that is not benched, where nothing is ready."""
        for group in plan.groups:
            for one in group:
                if not self._breakers.wait(one.binding.host.id):
                    for key in self._serving(one):
                        return _refusal(one, key, rooms)
        return None

    def view(self, candidate: Candidate, key: HostKey, rooms: Rooms) -> KeyView:
        """A host key as an explanation shows it."""
        state = self._pools.describe(key.id) | self._credentials.describe(key.id)
        fields = {
            "id": key.id,
            "slug": key.slug,
            "priority": key.priority,
            "weight": key.weight,
            "state": state["state"],
            "reason": state["reason"],
            "secondsLeft": state["secondsLeft"],
            "lastError": state["lastError"],
            "limits": [_limit_view(one) for one in rooms.get((candidate.model.id, key.id), ())],
        }
        return msgspec.convert(fields, KeyView)

    def _serving(self, candidate: Candidate) -> list[HostKey]:
        model_id = candidate.model.id
        return [key for key in candidate.keys if self._pools.serves(key.id, model_id)]


def _refusal(candidate: Candidate, key: HostKey, rooms: Rooms) -> RequestRefusedError | None:
    found = rooms.get((candidate.model.id, key.id), ())
    return next((one.refusal() for one in found if one.refuses), None)


def _limit_view(room: RuleRoom) -> KeyLimit:
    rule = room.rule
    return KeyLimit(
        rule=rule.name,
        amount=rule.amount,
        remaining=room.left,
        reset_seconds=None if room.reset is None else round(room.reset, 3),
        shadow=rule.shadow,
        ok=room.left != 0,
        message=room.message(),
    )
