"""Rules as a snapshot has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from relay_gateway.catalog.limit_rules import LEASE_SECONDS
from relay_gateway.catalog.specs import LimitRule, RateLimitSpec
from relay_gateway.testing.world import PipelineWorld


@pytest.fixture
def world(tmp_path: Path) -> PipelineWorld:
    return PipelineWorld(tmp_path)


async def test_each_rule_has_a_counter_that_outlives_a_change_of_its_amount(
    world: PipelineWorld,
) -> None:
    rule = {"meter": "requests", "amount": 5, "windowSeconds": 60}
    rate_limit = world.rate_limit(
        "r", rule, {**rule, "amount": 9}, {"meter": "concurrency", "amount": 2}
    )
    world.publish()
    before = world.live.current.rate_limits[rate_limit].rules
    world.change(rate_limit, rules=[{**rule, "amount": 6}])
    after = world.live.current.rate_limits[rate_limit].rules
    assert len({one.counter for one in before}) == 3
    assert after[0].counter == before[0].counter
    assert (after[0].amount, after[0].name) == (6, "r (6 requests per 60 s)")
    gauge = before[2]
    assert (gauge.strategy, gauge.window, gauge.name) == (
        "gauge",
        LEASE_SECONDS,
        "r (2 concurrency)",
    )


async def test_a_policy_follows_its_rate_limits(world: PipelineWorld) -> None:
    rate_limit = world.rate_limit("r", {"meter": "requests", "amount": 5, "windowSeconds": 60})
    entries = [{"rateLimitId": rate_limit, "models": ["m", "missing"], "scope": "tag:team"}]
    world.change(world.policy, rateLimits=entries)
    (scoped,) = world.live.current.policies[world.policy].limits
    assert (scoped.scope, scoped.tag) == ("tag", "team")
    assert scoped.covers(world.model)
    assert not scoped.covers("another")
    world.change(rate_limit, enabled=False)
    assert world.live.current.policies[world.policy].limits == ()


async def test_models_that_no_longer_exist_are_no_models_and_not_all(world: PipelineWorld) -> None:
    rate_limit = world.rate_limit("r", {"meter": "requests", "amount": 5, "windowSeconds": 60})
    world.change(world.policy, rateLimits=[{"rateLimitId": rate_limit, "models": ["gone"]}])
    (scoped,) = world.live.current.policies[world.policy].limits
    assert not scoped.covers(world.model)


@pytest.mark.parametrize(
    "rule",
    [
        {"meter": "concurrency", "amount": 1, "windowSeconds": 60},
        {"meter": "concurrency", "amount": 1, "strategy": "fixed-window"},
        {"meter": "requests", "amount": 1},
        {"meter": "requests", "amount": 1, "windowSeconds": 60, "strategy": "concurrency"},
        {"meter": "requests", "amount": 1 << 53, "windowSeconds": 60},
        {"meter": "requests", "amount": 1, "windowSeconds": 60, "onStateLoss": "panic"},
    ],
)
def test_a_pair_that_cannot_be_is_refused_when_it_is_written(rule: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        RateLimitSpec.model_validate({"rules": [rule]})


def test_a_rule_says_what_to_do_without_the_state_store() -> None:
    rule = LimitRule.model_validate({"meter": "requests", "amount": 1, "windowSeconds": 60})
    assert (rule.shadow, rule.on_state_loss) == (False, "local")
