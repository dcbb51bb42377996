"""Explanations: what they say is what the pipeline does, and why."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.explain import Explainer, Question, users_of
from relay_gateway.pipeline.explanation import Explanation
from relay_gateway.plugin import UsageRecord
from relay_gateway.registry.plugins import ServedEndpoint
from relay_gateway.testing.callers import FakeCaller
from relay_gateway.testing.catalog import CatalogDraft, PlainFormat
from relay_gateway.testing.world import PipelineWorld, json_answer


class OtherFormat(PlainFormat):
    """A format that no host of these worlds speaks."""

    name = "other.chat"


FORMATS = (PlainFormat(), OtherFormat())
HOSTS = ("h0", "h1", "h2")
REFERENCES = ("*", "m0", "acme", "acme/m1", "@h0", "m0@h1", "acme@h2", "m1", "acme/m0@h0", "none")
NAMES = ("m0", "acme/m0", "m0@h1", "m1", "also", "pre-x", "nope", "m0@nowhere")
ADDRESSES = ("10.1.2.3", "127.0.0.1")
PAST, FUTURE = "2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z"


@dataclass
class Drawn:
    """A world, and a request to it."""

    hosts: list[dict[str, Any]]
    models: list[dict[str, Any]]
    policies: list[dict[str, Any]]
    host_keys: list[dict[str, Any]]
    relay_key: dict[str, Any]
    name: str
    pin: str | None
    address: str
    format: int
    benched: list[int] = field(default_factory=list)


def several(items: tuple[str, ...]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(items), max_size=3, unique=True)


mostly = st.sampled_from([True, True, True, False])
a_host = st.fixed_dictionaries({"enabled": mostly, "noAuth": st.sampled_from([False, False, True])})
a_binding = st.fixed_dictionaries(
    {
        "host": st.integers(0, 2),
        "priority": st.integers(0, 1),
        "weight": st.integers(0, 2),
        "enabled": mostly,
    }
)
a_model = st.fixed_dictionaries(
    {
        "bindings": st.lists(a_binding, min_size=1, max_size=3, unique_by=lambda one: one["host"]),
        "enabled": mostly,
        "fallback": st.booleans(),
    }
)
a_policy = st.fixed_dictionaries(
    {
        "models": st.one_of(st.just(["*"]), several(REFERENCES)),
        "deny": st.one_of(st.just([]), several(REFERENCES)),
        "enabled": mostly,
        "keys": st.lists(st.integers(0, 5), max_size=2, unique=True),
        "keySelection": st.sampled_from(["prioritized", "round-robin", "weighted"]),
    }
)
a_host_key = st.fixed_dictionaries(
    {"host": st.integers(0, 2), "policy": st.integers(0, 1), "enabled": mostly}
)
a_relay_key = st.fixed_dictionaries(
    {
        "policy": st.integers(0, 1),
        "enabled": mostly,
        "expiresAt": st.sampled_from([None, None, FUTURE, PAST]),
        "revokedAt": st.sampled_from([None, None, None, PAST]),
        "allowedCidrs": st.sampled_from([[], [], ["10.0.0.0/8"]]),
    }
)
worlds = st.builds(
    Drawn,
    hosts=st.lists(a_host, min_size=3, max_size=3),
    models=st.lists(a_model, min_size=2, max_size=2),
    policies=st.lists(a_policy, min_size=2, max_size=2),
    host_keys=st.lists(a_host_key, min_size=6, max_size=6),
    relay_key=a_relay_key,
    name=st.one_of(st.just("m0"), st.sampled_from(NAMES)),
    pin=st.sampled_from([None, None, None, "h0", "h2", "h9"]),
    address=st.sampled_from(ADDRESSES),
    format=st.sampled_from([0, 0, 0, 1]),
    benched=st.lists(st.integers(0, 5), max_size=4, unique=True),
)


class DrawnWorld(PipelineWorld):
    """The pipeline over a catalog that was drawn."""

    def __init__(self, directory: Path, drawn: Drawn) -> None:
        super().__init__(directory)
        self.drawn = drawn
        self.draft = draft = CatalogDraft()
        vendor = draft.add("provider", "acme", {})
        hosts = [draft.host(slug, **spec) for slug, spec in zip(HOSTS, drawn.hosts, strict=True)]
        models = [
            draft.add("model", f"m{number}", _model(spec, vendor, hosts))
            for number, spec in enumerate(drawn.models)
        ]
        draft.rows[4].spec["aliases"] = ["also", "pre-*"]
        if drawn.models[0]["fallback"]:
            draft.rows[4].spec["fallbacks"] = [models[1]]
        policies = [draft.policy(f"p{n}", **_policy(p)) for n, p in enumerate(drawn.policies)]
        self.backend.table = {f"k{n}": f"sk-{n}" for n in range(6)}
        keys = [
            draft.host_key(
                f"k{n}", hosts[key["host"]], policies[key["policy"]], enabled=key["enabled"]
            )
            for n, key in enumerate(drawn.host_keys)
        ]
        for row, policy in zip(draft.rows[6:8], drawn.policies, strict=True):
            row.spec["hostKeyIds"] = [keys[number] for number in policy["keys"]]
        spec = {name: value for name, value in drawn.relay_key.items() if name != "policy"}
        self.relay_key = draft.relay_key("app", policies[drawn.relay_key["policy"]], **spec)
        for number in drawn.benched:
            self.pools.bench(keys[number], "throttled by the upstream", 60)
        self.publish()

    async def explanation(self) -> Explanation:
        snapshot, drawn = self.live.current, self.drawn
        found = snapshot.relay_keys.get(bytes.fromhex(self.relay_key.digest))
        wire_format = FORMATS[drawn.format]
        question = Question(
            drawn.name,
            ServedEndpoint(wire_format.endpoints[0], wire_format),
            "app",
            found.key if found else None,
            "" if found else "the key is disabled or revoked",
            drawn.pin,
            drawn.address,
        )
        return await Explainer(self.pools, self.credentials).explain(snapshot, question)

    def call(self, caller: FakeCaller) -> Call:
        wire_format = FORMATS[self.drawn.format]
        call = Call(wire_format.endpoints[0], wire_format, self.live.current, self.drawn.address)
        call.pin = self.drawn.pin
        return call

    async def request(self) -> tuple[FakeCaller, UsageRecord]:
        """What the pipeline makes of the same request, with hosts that answer everything."""
        self.records.clear()
        caller = self.caller(json.dumps({"model": self.drawn.name}).encode())
        return caller, await self.run(caller, json_answer())


def _model(drawn: dict[str, Any], vendor: str, hosts: list[str]) -> dict[str, Any]:
    bindings = [
        {**{k: v for k, v in binding.items() if k != "host"}, "hostId": hosts[binding["host"]]}
        for binding in drawn["bindings"]
    ]
    return {"providerId": vendor, "bindings": bindings, "enabled": drawn["enabled"]}


def _policy(drawn: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in drawn.items() if name != "keys"}


@settings(max_examples=300, deadline=None)
@given(drawn=worlds)
def test_the_outcome_is_what_the_pipeline_does(
    tmp_path_factory: pytest.TempPathFactory, drawn: Drawn
) -> None:
    async def check() -> None:
        world = DrawnWorld(tmp_path_factory.getbasetemp(), drawn)
        outcome = (await world.explanation()).outcome
        hosts = {host.id: host.slug for host in world.live.current.hosts.values()}
        for _ in range(3):
            caller, record = await world.request()
            if outcome.verdict == "refused":
                assert (caller.status, record.error_code) == (outcome.status, outcome.code)
                assert json.loads(b"".join(caller.chunks)) == outcome.body
                assert (record.outcome, record.attempts) == ("rejected", ())
            else:
                assert (caller.status, record.outcome) == (200, "ok")
                assert hosts[record.host_id or ""] in outcome.hosts
        assert (await world.explanation()).outcome == outcome

    asyncio.run(check())


@settings(max_examples=100, deadline=None)
@given(drawn=worlds)
def test_a_candidate_without_an_obstacle_is_one_of_the_plan_and_no_other(
    tmp_path_factory: pytest.TempPathFactory, drawn: Drawn
) -> None:
    async def check() -> None:
        explained = await DrawnWorld(tmp_path_factory.getbasetemp(), drawn).explanation()
        open_hosts = {one.host for one in explained.candidates if one.stopped_by is None}
        if explained.outcome.verdict == "routed":
            assert all(step.ok for step in explained.steps)
            assert set(explained.outcome.hosts) <= open_hosts
        else:
            assert not explained.steps[-1].ok
            first = [one for one in explained.candidates if one.model == "m0"]
            if drawn.name.startswith("m0"):
                assert all(one.stopped_by is not None for one in first)

    asyncio.run(check())


def steps(explained: Explanation) -> dict[str, bool]:
    return {step.step: step.ok for step in explained.steps}


async def test_a_routed_request_passes_every_step(world: PipelineWorld, explain: Any) -> None:
    explained = await explain()
    names = ("relay-key", "policy", "model", "grants", "hosts", "host-keys")
    assert steps(explained) == dict.fromkeys(names, True)
    assert explained.outcome.hosts == ("east",)
    assert [one.host for one in explained.candidates] == ["east", "west"]
    assert [key.slug for key in explained.candidates[0].host_keys] == ["k1", "k2"]
    (match,) = explained.references
    assert (match.reference, match.effect, match.hosts) == ("*", "grant", ("east", "west"))
    assert world.client.sent == []
    assert world.backend.fetches == []


async def test_equal_hosts_may_both_be_first_and_those_without_weight_come_last(
    world: PipelineWorld, explain: Any
) -> None:
    bindings = world.draft.rows[4].spec["bindings"]
    bindings[1]["priority"] = 0
    world.publish()
    assert (await explain()).outcome.hosts == ("east", "west")
    bindings[0]["weight"] = 0
    world.publish()
    assert (await explain()).outcome.hosts == ("west",)


async def test_a_benched_key_says_why_and_for_how_long(world: PipelineWorld, explain: Any) -> None:
    for key_id in world.keys[:2]:
        world.pools.bench(key_id, "throttled by the upstream", 30)
    explained = await explain()
    assert explained.outcome.hosts == ("west",)
    east = explained.candidates[0]
    assert east.stopped_by == "benched"
    key = east.host_keys[0]
    assert (key.state, key.reason) == ("benched", "throttled by the upstream")
    assert key.seconds_left is not None
    assert 29 < key.seconds_left <= 33
    world.pools.bench(world.keys[2], "refused by the upstream", 90)
    refused = await explain()
    assert steps(refused)["host-keys"] is False
    assert (refused.outcome.status, refused.outcome.code) == (503, "no_available_host_key")
    assert refused.outcome.retry_after is not None
    assert 1 <= refused.outcome.retry_after <= 33


async def test_the_deny_that_refuses_is_named(world: PipelineWorld, explain: Any) -> None:
    world.draft.rows[3].spec.update(models=["acme", "m"], deny=["m@west", "@east"])
    world.publish()
    explained = await explain()
    assert (explained.outcome.status, explained.outcome.code) == (403, "model_not_allowed")
    found = [(one.reference, one.effect, one.hosts) for one in explained.references]
    assert found == [
        ("acme", "grant", ("east", "west")),
        ("m", "grant", ("east", "west")),
        ("m@west", "deny", ("west",)),
        ("@east", "deny", ("east",)),
    ]
    assert steps(explained)["grants"] is False


async def test_a_disabled_policy_is_named_before_the_refusal(
    world: PipelineWorld, explain: Any
) -> None:
    world.draft.rows[3].spec["enabled"] = False
    world.publish()
    explained = await explain()
    assert steps(explained)["policy"] is False
    assert explained.outcome.code == "model_not_allowed"


async def test_an_address_that_is_not_given_is_taken_to_be_a_good_one(
    world: PipelineWorld, explain: Any
) -> None:
    key = world.draft.rows[-1]
    key.spec["allowedCidrs"] = ["2001:db8::/32", "10.0.0.0/8"]
    world.publish()
    assumed = await explain()
    assert assumed.outcome.verdict == "routed"
    assert "taken to be" in assumed.steps[0].message
    assert (await explain(address="10.9.9.9")).outcome.verdict == "routed"
    assert (await explain(address="192.0.2.1")).outcome.code == "address_not_allowed"


@pytest.mark.parametrize(
    ("name", "way"),
    [("m", "name"), ("acme/m", "provider and name"), ("short", "alias"), ("m-9", "pattern"),
     ("m@east", "name and a host")],
)  # fmt: skip
async def test_it_says_how_a_name_was_understood(
    world: PipelineWorld, explain: Any, name: str, way: str
) -> None:
    world.draft.rows[4].spec["aliases"] = ["short", "m-*"]
    world.publish()
    (step,) = [step for step in (await explain(model=name)).steps if step.step == "model"]
    assert f"by its {way}" in step.message


async def test_who_may_use_a_model_comes_in_pages(world: PipelineWorld) -> None:
    draft = world.draft
    east = draft.policy("east-only", models=["m@east"], hostKeyIds=[world.keys[2]])
    draft.policy("nothing", models=["other"])
    draft.relay_key("second", east)
    draft.relay_key("first", east)
    world.publish()
    snapshot = world.live.current
    model = snapshot.models["m"]
    first = users_of(snapshot, model, "", 1)
    assert [(one.policy, one.hosts, one.callable) for one in first.policies] == [
        ("all", ("east", "west"), True)
    ]
    assert first.next_cursor is not None
    rest = users_of(snapshot, model, first.next_cursor, 5)
    assert rest.next_cursor is None
    (only,) = rest.policies
    assert (only.policy, only.hosts, only.callable) == ("east-only", ("east",), False)
    assert (only.relay_keys, only.relay_key_count) == (("first", "second"), 2)
