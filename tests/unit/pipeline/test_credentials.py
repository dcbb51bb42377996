"""Credentials are fetched once, kept, refreshed early, and outlive their backend's troubles."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from relay_gateway.catalog.snapshot import HostKey
from relay_gateway.errors import SecretError, SecretNotFoundError, SecretUnavailableError
from relay_gateway.pipeline import credentials as module
from relay_gateway.pipeline.credentials import Credentials
from relay_gateway.pipeline.known_credentials import (
    DEFAULT_TTL,
    LONGEST_PAUSE,
    MAX_STALE,
    REFRESH_AT,
)
from relay_gateway.plugin import ResolvedSecret, RowBinding, SecretRef
from relay_gateway.testing.catalog import TableBackend
from relay_gateway.testing.clock import FakeClock
from relay_gateway.testing.world import PipelineWorld


class Store:
    """Credentials over a table, and one host key of it."""

    def __init__(self, world: PipelineWorld) -> None:
        self.clock: FakeClock = world.clock
        self.backend: TableBackend = world.backend
        self.credentials: Credentials = world.credentials
        self.key: HostKey = world.live.current.host_keys[world.keys[0]]

    async def value(self) -> str:
        return (await self.credentials.get(self.key)).reveal()

    def moved(self, entry: str) -> HostKey:
        """The key with a reference to another entry of the table."""
        stored = self.key.stored.model_copy(update={"entry": entry})
        return msgspec.structs.replace(self.key, stored=stored)

    def error(self) -> str:
        return str(self.credentials.describe(self.key.id)["lastError"])


@pytest.fixture
async def store(tmp_path: Path) -> Store:
    return Store(PipelineWorld(tmp_path))


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_f52_a_hundred_callers_cost_one_fetch(store: Store) -> None:
    assert set(await asyncio.gather(*(store.value() for _ in range(100)))) == {"sk-one"}
    assert store.backend.fetches == ["k1"]
    assert store.credentials.peek(store.key) is not None


async def test_f52_a_credential_is_refreshed_before_its_time_is_over(store: Store) -> None:
    await store.value()
    store.backend.table["k1"] = "sk-next"
    store.clock.advance(DEFAULT_TTL * REFRESH_AT + 1)
    assert await store.value() == "sk-one"  # nobody waits for the refresh
    await settle()
    assert await store.value() == "sk-next"


async def test_f52_a_credential_refused_just_when_it_was_refreshed_is_fetched_again(
    store: Store,
) -> None:
    secret = await store.credentials.get(store.key)
    store.clock.advance(DEFAULT_TTL * REFRESH_AT + 1)
    store.credentials.peek(store.key)
    _, fetch = store.credentials._fetching[store.key.id]
    for _ in range(100):
        if not fetch.done():
            await asyncio.sleep(0)
    store.credentials.refused(store.key, secret)
    assert store.credentials.peek(store.key) is None
    await settle()
    assert store.backend.fetches == ["k1"] * 3
    assert store.credentials.peek(store.key) is secret


async def test_f52_the_old_credential_serves_while_its_backend_fails_and_no_longer_than_a_day(
    store: Store,
) -> None:
    await store.value()
    del store.backend.table["k1"]
    for _ in range(3):
        store.clock.advance(3600)
        assert await store.value() == "sk-one"
        await settle()
    assert "no entry 'k1'" in store.error()
    store.clock.advance(MAX_STALE)
    with pytest.raises(SecretNotFoundError):
        await store.value()


async def test_f52_a_backend_that_hangs_is_given_up_in_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(stored: SecretRef, binding: RowBinding) -> ResolvedSecret:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(store.backend, "resolve", hang)
    monkeypatch.setattr(module, "DEADLINE", 0.01)
    with pytest.raises(SecretUnavailableError, match="did not answer"):
        await store.value()


async def test_a_backend_that_raises_anything_is_unavailable_and_its_text_is_kept_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(stored: SecretRef, binding: RowBinding) -> ResolvedSecret:
        raise RuntimeError("the value is sk-one")

    monkeypatch.setattr(store.backend, "resolve", fail)
    with pytest.raises(SecretUnavailableError) as raised:
        await store.value()
    assert "sk-one" not in str(raised.value)
    assert raised.value.__cause__ is None


async def test_t22_a_credential_that_no_header_can_carry_is_refused(store: Store) -> None:
    store.backend.table["k1"] = "sk-one\r\nx-evil: 1"
    with pytest.raises(SecretError, match="cannot carry"):
        await store.value()


async def test_a_caller_that_stops_waiting_does_not_stop_the_fetch(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = asyncio.Event()
    resolve = store.backend.resolve

    async def slow(stored: SecretRef, binding: RowBinding) -> ResolvedSecret:
        await released.wait()
        return await resolve(stored, binding)

    monkeypatch.setattr(store.backend, "resolve", slow)
    first = asyncio.ensure_future(store.value())
    second = asyncio.ensure_future(store.value())
    await settle()
    first.cancel()
    released.set()
    assert await second == "sk-one"
    assert store.backend.fetches == ["k1"]


async def test_another_reference_is_another_credential(store: Store) -> None:
    await store.value()
    store.backend.table["k9"] = "sk-nine"
    moved = store.moved("k9")
    assert store.credentials.peek(moved) is None
    assert (await store.credentials.get(moved)).reveal() == "sk-nine"


Resolve = Callable[[SecretRef, RowBinding], Awaitable[ResolvedSecret]]


class Gate:
    """Lets fetches of a backend through when it is told to, and counts those that wait."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self.open = asyncio.Event()
        self.waiting = 0

    async def resolve(self, stored: SecretRef, binding: RowBinding) -> ResolvedSecret:
        self.waiting += 1
        await self.open.wait()
        self.waiting -= 1
        return await self._resolve(stored, binding)


