"""What a request claims of the limits that apply to it: which counters there are, and how much.

Which counters they are depends on who asks for which model; that is found out once per snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Final

import msgspec

from relay_gateway.catalog.limit_rules import LimitRule, ScopedRule
from relay_gateway.catalog.snapshot import HostKey, Model, Pricing, Snapshot
from relay_gateway.limits.limiter import Claim
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.estimate import Estimate, input_tokens, output_tokens
from relay_gateway.pipeline.output_limit import asked_output
from relay_gateway.pipeline.route import Candidate
from relay_gateway.plugin.state import Hold

MAX_PREPARED: Final = 16_384
"""For how many callers, each with a model, claims are kept prepared."""
_PLAIN: Final = 64

Counted = Iterable[tuple[str, LimitRule]]
"""Names of counters, each with its rule."""


class _Prepared(msgspec.Struct, frozen=True):
    """The claims of a caller for a model: ``parts`` have the claim itself where its amount is the
    same for every request, and ``claims`` are all of them where each amount is."""

    parts: tuple[tuple[str, LimitRule, Claim | None], ...]
    claims: tuple[Claim, ...] | None

    @classmethod
    def of(cls, counted: Counted) -> _Prepared:
        """Each counter once."""
        parts = tuple((name, rule, _constant(name, rule)) for name, rule in dict(counted).items())
        claims = tuple(claim for _, _, claim in parts if claim is not None)
        return cls(parts, claims if len(claims) == len(parts) else None)

    def filled(self, call: Call, model: Model | None, pricing: Pricing | None) -> Sequence[Claim]:
        """The claims of one request."""
        if self.claims is not None:
            return self.claims
        estimate = estimate_of(call, model, pricing)
        return [
            claim or _claim(counter, rule, min(estimate.of(rule.meter), rule.amount))
            for counter, rule, claim in self.parts
        ]


class ClaimBook:
    """Makes claims, and remembers what of them stays the same while a snapshot is current."""

    def __init__(self) -> None:
        self._snapshot = Snapshot()
        self._prepared: dict[tuple[str, str, str], _Prepared] = {}

    def of_caller(
        self, call: Call, model: Model | None, pricing: Pricing | None
    ) -> Sequence[Claim]:
        """What the request claims as its caller's; each counter once."""
        key, policy = call.relay_key, call.policy
        place = (
            policy.id if policy is not None else "",
            key.id if key is not None else "",
            model.id if model is not None else "",
        )
        prepared = self._known(call.snapshot, place)
        if prepared is None:
            rules = policy.limits if policy is not None else ()
            prepared = self._keep(place, _of_caller(call, place), rules)
        return prepared.filled(call, model, pricing)

    def of_key(self, call: Call, candidate: Candidate, key: HostKey) -> Sequence[Claim]:
        """What the request claims of the limits of a host key."""
        model, policy = candidate.model, key.policy
        place = (policy.id, key.id, model.id)
        prepared = self._known(call.snapshot, place)
        if prepared is None:
            prepared = self._keep(place, _of_key(call, key, model.id), policy.limits)
        return prepared.filled(call, model, candidate.binding.pricing)

    def _known(self, snapshot: Snapshot, place: tuple[str, str, str]) -> _Prepared | None:
        if snapshot is not self._snapshot:
            self._snapshot, self._prepared = snapshot, {}
        return self._prepared.get(place)

    def _keep(
        self, place: tuple[str, str, str], counted: Counted, rules: Sequence[ScopedRule]
    ) -> _Prepared:
        prepared = _Prepared.of(counted)
        # Tags come with the request.
        if not any(one.scope == "tag" for one in rules):
            if len(self._prepared) >= MAX_PREPARED:
                self._prepared.clear()
            self._prepared[place] = prepared
        return prepared


def is_limited(call: Call) -> bool:
    """Whether the caller has any limits at all."""
    policy, key = call.policy, call.relay_key
    if policy is not None and policy.limits:
        return True
    return key is not None and bool(key.rate_limit_ids)


def estimate_of(call: Call, model: Model | None, pricing: Pricing | None) -> Estimate:
    """What the request is expected to use."""
    body = call.body
    if call.form is not None or not body:
        incoming, asked = 0, None
    else:
        incoming, asked = input_tokens(body), asked_output(call.wire_format, body)
    outgoing = output_tokens(asked, call.policy, model) if _answers_tokens(call) else 0
    return Estimate(incoming, outgoing, pricing)


def _of_caller(call: Call, place: tuple[str, str, str]) -> Iterator[tuple[str, LimitRule]]:
    policy_id, key_id, model_id = place
    if call.policy is not None:
        for scoped in call.policy.limits:
            if scoped.covers(model_id):
                yield _counter(scoped, call, policy_id, model_id, key_id), scoped.rule
    for rate_limit_id in call.relay_key.rate_limit_ids if call.relay_key is not None else ():
        rate_limit = call.snapshot.rate_limits.get(rate_limit_id)
        for rule in rate_limit.rules if rate_limit is not None else ():
            yield f"{rule.counter}|relay-key|{key_id}", rule


def _of_key(call: Call, key: HostKey, model_id: str) -> Iterator[tuple[str, LimitRule]]:
    for scoped in key.policy.limits:
        if scoped.covers(model_id):
            counter = _counter(scoped, call, key.policy.id, model_id, key.id)
            yield f"host|{counter}", scoped.rule


def _counter(scoped: ScopedRule, call: Call, policy_id: str, model_id: str, key_id: str) -> str:
    """The name of the counter of a rule for this request; the scope ``relay-key`` is that of the
    key whose policy it is."""
    scope, value = scoped.scope, ""
    if scope == "relay-key":
        value = key_id
    elif scope == "policy":
        value = policy_id
    elif scope == "model":
        value = model_id
    elif scope == "tag":
        scope, value = f"tag:{scoped.tag}", _tag(call, scoped.tag)
    return f"{scoped.rule.counter}|{scope}|{value}"


def _tag(call: Call, name: str) -> str:
    """The value of a tag, in a form that fits any store. A caller cannot choose another one than
    its relay key has."""
    own = call.relay_key.tags if call.relay_key is not None else {}
    value = own.get(name) or call.tags.get(name, "")
    if len(value) <= _PLAIN and value.isascii() and value.isalnum():
        return value
    return f"~{blake2b(value.encode(), digest_size=16).hexdigest()}" if value else ""


def _constant(counter: str, rule: LimitRule) -> Claim | None:
    return _claim(counter, rule, 1) if rule.meter in ("requests", "concurrency") else None


def _claim(counter: str, rule: LimitRule, amount: int) -> Claim:
    hold = Hold(counter, amount, rule.amount, rule.window, rule.strategy, rule.shadow)
    return Claim(rule, hold)


def _answers_tokens(call: Call) -> bool:
    return bool(call.wire_format.output_limits) or not call.wire_format.name
