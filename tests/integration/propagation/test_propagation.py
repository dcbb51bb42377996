"""From a commit to its enforcement on every instance: with notifications, without, and after a
gap."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from relay_gateway.catalog.snapshot import Snapshot
from relay_gateway.server.gateway import Gateway
from relay_gateway.testing.faultproxy import Fault, FaultProxy
from relay_gateway.testing.instances import Instances, ask, control_of, until
from relay_gateway.testing.pooler import TransactionPooler
from relay_gateway.testing.postgres import PostgresServer
from relay_gateway.testing.propagation import (
    Figures,
    LoopLag,
    ProbedKey,
    add_keys,
    until_listening,
)

POLL_SECONDS = 1.0


def report(name: str, figures: Figures) -> None:
    print(f"{name}: {figures}")  # noqa: T201 - figures


@pytest.fixture
async def four(instances: Instances, postgres_url: str) -> list[Gateway]:
    return [await instances.open(postgres_url, name) for name in ("a", "b", "c", "d")]


async def test_r6_a_write_is_enforced_on_four_instances_within_a_second(
    four: list[Gateway],
) -> None:
    key = ProbedKey(four[0], four)
    await key.create()
    await until_listening(*four)
    key.seen.clear()
    for index in range(200):
        await key.set(granted=index % 2 == 1)
        if index % 20 == 0:
            # R8 and T76: no instance accepts what is revoked.
            assert {(await ask(gateway, key.plaintext)).status for gateway in four} == {401}
    report("200 writes, 4 instances", Figures.of(key.seen))
    figures = Figures.of(key.seen)
    assert figures.p50 <= 0.1
    assert figures.p99 <= 0.5
    assert figures.largest <= 1


async def test_r7_f06_without_notifications_a_write_is_enforced_by_the_next_poll(
    four: list[Gateway], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = ProbedKey(four[0], four)
    await key.create()
    await until_listening(*four)
    for gateway in four:
        monkeypatch.setattr(gateway.watcher, "heard", lambda _: None)
        assert gateway.listener is not None
        monkeypatch.setattr(gateway.listener, "_heard", lambda _: None)
    key.seen.clear()
    for index in range(6):
        await key.set(granted=index % 2 == 1)
    report("6 writes without notifications", Figures.of(key.seen))
    assert max(key.seen) <= POLL_SECONDS + 0.5


async def test_r7_f07_killed_listeners_come_back_and_nothing_is_missed(
    four: list[Gateway], postgres_server: PostgresServer, postgres_url: str
) -> None:
    key = ProbedKey(four[0], four)
    await key.create()
    await until_listening(*four)
    key.seen.clear()
    for index in range(6):
        killed = postgres_server.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() "
            "AND query LIKE '%LISTEN%'",
            url=postgres_url,
        )
        assert int(killed) == 4
        await key.set(granted=index % 2 == 1)
        await until_listening(*four)
    report("6 writes with killed listeners", Figures.of(key.seen))
    assert max(key.seen) <= 2.5


async def test_f07_a_cut_cable_is_noticed_by_the_heartbeat(
    instances: Instances,
    postgres_server: PostgresServer,
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("relay_gateway.storage.notify.HEARTBEAT_SECONDS", 0.3)
    monkeypatch.setattr("relay_gateway.storage.notify.ANSWER_SECONDS", 0.5)
    monkeypatch.setattr("relay_gateway.server.watch.ANSWER_SECONDS", 0.5)
    async with FaultProxy("127.0.0.1", postgres_server.port) as proxy:
        port = f":{postgres_server.port}/"
        gateway = await instances.open(postgres_url.replace(port, f":{proxy.port}/"))
        writer = await instances.open(postgres_url, "writer")
        await until_listening(gateway)
        proxy.to_client = Fault(blackhole=True)
        await until(lambda: gateway.listener is not None and gateway.listener.trouble)
        await until(lambda: gateway.live.error)
        assert gateway.readiness().ready
        key = ProbedKey(writer, [writer])
        await key.create()
        proxy.clear()
        proxy.cut()
        took = await until(lambda: gateway.live.current.revision == writer.live.current.revision)
        assert took <= 2
        assert gateway.readiness().ready


async def test_f13_a_transaction_pooler_is_found_out_and_polling_does(
    instances: Instances,
    postgres_server: PostgresServer,
    postgres_url: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with TransactionPooler(postgres_server.port) as pooler:
        port = f":{postgres_server.port}/"
        gateway = await instances.open(postgres_url.replace(port, f":{pooler.port}/"))
        writer = await instances.open(postgres_url, "writer")
        with caplog.at_level(logging.WARNING):
            await until(lambda: gateway.listener is not None and gateway.listener.trouble)
        assert [r for r in caplog.messages if "a pooler in transaction mode" in r]
        assert "notifications" in gateway.readiness().degraded
        key = ProbedKey(writer, [writer, gateway])
        await key.create()
        await key.set(granted=False)
        assert key.seen[-1] <= POLL_SECONDS + 0.5
        assert pooler.swallowed
        await instances.close()


async def test_f08_a_failed_read_is_repeated_and_the_revision_does_not_advance(
    instances: Instances, postgres_url: str, postgres_server: PostgresServer
) -> None:
    gateway = await instances.open(postgres_url)
    writer = await instances.open(postgres_url, "writer")
    before = gateway.live.current.revision
    postgres_server.execute("ALTER TABLE catalog_changes RENAME TO hidden", url=postgres_url)
    postgres_server.execute("UPDATE catalog_revision SET revision = revision + 1", url=postgres_url)
    await until(lambda: gateway.live.error)
    assert gateway.live.current.revision == before
    assert gateway.readiness().ready
    postgres_server.execute("ALTER TABLE hidden RENAME TO catalog_changes", url=postgres_url)
    await until(lambda: gateway.live.error is None, seconds=3)
    await until(lambda: writer.live.current.revision == before + 1)
    assert gateway.live.current.revision == before + 1


async def test_f09_concurrent_writers_are_followed_in_the_order_of_their_commits(
    instances: Instances, postgres_url: str
) -> None:
    first = await instances.open(postgres_url, "a")
    second = await instances.open(postgres_url, "b")
    keys = [ProbedKey(writer, [first, second]) for writer in (first, second) for _ in range(8)]
    await asyncio.gather(*(key.create() for key in keys))
    revisions: list[int] = []

    async def watch() -> None:
        while True:
            revisions.append(second.live.current.revision)
            await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    for granted in (False, True, False):
        await asyncio.gather(*(key.set(granted=granted) for key in keys))
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert revisions == sorted(revisions)
    assert first.live.current.relay_keys == second.live.current.relay_keys == {}


async def test_f10_a_bulk_write_is_one_build_and_holds_nobody_up(
    instances: Instances,
    postgres_server: PostgresServer,
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader = await instances.open(postgres_url)
    await until_listening(reader)
    revision = reader.live.current.revision + 1
    builds: list[int] = []
    build = reader.watcher._builder.apply

    def counted(at: int, *arguments: Any) -> Snapshot:
        builds.append(at)
        return build(at, *arguments)

    monkeypatch.setattr(reader.watcher._builder, "apply", counted)
    lag = LoopLag()
    took = await add_keys(reader, postgres_server, postgres_url, 10_000)
    late = await lag.stop()
    report(f"loop lag while 10 000 keys came in {took:.2f} s", late)
    assert len(reader.live.current.relay_keys) == 10_000
    assert builds == [revision]
    assert late.p99 <= 0.05


async def test_f11_a_corrupt_row_is_left_out_when_it_changes_and_reload_finds_it(
    instances: Instances, postgres_url: str, postgres_server: PostgresServer
) -> None:
    gateway = await instances.open(postgres_url)
    key = ProbedKey(gateway, [gateway])
    await key.create()
    postgres_server.execute(
        "UPDATE entities SET sealed = '7' WHERE kind = 'relay key'", url=postgres_url
    )
    async with control_of(gateway) as admin:
        assert (await admin.post("/reload")).status_code == 200
    assert gateway.live.current.relay_keys == {}
    (bad,) = gateway.live.current.quarantined
    assert bad.kind == "relay key"
    assert (await ask(gateway, key.plaintext)).status == 401


async def test_sqlite_is_polled(instances: Instances, tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/shared.sqlite3"
    writer, reader = await instances.open(url, "a"), await instances.open(url, "b")
    key = ProbedKey(writer, [writer, reader])
    await key.create()
    for granted in (False, True):
        await key.set(granted=granted)
    report("SQLite", Figures.of(key.seen))
    assert max(key.seen) <= 0.7
