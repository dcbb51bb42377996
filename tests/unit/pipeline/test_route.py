"""Plans: which hosts and keys a request may use, in which order, or exactly why none."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from relay_gateway.errors import RequestRefusedError
from relay_gateway.pipeline.route import Plan, Router, usable_models
from relay_gateway.testing.world import PipelineWorld, json_answer


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


async def test_the_refusal_names_the_rule_that_decides(world: PipelineWorld) -> None:
    spec = world.draft.rows[3].spec
    for models, deny, pin, words in (
        (["*"], ["acme"], None, "denies the model 'm' by its rule 'acme'"),
        (["*"], ["@west"], "west", "denies the model 'm' at host 'west' by its rule '@west'"),
        (["other"], [], None, "no grant of the policy 'all' of this relay key matches"),
        (["m@east"], [], "west", "matches the model 'm' at host 'west'"),
    ):
        spec.update(models=models, deny=deny)
        world.publish()
        with pytest.raises(RequestRefusedError) as error:
            route(world, "m", pin=pin)
        assert error.value.status == 403
        assert words in error.value.message


async def test_a_policy_whose_keys_are_on_another_host_is_served_there(
    world: PipelineWorld,
) -> None:
    world.draft.rows[3].spec["hostKeyIds"] = [world.keys[2]]
    world.draft.rows[4].spec["bindings"][1]["priority"] = 5
    world.publish()
    assert hosts(route(world, "m")) == ["west"]


async def test_a_host_without_authentication_needs_no_key(world: PipelineWorld) -> None:
    world.draft.rows[1].spec["noAuth"] = True
    world.draft.rows[3].spec["hostKeyIds"] = [world.keys[2]]
    world.draft.rows[4].spec["bindings"][1]["priority"] = 5
    world.publish()
    plan = route(world, "m")
    assert hosts(plan) == ["east", "west"]
    assert plan.groups[0][0].keys == ()


JANUARY = 1_767_225_600.0


def deprecate(world: PipelineWorld, replacement: str | None, **times: str) -> None:
    world.draft.rows[4].spec["deprecated"] = {**times, "replacementId": replacement}
    world.publish()


def served(world: PipelineWorld, now: float) -> tuple[str, str | None]:
    snapshot = world.live.current
    policy = snapshot.policies[world.policy]
    plan = Router().route(snapshot, policy, "m", "plain.chat", None, now)
    return plan.model.name, plan.replaced.name if plan.replaced is not None else None


async def test_a_model_that_has_ended_is_served_by_its_replacement(world: PipelineWorld) -> None:
    new = world.draft.model("new", [world.west], provider_id=world.vendor)
    deprecate(world, new, since="2025-06-01T00:00:00Z", sunset="2026-01-01T00:00:00Z")
    assert served(world, JANUARY - 1) == ("m", None)
    assert served(world, JANUARY) == ("new", "m")


async def test_one_that_has_ended_without_a_usable_replacement_serves_itself(
    world: PipelineWorld,
) -> None:
    gone = world.draft.model("gone", [world.west], provider_id=world.vendor, enabled=False)
    for replacement in (None, gone):
        deprecate(world, replacement, sunset="2026-01-01T00:00:00Z")
        assert served(world, JANUARY) == ("m", None)


async def test_replacements_that_lead_in_a_circle_come_to_an_end(world: PipelineWorld) -> None:
    deprecated = {"sunset": "2026-01-01T00:00:00Z", "replacementId": world.model}
    other = world.draft.model(
        "other", [world.west], provider_id=world.vendor, deprecated=deprecated
    )
    deprecate(world, other, sunset="2026-01-01T00:00:00Z")
    assert served(world, JANUARY)[0] in ("m", "other")


async def test_the_replacement_has_to_be_granted_itself(world: PipelineWorld) -> None:
    new = world.draft.model("new", [world.west], provider_id=world.vendor)
    world.draft.rows[3].spec["models"] = ["m"]
    deprecate(world, new, sunset="2026-01-01T00:00:00Z")
    with pytest.raises(RequestRefusedError) as error:
        served(world, JANUARY)
    assert error.value.status == 403
    assert "'new'" in error.value.message


async def test_callers_are_told_of_the_end_of_a_model(world: PipelineWorld) -> None:
    new = world.draft.model("new", [world.west], provider_id=world.vendor)
    deprecate(world, new, since="2025-06-01T00:00:00Z", sunset="2100-01-01T00:00:00Z")
    caller = world.caller()
    await world.run(caller, json_answer())
    told = caller.answer_headers
    assert told.get(b"deprecation") == b"@1748736000"
    assert told.get(b"sunset") == b"Fri, 01 Jan 2100 00:00:00 GMT"
    assert told.get(b"x-relay-replaced-model") is None
    deprecate(world, new, sunset="2026-01-01T00:00:00Z")
    world.records.clear()
    caller = world.caller()
    record = await world.run(caller, json_answer())
    assert caller.answer_headers.get(b"x-relay-replaced-model") == b"m"
    assert (record.requested_model, record.model_id) == ("m", new)
