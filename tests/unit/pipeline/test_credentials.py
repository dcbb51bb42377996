"""Credentials are fetched once, kept, refreshed early, and outlive their backend's troubles."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from relay_gateway.catalog.snapshot import HostKey
from relay_gateway.errors import SecretError, SecretNotFoundError, SecretUnavailableError
from relay_gateway.pipeline import credentials as module
from relay_gateway.pipeline.credentials import Credentials
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
    store.clock.advance(module.DEFAULT_TTL * module.REFRESH_AT + 1)
    assert await store.value() == "sk-one"  # nobody waits for the refresh
    await settle()
    assert await store.value() == "sk-next"


async def test_f52_the_old_credential_serves_while_its_backend_fails_and_no_longer_than_a_day(
    store: Store,
) -> None:
    await store.value()
    del store.backend.table["k1"]
    for _ in range(3):
        store.clock.advance(3600)
        assert await store.value() == "sk-one"
        await settle()
    assert "no entry 'k1'" in str(store.credentials.describe(store.key.id)["lastError"])
    store.clock.advance(module.MAX_STALE)
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
    import dataclasses

    await store.value()
    store.backend.table["k9"] = "sk-nine"
    moved = dataclasses.replace(
        store.key, stored=store.key.stored.model_copy(update={"entry": "k9"})
    )
    assert store.credentials.peek(moved) is None
    assert (await store.credentials.get(moved)).reveal() == "sk-nine"
