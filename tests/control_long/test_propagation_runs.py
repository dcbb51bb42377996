"""From a commit to its enforcement on four instances, over many writes; each logs its figure."""

from __future__ import annotations

import asyncio
import logging

import pytest

from relay_gateway.errors import StorageUnavailableError
from relay_gateway.server.gateway import Gateway
from relay_gateway.storage import AuditLog
from relay_gateway.testing.counters import count_together
from relay_gateway.testing.instances import Instances, ask, until
from relay_gateway.testing.postgres import PostgresServer
from relay_gateway.testing.propagation import Figures, ProbedKey, until_listening

PROBE_SECONDS = 0.005
POLL_SECONDS = 1.0
WRITES = 2000
KILL_LISTENERS = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE '%LISTEN%' "
    "AND datname = current_database() AND pid <> pg_backend_pid()"
)
KILL_ALL = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
)

_log = logging.getLogger(__name__)


async def probed(four: list[Gateway]) -> ProbedKey:
    key = ProbedKey(four[0], four, probe_seconds=PROBE_SECONDS)
    await key.create()
    await until_listening(*four)
    key.seen.clear()
    return key


async def test_r6_r8_two_thousand_writes_on_four_instances(four: list[Gateway]) -> None:
    key = await probed(four)
    for index in range(WRITES):
        granted = index % 2 == 1
        await key.set(granted=granted)
        statuses = {(await ask(gateway, key.plaintext)).status for gateway in four}
        assert statuses == {200 if granted else 401}
    figures = Figures.of(key.seen)
    _log.info("%d writes: %s", WRITES, figures)
    assert figures.p50 <= 0.02
    assert figures.p99 <= 0.1
    assert figures.largest <= 1


async def test_r7_f06_writes_without_notifications(
    four: list[Gateway], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await probed(four)
    for gateway in four:
        monkeypatch.setattr(gateway.watcher, "heard", lambda _: None)
        monkeypatch.setattr(gateway.listener, "_heard", lambda _: None)
    for index in range(100):
        await key.set(granted=index % 2 == 1)
    figures = Figures.of(key.seen)
    _log.info("100 writes without notifications: %s", figures)
    assert figures.largest <= POLL_SECONDS + 0.5


async def test_r7_f07_writes_with_killed_listeners(
    four: list[Gateway], postgres_server: PostgresServer, postgres_url: str
) -> None:
    key = await probed(four)
    for index in range(100):
        await asyncio.to_thread(postgres_server.execute, KILL_LISTENERS, url=postgres_url)
        await key.set(granted=index % 2 == 1)
        await until_listening(*four)
    figures = Figures.of(key.seen)
    _log.info("100 writes with killed listeners: %s", figures)
    assert figures.p99 <= 2.5


async def test_f03_all_backends_killed_again_and_again(
    four: list[Gateway], postgres_server: PostgresServer, postgres_url: str
) -> None:
    key = await probed(four)
    statuses: set[int] = set()
    done = refused = 0
    for index in range(200):
        await asyncio.to_thread(postgres_server.execute, KILL_ALL, url=postgres_url)
        try:
            await key.write(granted=True)
            done += 1
        except StorageUnavailableError:
            refused += 1
        statuses.add((await ask(four[index % 4], key.plaintext)).status)
    _log.info("200 times all backends killed: %d writes done, %d refused", done, refused)
    assert statuses == {200}
    await key.set(granted=False)
    await until(lambda: all(gateway.live.error is None for gateway in four))
    assert len({gateway.live.current.revision for gateway in four}) == 1


async def test_f09_t58_sixteen_writers_lose_no_update(
    instances: Instances, postgres_url: str
) -> None:
    gateway = await instances.open(postgres_url)
    log = AuditLog(gateway.engine)
    counted = await count_together([gateway.store], log, writers=16, writes=500, counters=8)
    _log.info("16 writers, 500 writes each: %d conflicts", counted.conflicts)
    assert counted.total == 8000
    first = counted.revisions[0]
    assert list(counted.revisions) == list(range(first, first + 8000))
    await until(lambda: gateway.live.current.revision == first + 7999)
    assert (await log.verify()).problem is None
