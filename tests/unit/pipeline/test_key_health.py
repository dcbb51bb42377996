"""Keys whose credential is refused, replaced or lost come back by themselves, and no sooner."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from relay_gateway.catalog.snapshot import HostKey
from relay_gateway.errors import SecretUnavailableError
from relay_gateway.pipeline.key_health import LONGEST_BENCH, REFUSED_BENCH
from relay_gateway.plugin import ResolvedSecret, RowBinding, SecretRef
from relay_gateway.testing.catalog import TableBackend
from relay_gateway.testing.exchanges import FakeExchange
from relay_gateway.testing.world import PipelineWorld, json_answer


@pytest.fixture
def world(tmp_path: Path) -> PipelineWorld:
    """A world in which only the key k1 is left on the first host, and none on the second."""
    world = PipelineWorld(tmp_path)
    world.draft.rows = [row for row in world.draft.rows if row.id not in world.keys[1:]]
    world.publish()
    return world


def state(world: PipelineWorld) -> dict[str, object]:
    return world.pools.describe(world.keys[0])


def key_of(world: PipelineWorld) -> HostKey:
    return world.live.current.host_keys[world.keys[0]]


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def ask(world: PipelineWorld, *replies: FakeExchange) -> int:
    """The status of one more request."""
    world.records.clear()
    caller = world.caller()
    await world.run(caller, *replies)
    return caller.status


async def tended(world: PipelineWorld, seconds: float) -> None:
    """Lets time pass as a running gateway would."""
    for _ in range(int(seconds * 2)):
        world.clock.advance(0.5)
        world.credentials.tend()
        await settle()


def sent(world: PipelineWorld) -> list[bytes]:
    return [request.headers.rpartition(b"Bearer ")[2].strip() for _, request in world.client.sent]


async def test_a_replaced_value_is_tried_within_the_same_request(world: PipelineWorld) -> None:
    assert await ask(world, json_answer()) == 200
    world.backend.table["k1"] = "sk-rotated"
    assert await ask(world, json_answer(401, b"no"), json_answer()) == 200
    assert sent(world) == [b"sk-one", b"sk-one", b"sk-rotated"]
    assert state(world)["state"] == "available"
    assert world.backend.fetches == ["k1", "k1"]


async def test_a_value_that_is_refused_again_is_not_tried_for_ever(world: PipelineWorld) -> None:
    await ask(world, json_answer())
    replies = []
    for number in range(5):
        world.backend.table["k1"] = f"sk-{number}"
        replies.append(json_answer(401, b"no"))
    assert await ask(world, *replies) == 502
    assert len(sent(world)) == 3
    assert len(world.client.replies) == 3


async def test_the_same_value_benches_the_key_with_the_reason(world: PipelineWorld) -> None:
    assert await ask(world, json_answer(401, b"no")) == 502
    assert state(world)["state"] == "benched"
    assert state(world)["reason"] == "refused by the upstream, and 'table' has no other value"
    assert await ask(world) == 503
    assert sent(world) == [b"sk-one"]


async def test_a_benched_key_is_probed_slowly_and_ever_more_slowly(world: PipelineWorld) -> None:
    waits = []
    for _ in range(6):
        assert await ask(world, json_answer(401, b"no")) == 502
        waits.append(float(str(state(world)["secondsLeft"])))
        world.clock.advance(waits[-1] + 1)
    assert REFUSED_BENCH <= waits[0] <= 1.1 * REFUSED_BENCH
    assert LONGEST_BENCH <= waits[-1] <= 1.1 * LONGEST_BENCH
    assert await ask(world, json_answer()) == 200
    assert await ask(world, json_answer(401, b"no")) == 502
    assert float(str(state(world)["secondsLeft"])) <= 1.1 * REFUSED_BENCH


@pytest.mark.parametrize("late", [0.6, 2.0, 20.0])
async def test_a_new_value_ends_the_bench_without_any_request(
    world: PipelineWorld, late: float
) -> None:
    assert await ask(world, json_answer(401, b"no")) == 502
    await tended(world, late)
    assert state(world)["state"] == "benched"
    world.backend.table["k1"] = "sk-rotated"
    await tended(world, late + 2)
    assert state(world)["state"] == "available"
    assert world.pools.state(world.keys[0]).strikes == 0
    assert await ask(world, json_answer()) == 200
    assert sent(world)[-1] == b"sk-rotated"
    before = len(world.backend.fetches)
    await tended(world, 60)
    assert len(world.backend.fetches) == before


async def test_a_refused_value_is_looked_for_again_with_growing_pauses(
    world: PipelineWorld,
) -> None:
    await ask(world, json_answer(401, b"no"))
    fetches = len(world.backend.fetches)
    await tended(world, 600)
    assert 10 <= len(world.backend.fetches) - fetches <= 18


class Held:
    """Holds fetches back until it is told to let them through."""

    def __init__(self, backend: TableBackend, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = asyncio.Event()
        self._resolve = backend.resolve
        monkeypatch.setattr(backend, "resolve", self.resolve)

    async def resolve(self, stored: SecretRef, binding: RowBinding) -> ResolvedSecret:
        await self.open.wait()
        return await self._resolve(stored, binding)


async def test_requests_that_come_during_the_fetch_wait_for_it(
    world: PipelineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ask(world, json_answer())
    held = Held(world.backend, monkeypatch)
    world.backend.table["k1"] = "sk-rotated"
    world.client.replies = [json_answer(401, b"no"), *(json_answer() for _ in range(21))]
    callers = [world.caller() for _ in range(21)]
    first = asyncio.ensure_future(world.handle(callers[0]))
    await settle()
    others = [asyncio.ensure_future(world.handle(caller)) for caller in callers[1:]]
    await settle()
    assert len(sent(world)) == 2
    held.open.set()
    await asyncio.gather(first, *others)
    assert [caller.status for caller in callers] == [200] * 21
    assert sent(world)[2:] == [b"sk-rotated"] * 21
    assert world.backend.fetches == ["k1", "k1"]


async def test_a_refusal_of_the_old_value_says_nothing_about_the_new_one(
    world: PipelineWorld,
) -> None:
    old = await world.credentials.get(key_of(world))
    world.backend.table["k1"] = "sk-rotated"
    world.credentials.refused(key_of(world), old)
    await settle()
    for status in (401, 429):
        assert await ask(world, json_answer(), json_answer()) == 200
        world.client.sent.clear()
        late = world.pipeline._dispatcher.health
        verdict = world.provider.classify(status, {}, b"")
        late.take(verdict, key_of(world), old, world.model)
        await settle()
        assert state(world)["state"] == "available"


async def test_a_store_that_cannot_be_asked_after_a_refusal_benches_with_both_reasons(
    world: PipelineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ask(world, json_answer())

    async def fail(stored: SecretRef, binding: RowBinding) -> ResolvedSecret:
        raise SecretUnavailableError("the table is locked")

    with monkeypatch.context() as patch:
        patch.setattr(world.backend, "resolve", fail)
        assert await ask(world, json_answer(401, b"no")) == 502
    reason = "refused by the upstream; secret_backend_unavailable: the table is locked"
    assert state(world)["reason"] == reason
    world.backend.table["k1"] = "sk-rotated"
    await tended(world, 3)
    assert await ask(world, json_answer()) == 200


async def test_a_doubted_key_is_drawn_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = PipelineWorld(tmp_path)
    await ask(world, json_answer())
    held = Held(world.backend, monkeypatch)
    held.open.set()
    await world.credentials.get(world.live.current.host_keys[world.keys[1]])
    held.open.clear()
    for _ in range(3):
        replies = [json_answer(401, b"no"), json_answer()] if not sent(world)[1:] else []
        assert await ask(world, *(replies or [json_answer()])) == 200
    assert sent(world) == [b"sk-one", b"sk-one", b"sk-two", b"sk-two", b"sk-two"]
    held.open.set()
    await settle()
    assert state(world)["state"] == "benched"


async def test_a_key_with_another_reference_starts_anew(world: PipelineWorld) -> None:
    assert await ask(world, json_answer(401, b"no")) == 502
    world.backend.table["k9"] = "sk-nine"
    row = next(row for row in world.draft.rows if row.id == world.keys[0])
    moved = {"kind": "table", "entry": "k9"}
    world.draft.rows[world.draft.rows.index(row)] = msgspec.structs.replace(
        row, sealed={"valueFrom": moved, "generation": 2}
    )
    world.publish()
    world.pipeline._dispatcher.health.retain(world.live.current.host_keys)
    assert state(world)["state"] == "available"
    assert await ask(world, json_answer()) == 200
    assert sent(world)[-1] == b"sk-nine"


async def test_a_reset_key_is_asked_for_at_once(world: PipelineWorld) -> None:
    del world.backend.table["k1"]
    assert await ask(world) == 503
    world.backend.table["k1"] = "sk-one"
    assert await ask(world) == 503
    world.pipeline._dispatcher.health.reset(world.keys[0])
    assert await ask(world, json_answer()) == 200


@pytest.mark.parametrize("hanging", [False, True])
async def test_f52_an_hour_without_the_backend_costs_only_keys_that_were_never_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hanging: bool
) -> None:
    world = PipelineWorld(tmp_path)
    world.clock.advance(1)
    await ask(world, json_answer())
    resolve, fetches = world.backend.resolve, 0

    async def down(stored: SecretRef, binding: RowBinding) -> ResolvedSecret:
        nonlocal fetches
        fetches += 1
        if hanging:
            raise TimeoutError  # what is left of one that hangs, after its deadline
        raise SecretUnavailableError("the backend is down")

    monkeypatch.setattr(world.backend, "resolve", down)
    for key_id in world.keys[1:]:
        await world.pipeline._dispatcher.health.secret(world.live.current.host_keys[key_id])
    for second in range(3600):
        await tended(world, 1)
        assert world.pools.is_benched(world.keys[1])
        assert world.pools.is_benched(world.keys[2])
        if second % 10 == 0:
            assert await ask(world, json_answer()) == 200
    assert set(sent(world)) == {b"sk-one"}
    assert fetches <= 3 * (3600 / 54 + 8)
    known = world.credentials.describe(world.keys[0])
    assert (known["resolved"], known["stale"]) == (True, True)
    assert float(str(known["ageSeconds"])) >= 3600
    assert "secret_backend_unavailable" in str(known["lastError"])
    monkeypatch.setattr(world.backend, "resolve", resolve)
    await tended(world, 70)
    for key_id in world.keys:
        assert world.pools.describe(key_id)["state"] == "available"
        shown = world.credentials.describe(key_id)
        assert (shown["resolved"], shown["stale"], shown["lastError"]) == (True, False, None)