@pytest.fixture
def gate(store: Store, monkeypatch: pytest.MonkeyPatch) -> Gate:
    made = Gate(store.backend.resolve)
    monkeypatch.setattr(store.backend, "resolve", made.resolve)
    return made


async def test_f52_a_credential_that_cannot_be_had_is_not_fetched_with_each_request(
    store: Store,
) -> None:
    del store.backend.table["k1"]
    asked = []
    for _ in range(3600):
        with pytest.raises(SecretNotFoundError, match="no entry 'k1'"):
            await store.value()
        asked.append(len(store.backend.fetches))
        store.clock.advance(1)
    assert asked[0] == asked[1] or asked[1] == asked[2]
    assert 3600 / (LONGEST_PAUSE * 1.2) <= asked[-1] <= 3600 / (LONGEST_PAUSE * 0.85) + 8
    store.backend.table["k1"] = "sk-one"
    store.clock.advance(LONGEST_PAUSE * 1.2)
    assert await store.value() == "sk-one"
    assert store.error() == "None"


async def test_f52_tending_has_a_lost_credential_back_without_a_request(store: Store) -> None:
    del store.backend.table["k1"]
    with pytest.raises(SecretNotFoundError):
        await store.value()
    store.backend.table["k1"] = "sk-one"
    store.credentials.tend()
    await settle()
    assert store.credentials.peek(store.key) is None
    store.clock.advance(1.2)
    store.credentials.tend()
    await settle()
    found = store.credentials.peek(store.key)
    assert found is not None
    fetches = len(store.backend.fetches)
    store.clock.advance(LONGEST_PAUSE)
    store.credentials.tend()
    await settle()
    assert len(store.backend.fetches) == fetches


async def test_f52_the_pause_can_be_ended(store: Store) -> None:
    del store.backend.table["k1"]
    with pytest.raises(SecretNotFoundError):
        await store.value()
    store.backend.table["k1"] = "sk-one"
    with pytest.raises(SecretNotFoundError):
        await store.value()
    store.credentials.retry(store.key.id)
    assert await store.value() == "sk-one"


@pytest.mark.parametrize(("ttl", "good_for"), [(60.0, 60), (0.0, 1), (-5.0, 1), (1e6, 1e6)])
async def test_f52_the_time_that_a_backend_gives_is_honoured(
    store: Store, monkeypatch: pytest.MonkeyPatch, ttl: float, good_for: float
) -> None:
    resolve = store.backend.resolve

    async def timed(stored: SecretRef, binding: RowBinding) -> ResolvedSecret:
        found = await resolve(stored, binding)
        return ResolvedSecret(found.value, ttl=ttl, version="v7")

    monkeypatch.setattr(store.backend, "resolve", timed)
    await store.value()
    store.clock.advance(good_for * REFRESH_AT * 0.89)
    await store.value()
    await settle()
    assert len(store.backend.fetches) == 1
    store.clock.advance(good_for * REFRESH_AT * 0.12)
    await store.value()
    await settle()
    assert len(store.backend.fetches) == 2
    assert store.credentials.describe(store.key.id)["version"] == "v7"


