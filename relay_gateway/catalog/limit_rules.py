"""Rules of rate limits as requests meet them: compiled when a snapshot is built."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from relay_gateway.catalog import specs
from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.catalog.grants import GrantCompiler
from relay_gateway.plugin.state import Strategy

LEASE_SECONDS = 600.0
"""After how long a claim of a gauge ends that nobody gave back or renewed."""

OnStateLoss = Literal["local", "open", "closed"]


class LimitRule(msgspec.Struct, frozen=True):
    """``amount`` of ``meter`` per ``window`` seconds. ``counter`` begins the names of its counters
    and stays the same when the amount changes; ``name`` is what people know the rule by."""

    counter: str
    name: str
    meter: specs.Meter
    amount: int
    window: float
    strategy: Strategy
    shadow: bool = False
    on_state_loss: OnStateLoss = "local"


class RateLimit(msgspec.Struct, frozen=True):
    """A rate limit that is enabled."""

    id: str
    slug: str
    rules: tuple[LimitRule, ...]


class ScopedRule(msgspec.Struct, frozen=True):
    """A rule as a policy applies it. ``models`` are the ids of those it is for, ``None`` for all;
    ``tag`` is the name behind ``tag:``."""

    rule: LimitRule
    scope: str
    models: frozenset[str] | None = None
    tag: str = ""

    def covers(self, model_id: str | None) -> bool:
        """Whether it applies to requests for the model."""
        return self.models is None or model_id in self.models


def compile_rate_limit(row: EntityRow, spec: specs.RateLimitSpec) -> RateLimit:
    """A rate limit with a counter for each of its rules."""
    seen: Counter[str] = Counter()
    rules = []
    for rule in spec.rules:
        window = float(rule.window_seconds or LEASE_SECONDS)
        counter = f"{row.id}:{rule.meter}:{rule.strategy}:{rule.window_seconds or 0}"
        seen[counter] += 1
        if seen[counter] > 1:
            counter += f":{seen[counter]}"
        rules.append(
            LimitRule(
                counter,
                _name(row.slug, rule),
                rule.meter,
                rule.amount,
                window,
                "gauge" if rule.strategy == "concurrency" else rule.strategy,
                shadow=rule.shadow,
                on_state_loss=rule.on_state_loss,
            )
        )
    return RateLimit(row.id, row.slug, tuple(rules))


def scoped_rules(
    applied: Sequence[specs.PolicyRateLimit],
    rate_limits: Mapping[str, RateLimit],
    compiler: GrantCompiler,
) -> tuple[ScopedRule, ...]:
    """The rules that a policy applies; those of rate limits that are disabled are left out."""
    return tuple(_scoped(applied, rate_limits, compiler))


def _scoped(
    applied: Sequence[specs.PolicyRateLimit],
    rate_limits: Mapping[str, RateLimit],
    compiler: GrantCompiler,
) -> Iterator[ScopedRule]:
    for one in applied:
        rate_limit = rate_limits.get(one.rate_limit_id)
        if rate_limit is None:
            continue
        models = None
        if one.models:
            models = frozenset(compiler.compile(one.models, ()).hosts_by_model)
        scope, _, tag = one.scope.partition(":")
        for rule in rate_limit.rules:
            yield ScopedRule(rule, scope, models, tag)


def _name(slug: str, rule: specs.LimitRule) -> str:
    if rule.window_seconds is None:
        return f"{slug} ({rule.amount} {rule.meter})"
    return f"{slug} ({rule.amount} {rule.meter} per {rule.window_seconds} s)"
