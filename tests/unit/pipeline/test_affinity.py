"""A conversation goes on with the key whose account has its prompt in a cache."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from relay_gateway.pipeline.affinity import (
    LIFETIME,
    LONG_LIFETIME,
    MAX_CONVERSATIONS,
    Affinity,
    Conversation,
    conversation_of,
)
from relay_gateway.testing.clock import FakeClock
from relay_gateway.testing.world import PipelineWorld, json_answer

IDS = tuple(f"k{number}" for number in range(20))


def always(_key_id: str) -> bool:
    return True


def body(system: str, *turns: str, **more: Any) -> bytes:
    messages = [{"role": "system", "content": system}]
    for number, turn in enumerate(turns):
        messages.append({"role": "assistant" if number % 2 else "user", "content": turn})
    return json.dumps({"model": "m", "messages": messages, **more}, separators=(",", ":")).encode()


LONG = "You are helpful. " * 500


def test_further_turns_belong_to_the_same_conversation() -> None:
    first = conversation_of("key", "m", body(LONG, "Hello"))
    later = conversation_of("key", "m", body(LONG, "Hello", "Hi", "And then?" * 300))
    assert first is not None
    assert later is not None
    assert first != conversation_of("key", "m", body(LONG, "Another thing"))
    assert first != conversation_of("other", "m", body(LONG, "Hello"))
    assert first != conversation_of("key", "other", body(LONG, "Hello"))
    start = conversation_of("key", "m", body(LONG, "Hello" * 400))
    assert start == conversation_of("key", "m", body(LONG, "Hello" * 400, "Hi", "And then?"))


def test_a_short_prompt_has_none_unless_it_is_marked() -> None:
    short = body("You are helpful. " * 80, "Hello")
    marked = short.replace(b'"content"', b'"cache_control":{"type":"ephemeral"},"content"', 1)
    assert conversation_of("key", "m", short) is None
    assert conversation_of("key", "m", b'{"cache_control":1}') is None
    assert conversation_of("key", "m", marked) is not None


def test_the_mark_says_for_how_long() -> None:
    marked = body(LONG, "Hello", cache_control={"type": "ephemeral", "ttl": "1h"})
    plain, long = conversation_of("k", "m", body(LONG, "Hello")), conversation_of("k", "m", marked)
    assert plain is not None
    assert long is not None
    # Members that follow the messages are beyond what is searched where these are very long.
    assert (plain.lifetime, long.lifetime) == (LIFETIME, LONG_LIFETIME)


def test_conversations_spread_over_all_keys_and_all_processes_choose_alike() -> None:
    clock = FakeClock()
    one, two = Affinity(clock), Affinity(clock)
    chosen = [one.prefer(Conversation(n * 7919, LIFETIME), IDS, always) for n in range(2000)]
    other = [two.prefer(Conversation(n * 7919, LIFETIME), IDS[::-1], always) for n in range(2000)]
    assert chosen == other
    counts = Counter(chosen)
    assert len(counts) == len(IDS)
    assert max(counts.values()) < 200


def test_a_key_that_is_left_out_moves_only_its_own_conversations() -> None:
    affinity = Affinity(FakeClock())
    talks = [Conversation(n * 7919, LIFETIME) for n in range(500)]
    before = [affinity.prefer(talk, IDS, always) for talk in talks]
    after = [affinity.prefer(talk, IDS, lambda one: one != "k3") for talk in talks]
    assert all(new == old for old, new in zip(before, after, strict=True) if old != "k3")
    assert "k3" not in after


def test_the_key_that_served_last_is_preferred_within_the_lifetime_of_the_cache() -> None:
    clock = FakeClock()
    affinity, talk = Affinity(clock), Conversation(1, LIFETIME)
    usual = affinity.prefer(talk, IDS, always)
    other = next(one for one in IDS if one != usual)
    affinity.served(talk, other)
    assert affinity.prefer(talk, IDS, always) == other
    clock.advance(LIFETIME + 1)
    assert affinity.prefer(talk, IDS, always) == usual
    assert affinity.prefer(talk, IDS, lambda _: False) is None


def test_the_share_of_hits_is_counted() -> None:
    clock = FakeClock()
    affinity, talk = Affinity(clock), Conversation(1, LIFETIME)
    for key_id in ("a", "a", "a", "b"):
        affinity.served(talk, key_id)
    clock.advance(LIFETIME + 1)
    affinity.served(talk, "b")
    assert (affinity.starts, affinity.hits, affinity.moves) == (2, 2, 1)


def test_what_is_remembered_is_bounded() -> None:
    affinity = Affinity(FakeClock())
    for number in range(MAX_CONVERSATIONS + 50):
        affinity.served(Conversation(number, LIFETIME), "a")
    assert len(affinity._served) == MAX_CONVERSATIONS


@pytest.mark.parametrize("strategy", ["round-robin", "weighted", "least-recently-used"])
async def test_a_long_conversation_stays_with_its_key_under_every_strategy(
    world: PipelineWorld, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    monkeypatch.setattr("relay_gateway.pipeline.affinity.MIN_UNMARKED", 300)
    monkeypatch.setattr("relay_gateway.pipeline.affinity.MIN_MARKED", 300)
    monkeypatch.setattr("relay_gateway.pipeline.dispatch.MIN_MARKED", 300)
    world.draft.rows[3].spec["keySelection"] = strategy
    world.backend.table["k4"] = "sk-four"
    world.draft.host_key("k4", world.east, world.policy)
    world.draft.rows[4].spec["bindings"][1]["priority"] = 1
    world.publish()
    used = []
    for turn in range(6):
        world.records.clear()
        text = body("Be kind. " * 40, "Hello", *["again"] * turn)
        used.append((await world.run(world.caller(text), json_answer())).host_key_id)
    assert len(set(used)) == 1
    assert (world.dispatcher.affinity.hits, world.dispatcher.affinity.starts) == (5, 1)
    world.pools.bench(used[0] or "", "throttled by the upstream", 60)
    world.records.clear()
    moved = await world.run(world.caller(body("Be kind. " * 40, "Hello")), json_answer())
    assert moved.host_key_id not in (used[0], None)
    assert world.dispatcher.affinity.moves == 1