@pytest.mark.parametrize("ttl", [float("nan"), float("inf")])
async def test_a_time_that_is_no_number_of_seconds_is_replaced(
    store: Store, monkeypatch: pytest.MonkeyPatch, ttl: float
) -> None:
    resolve = store.backend.resolve

    async def timed(stored: SecretRef, binding: RowBinding) -> ResolvedSecret:
        return ResolvedSecret((await resolve(stored, binding)).value, ttl=ttl)

    monkeypatch.setattr(store.backend, "resolve", timed)
    await store.value()
    store.clock.advance(DEFAULT_TTL)
    await store.value()
    await settle()
    assert len(store.backend.fetches) == 2


async def test_f52_many_credentials_are_not_all_refreshed_at_once(store: Store) -> None:
    dues = set()
    for number in range(50):
        key = msgspec.structs.replace(store.key, id=f"key-{number}")
        await store.credentials.get(key)
        dues.add(store.credentials.describe(key.id)["refreshSeconds"])
    assert len(dues) > 10
    assert all(DEFAULT_TTL * 0.7 < float(str(due)) <= DEFAULT_TTL * REFRESH_AT for due in dues)


async def test_f52_fetches_of_one_backend_are_bounded(store: Store, gate: Gate) -> None:
    keys = [msgspec.structs.replace(store.key, id=f"key-{number}") for number in range(40)]
    fetching = [asyncio.ensure_future(store.credentials.get(key)) for key in keys]
    await settle()
    assert gate.waiting == module.AT_ONCE
    gate.open.set()
    assert {secret.reveal() for secret in await asyncio.gather(*fetching)} == {"sk-one"}


async def test_f52_a_backend_that_hangs_delays_no_known_credential(
    store: Store, gate: Gate
) -> None:
    gate.open.set()
    await store.value()
    gate.open.clear()
    hanging = [
        asyncio.ensure_future(
            store.credentials.get(msgspec.structs.replace(store.key, id=f"k-{n}"))
        )
        for n in range(40)
    ]
    store.clock.advance(DEFAULT_TTL)
    found = store.credentials.peek(store.key)
    assert found is not None
    assert found.reveal() == "sk-one"
    gate.open.set()
    await asyncio.gather(*hanging)


async def test_a_reference_that_changes_during_a_fetch_is_fetched_by_itself(
    store: Store, gate: Gate
) -> None:
    store.backend.table["k9"] = "sk-nine"
    old = asyncio.ensure_future(store.value())
    await settle()
    new = asyncio.ensure_future(store.credentials.get(store.moved("k9")))
    await settle()
    gate.open.set()
    assert [await old, (await new).reveal()] == ["sk-one", "sk-nine"]


async def test_a_key_that_is_gone_is_forgotten_and_its_value_let_go_of(store: Store) -> None:
    from relay_gateway.redaction import LIVE

    store.backend.table["k1"] = "sk-a-value-of-some-length-0123"
    await store.value()
    assert LIVE.scrub("it is sk-a-value-of-some-length-0123", "*") == "it is *"
    assert store.credentials.retain({store.key.id: store.key}) == []
    assert store.credentials.retain({store.key.id: store.moved("k9")}) == [store.key.id]
    assert store.credentials.describe(store.key.id)["resolved"] is False
    gc.collect()
    LIVE.add(await store.credentials.get(msgspec.structs.replace(store.key, id="x")))
    await store.credentials.aclose()


async def test_f52_what_is_shown_says_how_old_a_credential_is_and_nothing_of_its_value(
    store: Store,
) -> None:
    assert store.credentials.describe(store.key.id) == {
        "resolved": False,
        "backend": None,
        "version": None,
        "ageSeconds": None,
        "stale": False,
        "refreshSeconds": None,
        "lastError": None,
    }
    await store.value()
    del store.backend.table["k1"]
    store.clock.advance(DEFAULT_TTL + 60)
    await store.value()
    await settle()
    shown = store.credentials.describe(store.key.id)
    refresh = float(str(shown.pop("refreshSeconds")))
    assert 0.8 < refresh < 1.2
    assert shown == {
        "resolved": True,
        "backend": "table",
        "version": None,
        "ageSeconds": DEFAULT_TTL + 60,
        "stale": True,
        "lastError": "secret_not_found: the table has no entry 'k1'",
    }
