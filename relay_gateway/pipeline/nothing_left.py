"""What a caller is told when there are hosts and keys, and none of them can be used right now."""

from __future__ import annotations

import math
import random

from msgspec.structs import replace

from relay_gateway.errors import RequestRefusedError
from relay_gateway.http.message import Headers
from relay_gateway.pipeline.breaker import HostBreakers
from relay_gateway.pipeline.keypool import KeyPools
from relay_gateway.pipeline.refusals import Refusal
from relay_gateway.pipeline.route import Candidate, Plan
from relay_gateway.plugin.providers import Verdict
from relay_gateway.plugin.waits import retry_after


def no_way_left(plan: Plan, pools: KeyPools, breakers: HostBreakers) -> RequestRefusedError:
    """A refusal (503) with the time until the first key or host is back."""
    ejected = [
        breakers.wait(candidate.binding.host.id)
        for candidate in _candidates(plan)
        if breakers.wait(candidate.binding.host.id) and _has_key(candidate, pools)
    ]
    if ejected:
        return RequestRefusedError(
            503,
            "no_available_host",
            f"every host that could serve the model {plan.model.name!r} has failed again and again "
            "and is left alone for a while; try again later",
            retry_after=min(ejected),
        )
    return RequestRefusedError(
        503,
        "no_available_host_key",
        f"no host key for the model {plan.model.name!r} can be used right now",
        retry_after=shortest_wait(plan, pools),
    )


def with_wait(plan: Plan, last: Refusal, pools: KeyPools) -> Refusal:
    """An upstream's answer; one of 429 or 503 says when to come back, and no later than makes
    sense: by then another key may have room."""
    if last.status not in (429, 503):
        return last
    given = retry_after(last.headers.get(b"retry-after"), last.headers.get(b"date"))
    wait = math.ceil(shortest_wait(plan, pools))
    if last.classification.verdict is not Verdict.THROTTLED:
        wait = 1 + round(random.random())  # noqa: S311 - jitter
    if given is not None and given <= wait + 1:
        return last
    fields = [one for one in last.headers.fields if one[0].lower() != b"retry-after"]
    return replace(last, headers=Headers([*fields, (b"retry-after", b"%d" % wait)]))


def shortest_wait(plan: Plan, pools: KeyPools) -> float:
    """Seconds until the first host key of a plan is back."""
    waits = [
        pools.shortest_wait(candidate.keys, candidate.model.id)
        for candidate in _candidates(plan)
        if candidate.keys
    ]
    return min(waits, default=1.0)


def _candidates(plan: Plan) -> list[Candidate]:
    return [candidate for group in plan.groups for candidate in group]


def _has_key(candidate: Candidate, pools: KeyPools) -> bool:
    if candidate.binding.host.no_auth:
        return True
    return any(pools.serves(key.id, candidate.model.id) for key in candidate.keys)
