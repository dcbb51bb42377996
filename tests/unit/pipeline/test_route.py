"""Plans: which hosts and keys a request may use, in which order, or exactly why none."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from relay_gateway.errors import RequestRefusedError
from relay_gateway.pipeline.route import Plan, Router, usable_models
from relay_gateway.testing.world import PipelineWorld


@pytest.fixture
async def world(tmp_path: Path) -> PipelineWorld:
    return PipelineWorld(tmp_path)


def route(
    world: PipelineWorld,
    name: str,
    *,
    policy: str | None = None,
    pin: str | None = None,
    wire_format: str = "plain.chat",
) -> Plan:
    snapshot = world.live.current
    found = snapshot.policies[policy or world.policy]
    return Router().route(snapshot, found, name, wire_format, pin)


def hosts(plan: Plan) -> list[str]:
    return [candidate.binding.host.slug for candidate in plan.candidates()]


def refused(world: PipelineWorld, name: str, **more: str) -> tuple[int, str]:
    with pytest.raises(RequestRefusedError) as refusal:
        route(world, name, **more)
    return refusal.value.status, refusal.value.code


@pytest.mark.parametrize("name", ["m", "acme/m", "short", "m-2026-11", "m@east"])
async def test_a_model_has_many_names(world: PipelineWorld, name: str) -> None:
    world.draft.rows[4].spec["aliases"] = ["short", "m-*"]
    world.publish()
    assert route(world, name).model.id == world.model


@pytest.mark.parametrize("name", ["M", "m ", "short", "acme/", "m@nowhere", "@east", ""])
async def test_t34_names_match_byte_for_byte(world: PipelineWorld, name: str) -> None:
    assert refused(world, name) == (404, "model_not_found")


async def test_priority_orders_hosts_and_a_pin_leaves_one(world: PipelineWorld) -> None:
    assert hosts(route(world, "m")) == ["east", "west"]
    assert hosts(route(world, "m", pin="west")) == ["west"]
    assert hosts(route(world, "m@west")) == ["west"]
    assert refused(world, "m", pin="nowhere") == (400, "invalid_request")


async def test_equal_priorities_are_drawn_by_weight(world: PipelineWorld) -> None:
    bindings = world.draft.rows[4].spec["bindings"]
    bindings[1]["priority"] = 0
    bindings[0]["weight"] = 4
    world.publish()
    plan = route(world, "m")
    firsts = Counter(hosts(plan)[0] for _ in range(2000))
    assert 1500 < firsts["east"] < 1700


async def test_a_policy_limits_hosts_and_keys(world: PipelineWorld) -> None:
    east = world.draft.policy("east", models=["m@east"])
    one = world.draft.policy("one", hostKeyIds=[world.keys[2]])
    world.publish()
    assert hosts(route(world, "m", policy=east)) == ["east"]
    plan = route(world, "m", policy=one)
    assert hosts(plan) == ["west"]
    assert [key.slug for key in plan.candidates()[0].keys] == ["k3"]


async def test_a_host_keys_own_policy_limits_what_it_serves(world: PipelineWorld) -> None:
    other = world.draft.policy("other", models=["another"])
    world.draft.rows[5].spec["policyId"] = other
    world.publish()
    assert [key.slug for key in route(world, "m").candidates()[0].keys] == ["k2"]


async def test_disabled_entities_are_as_if_absent(world: PipelineWorld) -> None:
    world.draft.rows[1].spec["enabled"] = False
    world.publish()
    assert hosts(route(world, "m")) == ["west"]
    world.draft.rows[2].spec["enabled"] = False
    world.publish()
    assert refused(world, "m") == (503, "no_available_host")
    world.draft.rows[4].spec["enabled"] = False
    world.publish()
    assert refused(world, "m") == (404, "model_not_found")


async def test_fallback_models_follow_when_they_are_granted(world: PipelineWorld) -> None:
    spare = world.draft.model("spare", [world.west], provider_id=world.vendor)
    world.draft.rows[4].spec["fallbacks"] = [spare]
    world.publish()
    models = [candidate.model.slug for candidate in route(world, "m").candidates()]
    assert models == ["m", "m", "spare"]
    only = world.draft.policy("only", models=["m"])
    world.publish()
    assert len(route(world, "m", policy=only).candidates()) == 2


async def test_a_format_that_no_host_speaks_is_the_callers_mistake(world: PipelineWorld) -> None:
    assert refused(world, "m", wire_format="other.chat") == (400, "invalid_request")


async def test_listed_models_are_those_that_can_be_called(world: PipelineWorld) -> None:
    world.draft.model("keyless", [world.draft.host("south")], provider_id=world.vendor)
    free = world.draft.host("north", noAuth=True)
    world.draft.model("free", [free], provider_id=world.vendor)
    world.publish()
    snapshot = world.live.current
    names = [model.name for model in usable_models(snapshot, snapshot.policies[world.policy])]
    assert names == ["free", "m"]
    assert usable_models(snapshot, None) == []


async def test_a_plan_is_made_once_per_snapshot(world: PipelineWorld) -> None:
    router = Router()
    snapshot = world.live.current
    policy = snapshot.policies[world.policy]
    first = router.route(snapshot, policy, "m", "plain.chat", None)
    assert router.route(snapshot, policy, "m", "plain.chat", None) is first
    world.publish()
    assert router.route(world.live.current, policy, "m", "plain.chat", None) is not first
