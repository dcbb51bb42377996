"""The primary is gone or turns read-only, and a standby takes over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

import pytest

from relay_gateway.errors import StorageUnavailableError
from relay_gateway.server.gateway import Gateway
from relay_gateway.storage import NewEntity
from relay_gateway.testing.failover import Failover
from relay_gateway.testing.instances import Instances, ask, control_of
from relay_gateway.testing.postgres import PostgresServer
from relay_gateway.testing.propagation import ProbedKey


async def eventually(do: Callable[[], Awaitable[None]]) -> None:
    """Does it again for at most 10 s as long as the database cannot be asked."""
    async with asyncio.timeout(10):
        while True:
            try:
                return await do()
            except StorageUnavailableError:
                await asyncio.sleep(0.05)


@pytest.fixture
def pair() -> Iterator[Failover]:
    with PostgresServer() as primary, Failover(primary) as pair:
        yield pair


async def write(gateway: Gateway, name: str) -> None:
    await gateway.store.create(NewEntity(kind="provider", display_name=name, spec={}))


async def test_f05_a_promoted_standby_is_found_and_nothing_confirmed_is_lost(
    instances: Instances, pair: Failover
) -> None:
    gateway = await instances.open(pair.url)
    key = ProbedKey(gateway, [gateway])
    await key.create()
    await asyncio.to_thread(pair.synchronize)
    await asyncio.to_thread(pair.fail_over)
    assert (await ask(gateway, key.plaintext)).status == 200
    await eventually(partial(write, gateway, "after"))
    async with control_of(gateway) as admin:
        listed = await admin.get("/relay-keys")
        assert [item["metadata"]["id"] for item in listed.json()["items"]] == [key.id]
    await key.set(granted=False)
    assert (await ask(gateway, key.plaintext)).status == 401


async def test_f05_a_server_that_takes_no_writes_any_more_is_left_without_half_a_write(
    instances: Instances, pair: Failover
) -> None:
    gateway = await instances.open(pair.url)
    await write(gateway, "before")
    revision = await gateway.store.revision()
    await asyncio.to_thread(pair.make_read_only)
    state = pair.state(pair.primary)
    async with control_of(gateway) as admin:
        entity = {"metadata": {"displayName": "X"}, "spec": {}}
        for _ in range(3):
            answer = await admin.post("/providers", json=entity)
            assert (answer.status_code, "retry-after" in answer.headers) == (503, True)
    with pytest.raises(StorageUnavailableError):
        await write(gateway, "refused")
    assert pair.state(pair.primary) == pair.state(pair.standby) == state
    await asyncio.to_thread(pair.promote)
    await write(gateway, "after")
    assert pair.state(pair.primary) == state
    assert await gateway.store.revision() == revision + 1
