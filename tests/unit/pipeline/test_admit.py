"""Requests and their limits: what is claimed, refused, told and given back."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from relay_gateway.errors import UpstreamClosedError, UpstreamConnectError
from relay_gateway.limits.choose import limiter_over
from relay_gateway.testing.callers import FakeCaller
from relay_gateway.testing.cancel_storm import cancel_storm
from relay_gateway.testing.waiting_store import WaitingStore
from relay_gateway.testing.world import PipelineWorld, json_answer

MINUTE: dict[str, Any] = {"windowSeconds": 60, "strategy": "fixed-window"}
LIMITED = b'{"model":"m","max_tokens":40,"pad":"12345678901234567890"}'


def limit(world: PipelineWorld, *rules: dict[str, Any], scope: str = "relay-key") -> str:
    """Has the policy of the world apply ``rules``, and that of its host keys none."""
    free = world.draft.policy("free")
    for key in world.keys:
        world.change(key, policyId=free)
    rate_limit = world.rate_limit("tight", *({**MINUTE, **one} for one in rules))
    world.change(world.policy, rateLimits=[{"rateLimitId": rate_limit, "scope": scope}])
    return rate_limit


async def ask(
    world: PipelineWorld, body: bytes = b'{"model":"m"}', *, key: str | None = None, **header: str
) -> FakeCaller:
    """One request that the upstream answers well, if it is asked."""
    headers = [(name.replace("_", "-").encode(), v.encode()) for name, v in header.items()]
    caller = world.caller(body, key=key, headers=headers)
    world.client.replies = [json_answer()]
    call = world.call(caller)
    if "X_Relay_Request_Tags" in header:
        call.tags = json.loads(header["X_Relay_Request_Tags"])
    await world.handle(caller, call)
    await caller.wait_for_end()
    return caller


def lines_of(caller: FakeCaller) -> dict[str, str]:
    """The lines that tell about limits."""
    found = re.findall(rb"(x-ratelimit-[a-z-]+|retry-after): ([^\r]*)\r\n", caller.header_block)
    return {name.decode(): value.decode() for name, value in found}


async def test_a_full_limit_refuses_with_its_name_and_when_to_come_again(
    world: PipelineWorld,
) -> None:
    limit(world, {"meter": "requests", "amount": 1})
    assert (await ask(world)).status == 200
    refused = await ask(world)
    assert refused.status == 429
    error = json.loads(refused.body)["error"]
    assert (error["code"], error["type"]) == ("rate_limit_exceeded", "rate_limit_error")
    assert "tight (1 requests per 60 s)" in error["message"]
    assert len(world.client.sent) == 1
    record = world.records[-1]
    assert (record.outcome, record.error_code) == ("rejected", "rate_limit_exceeded")
    lines = lines_of(refused)
    assert 1 <= int(lines["retry-after"]) <= 67
    assert lines["x-ratelimit-remaining-requests"] == "0"


async def test_the_lines_about_limits_are_these(world: PipelineWorld) -> None:
    limit(
        world,
        {"meter": "requests", "amount": 5},
        {"meter": "tokens", "amount": 1000},
        {"meter": "tokens.output", "amount": 50},
    )
    caller = await ask(world, LIMITED)
    lines = lines_of(caller)
    assert list(lines) == [
        "x-ratelimit-limit-requests",
        "x-ratelimit-remaining-requests",
        "x-ratelimit-reset-requests",
        "x-ratelimit-limit-tokens",
        "x-ratelimit-remaining-tokens",
        "x-ratelimit-reset-tokens",
    ]
    assert lines["x-ratelimit-limit-requests"] == "5"
    assert lines["x-ratelimit-remaining-requests"] == "4"
    # Of the two about tokens, the one of which a smaller share is left.
    assert lines["x-ratelimit-limit-tokens"] == "50"
    assert lines["x-ratelimit-remaining-tokens"] == "10"
    assert re.fullmatch(r"(1m)?[0-9.]+(s|ms)", lines["x-ratelimit-reset-tokens"])


async def test_f59_callers_that_were_refused_together_do_not_come_back_together(
    world: PipelineWorld,
) -> None:
    rate_limit = world.rate_limit("hour", {"meter": "requests", "amount": 1, "windowSeconds": 3600})
    world.change(world.policy, rateLimits=[{"rateLimitId": rate_limit}])
    await ask(world)
    waits = {lines_of(await ask(world))["retry-after"] for _ in range(20)}
    assert len(waits) > 5
    assert all(3600 <= int(wait) <= 3961 for wait in waits)


async def test_the_limits_of_the_upstream_are_not_told_beside_ones_own(
    world: PipelineWorld,
) -> None:
    limit(world, {"meter": "requests", "amount": 5})
    world.provider.response_headers = frozenset({b"x-ratelimit-limit-requests"})  # type: ignore[misc]
    world.limit_by(world.limiter)
    caller = world.caller()
    await world.run(caller, json_answer(x_ratelimit_limit_requests="900"))
    assert caller.header_block.count(b"x-ratelimit-limit-requests") == 1
    assert lines_of(caller)["x-ratelimit-limit-requests"] == "5"


METERS: dict[str, int] = {
    "requests": 2,
    "tokens": 110,  # the first one claims 14 + 40, and has used 8
    "tokens.input": 18,  # claims 14, has used 3
    "tokens.output": 46,  # claims 40, has used 5
    "cost": 46_000,  # claims 40 x 1000, has used 5 x 1000
}


@pytest.mark.parametrize("meter", METERS)
@pytest.mark.parametrize(
    "strategy", ["token-bucket", "sliding-window", "fixed-window", "session-window"]
)
async def test_each_meter_counts_what_was_used_and_not_what_was_claimed(
    world: PipelineWorld, meter: str, strategy: str
) -> None:
    rates = [{"meter": "tokens.output", "amount": "1"}, {"meter": "tokens.input", "amount": "0"}]
    pricing = world.draft.add("pricing", "dear", {"currency": "USD", "rates": rates})
    bindings = [{"hostId": world.east, "pricingId": pricing}]
    world.change(world.model, bindings=bindings)
    limit(world, {"meter": meter, "amount": METERS[meter], "strategy": strategy})
    statuses = [(await ask(world, LIMITED)).status for _ in range(20)]
    granted = statuses.index(429)
    claim, use = {
        "requests": (1, 1),
        "tokens": (54, 8),
        "tokens.input": (14, 3),
        "tokens.output": (40, 5),
        "cost": (40_000, 5_000),
    }[meter]
    assert granted == (METERS[meter] - claim) // use + 1


async def test_concurrency_is_free_again_when_the_answer_has_ended(world: PipelineWorld) -> None:
    rate_limit = world.rate_limit("slots", {"meter": "concurrency", "amount": 1})
    world.change(world.policy, rateLimits=[{"rateLimitId": rate_limit}])
    first, second = world.caller(), world.caller()
    exchange = json_answer(body=None)
    world.client.replies = [exchange]
    await world.handle(first)
    await world.handle(second)
    assert second.status == 429
    assert "x-ratelimit-limit-requests" not in lines_of(second)
    exchange.push(b"3:5")
    exchange.end()
    await first.wait_for_end()
    assert (await ask(world)).status == 200


@pytest.mark.parametrize("scope", ["relay-key", "policy", "model", "tag:team", "global"])
async def test_a_scope_says_which_requests_are_counted_together(
    world: PipelineWorld, scope: str
) -> None:
    limit(world, {"meter": "requests", "amount": 1}, scope=scope)
    spec = next(row.spec for row in world.draft.rows if row.id == world.policy)
    other_policy = world.draft.policy("other", rateLimits=spec["rateLimits"])
    same = world.draft.relay_key("same", world.policy, tags={"team": "b"})
    other = world.draft.relay_key("other", other_policy, tags={"team": "a"})
    world.draft.model("n", [world.east], provider_id=world.vendor)
    world.publish()
    assert (await ask(world)).status == 200
    answers = {
        "same key": (await ask(world)).status,
        "same policy": (await ask(world, key=same.plaintext.reveal())).status,
        "other policy": (await ask(world, key=other.plaintext.reveal())).status,
        "other model": (await ask(world, b'{"model":"n"}')).status,
    }
    together = {
        "relay-key": {"same key", "other model"},
        "policy": {"same key", "same policy", "other model"},
        "model": {"same key", "same policy", "other policy"},
        "tag:team": {"same key", "other policy", "other model"},
        "global": set(answers),
    }[scope]
    assert {name for name, status in answers.items() if status == 429} == together


async def test_a_caller_cannot_leave_its_tag_for_another(world: PipelineWorld) -> None:
    limit(world, {"meter": "requests", "amount": 1}, scope="tag:team")
    assert (await ask(world)).status == 200
    assert (await ask(world, X_Relay_Request_Tags='{"team":"x"}')).status == 429


async def test_a_limit_for_some_models_leaves_the_others_alone(world: PipelineWorld) -> None:
    rate_limit = world.rate_limit("some", {"meter": "requests", "amount": 1, "windowSeconds": 60})
    world.draft.model("n", [world.east], provider_id=world.vendor)
    world.change(world.policy, rateLimits=[{"rateLimitId": rate_limit, "models": ["acme/m"]}])
    assert [(await ask(world)).status for _ in range(2)] == [200, 429]
    caller = await ask(world, b'{"model":"n"}')
    assert (caller.status, lines_of(caller)) == (200, {})


async def test_the_limits_of_a_relay_key_are_its_own(world: PipelineWorld) -> None:
    rate_limit = world.rate_limit("own", {"meter": "requests", "amount": 1, "windowSeconds": 60})
    limited = world.draft.relay_key("limited", world.policy, rateLimitIds=[rate_limit])
    world.publish()
    plaintext = limited.plaintext.reveal()
    assert [(await ask(world, key=plaintext)).status for _ in range(2)] == [200, 429]
    assert (await ask(world)).status == 200


async def test_a_rule_that_applies_twice_is_counted_once(world: PipelineWorld) -> None:
    rate_limit = limit(world, {"meter": "requests", "amount": 2})
    both = world.draft.relay_key("both", world.policy, rateLimitIds=[rate_limit])
    world.publish()
    plaintext = both.plaintext.reveal()
    assert [(await ask(world, key=plaintext)).status for _ in range(3)] == [200, 200, 429]


async def test_a_disabled_rate_limit_is_as_if_absent_and_a_new_amount_counts_at_once(
    world: PipelineWorld,
) -> None:
    rate_limit = limit(world, {"meter": "requests", "amount": 1})
    await ask(world)
    world.change(rate_limit, enabled=False)
    assert (await ask(world)).status == 200
    rules = [{"meter": "requests", "amount": 2, **MINUTE}]
    world.change(rate_limit, enabled=True, rules=rules)
    assert [(await ask(world)).status for _ in range(2)] == [200, 429]


async def test_a_shadow_rule_counts_and_refuses_nothing(world: PipelineWorld) -> None:
    limit(world, {"meter": "requests", "amount": 1, "shadow": True})
    callers = [await ask(world) for _ in range(3)]
    assert [caller.status for caller in callers] == [200] * 3
    assert lines_of(callers[-1]) == {}
    assert {(name, n) for _, name, n in world.limiter.tally} == {("allowed", 1), ("shadow", 2)}


@pytest.mark.parametrize(
    "reply", [UpstreamConnectError("no"), UpstreamClosedError("gone"), json_answer(400)]
)
async def test_a_request_that_failed_gives_back_what_it_held(
    world: PipelineWorld, reply: Any
) -> None:
    limit(world, {"meter": "requests", "amount": 1}, {"meter": "tokens", "amount": 60})
    caller = world.caller(LIMITED)
    world.client.replies = [reply] * 6
    await world.handle(caller)
    await caller.wait_for_end()
    assert caller.status >= 400
    assert (await ask(world, LIMITED)).status == 200


async def test_t38_a_thousand_cancelled_requests_leave_nothing_behind(
    world: PipelineWorld,
) -> None:
    remains = await cancel_storm(world, world.limiter, 1000)
    assert remains.left_during[0] == 0
    assert (remains.left_after, remains.budget_after) == (remains.limits, 0)
    assert (await ask(world, LIMITED)).status == 200


async def test_a_full_host_key_is_passed_over(world: PipelineWorld) -> None:
    rate_limit = world.rate_limit("key", {"meter": "requests", "amount": 1, "windowSeconds": 60})
    tier = world.draft.policy("tier", rateLimits=[{"rateLimitId": rate_limit}])
    for key in world.keys:
        world.change(key, policyId=tier)
    for _ in range(3):
        assert (await ask(world)).status == 200
    assert [record.host_key_id for record in world.records] == world.keys
    refused = await ask(world)
    assert (refused.status, len(world.client.sent)) == (429, 3)
    assert "key (1 requests per 60 s)" in json.loads(refused.body)["error"]["message"]
    assert "retry-after" in lines_of(refused)
    world.clock.advance(61)
    assert (await ask(world)).status == 200


async def test_a_host_key_that_did_not_serve_gets_its_claim_back(world: PipelineWorld) -> None:
    rate_limit = world.rate_limit("key", {"meter": "requests", "amount": 1, "windowSeconds": 60})
    tier = world.draft.policy("tier", rateLimits=[{"rateLimitId": rate_limit}])
    for key in world.keys:
        world.change(key, policyId=tier)
    caller = world.caller()
    world.client.replies = [UpstreamConnectError("no"), json_answer()]
    await world.handle(caller)
    await caller.wait_for_end()
    assert (caller.status, world.records[-1].host_key_id) == (200, world.keys[2])
    served = [(await ask(world)).status for _ in range(3)]
    assert served == [200, 200, 429]


async def test_a_caller_that_was_refused_charges_no_other_rule(world: PipelineWorld) -> None:
    limit(
        world,
        {"meter": "requests", "amount": 5},
        {"meter": "tokens.output", "amount": 45},
    )
    await ask(world, LIMITED)
    assert (await ask(world, LIMITED)).status == 200
    refused = await ask(world, LIMITED)
    assert refused.status == 429
    assert lines_of(refused)["x-ratelimit-remaining-requests"] == "3"


async def test_a_store_that_waits_admits_and_settles_as_well(world: PipelineWorld) -> None:
    world.limit_by(limiter_over(WaitingStore(world.clock), world.clock))
    limit(world, {"meter": "requests", "amount": 2})
    tier = world.draft.policy("tier", rateLimits=[])
    world.change(world.keys[0], policyId=tier)
    assert [(await ask(world)).status for _ in range(3)] == [200, 200, 429]
    await world.limiter.aclose()


@pytest.mark.parametrize(
    ("loss", "statuses"), [("local", [200, 429]), ("open", [200, 200]), ("closed", [503, 503])]
)
async def test_without_the_state_store_each_rule_does_as_it_says(
    world: PipelineWorld, loss: str, statuses: list[int]
) -> None:
    store = WaitingStore(world.clock)
    store.mood = "fails"
    world.limit_by(limiter_over(store, world.clock))
    limit(world, {"meter": "requests", "amount": 1, "onStateLoss": loss})
    callers = [await ask(world) for _ in range(2)]
    assert [caller.status for caller in callers] == statuses
    if loss == "closed":
        assert json.loads(callers[0].body)["error"]["code"] == "limits_unavailable"
        assert "retry-after" in lines_of(callers[0])


async def test_an_answer_that_does_not_say_what_it_used_keeps_what_was_claimed(
    world: PipelineWorld,
) -> None:
    limit(world, {"meter": "tokens", "amount": 100})
    caller = world.caller(LIMITED)
    await world.run(caller, json_answer(body=b"nothing"))
    assert caller.status == 200
    assert (await ask(world, LIMITED)).status == 429


async def test_a_policy_without_rules_costs_no_reservation(world: PipelineWorld) -> None:
    call = world.call(world.caller())
    world.client.replies = [json_answer()]
    caller = world.caller()
    await world.handle(caller, call)
    assert (call.reservation, call.keys_tried, lines_of(caller)) == (None, 0, {})
