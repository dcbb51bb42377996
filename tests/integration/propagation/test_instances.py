"""Gateways on one database know of each other: revisions, lags, silences, ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relay_gateway.server.gateway import Gateway
from relay_gateway.storage import NewEntity
from relay_gateway.testing.instances import Instances, control_of, until
from relay_gateway.testing.life_signs import Listed, listed, listed_when
from relay_gateway.testing.postgres import PostgresServer


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay_gateway.server.heartbeat.LOOK_SECONDS", 0.05)
    monkeypatch.setattr("relay_gateway.server.heartbeat.BEAT_SECONDS", 0.2)


async def shown(gateway: Gateway) -> Listed:
    """What ``gateway`` lists."""
    async with control_of(gateway) as admin:
        return await listed(admin)


async def seen(gateway: Gateway, condition: Callable[[Listed], object]) -> Listed:
    """The same, as soon as ``condition`` holds for it."""
    async with control_of(gateway) as admin:
        return await listed_when(admin, condition)


async def write(gateway: Gateway) -> int:
    """Makes a provider; the revision of that."""
    await gateway.store.create(NewEntity(kind="provider", display_name="Acme", spec={}))
    await gateway.watcher.refresh()
    return gateway.live.current.revision


async def stand_still(gateway: Gateway) -> None:
    """Has ``gateway`` do nothing more by itself, as a process does that is stopped."""
    await gateway.watcher._end(gateway.watcher._tasks)


async def two(instances: Instances, url: str) -> tuple[Gateway, Gateway]:
    return (
        await instances.open(url, "a", port=7001),
        await instances.open(url, "b", port=7002),
    )


async def a_write_moves_both(first: Gateway, second: Gateway) -> None:
    await seen(first, lambda items: len(items) == 2)
    revision = await write(first)
    items = await seen(first, lambda items: all(one["revision"] == revision for one in items))
    assert [(one["gateway"][-5:], one["process"]) for one in items] == [
        (":7001", "gateway"),
        (":7002", "gateway"),
    ]
    assert [one["thisGateway"] for one in items] == [True, False]
    assert [one["thisGateway"] for one in await shown(second)] == [False, True]
    assert {one["lagRevisions"] for one in items} == {0}
    assert {one["state"] for one in items} <= {"ready", "degraded"}


async def test_a_write_moves_the_revision_of_every_gateway_on_postgresql(
    instances: Instances, postgres_url: str
) -> None:
    await a_write_moves_both(*await two(instances, postgres_url))


async def test_a_write_moves_the_revision_of_every_gateway_on_sqlite(
    instances: Instances, tmp_path: Path
) -> None:
    await a_write_moves_both(*await two(instances, f"sqlite:///{tmp_path}/shared.sqlite3"))


async def test_the_lag_of_one_that_stands_still_grows_until_it_goes_on(
    instances: Instances, postgres_url: str
) -> None:
    first, second = await two(instances, postgres_url)
    await seen(first, lambda items: len(items) == 2)
    await stand_still(second)
    for _ in range(2):
        await write(first)
    lags = [0, 2]
    still = await seen(first, lambda items: [one["lagRevisions"] for one in items] == lags)
    later = await seen(first, lambda items: items[1]["lagSeconds"] > still[1]["lagSeconds"] + 0.2)
    assert [one["lagRevisions"] for one in later] == lags
    assert later[0]["lagSeconds"] == 0
    assert later[1]["seenSecondsAgo"] > still[1]["seenSecondsAgo"]
    await second.watcher.refresh()
    await second.heartbeat.beat()
    again = await shown(first)
    assert (again[1]["lagRevisions"], again[1]["lagSeconds"]) == (0, 0)


async def test_one_that_builds_no_snapshot_lags_though_it_is_heard_of(
    instances: Instances, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await two(instances, postgres_url)
    await seen(first, lambda items: len(items) == 2)

    def fail(*_: Any) -> None:
        raise ValueError("cannot be built")

    monkeypatch.setattr(second.watcher._builder, "apply", fail)
    await write(first)
    items = await seen(first, lambda items: items[1]["state"] == "degraded")
    assert items[1]["lagRevisions"] == 1
    assert "ValueError" in items[1]["degraded"]["catalog"]
    before = items[1]["lagSeconds"]
    await seen(first, lambda items: items[1]["lagSeconds"] > before)
    assert not items[1]["silent"]


async def test_one_that_ends_in_order_is_known_no_more(
    instances: Instances, postgres_url: str, tmp_path: Path
) -> None:
    (tmp_path / "others").mkdir()
    others = Instances(tmp_path / "others", instances._registry)
    first = await instances.open(postgres_url, "a", port=7001)
    await others.open(postgres_url, "b", port=7002)
    await seen(first, lambda items: len(items) == 2)
    await others.close()
    assert [one["thisGateway"] for one in await shown(first)] == [True]


async def test_draining_is_told_to_the_others(instances: Instances, postgres_url: str) -> None:
    first, second = await two(instances, postgres_url)
    second.plane.draining = True
    await seen(first, lambda items: [one["state"] for one in items[1:]] == ["draining"])


async def test_f03_signs_of_life_come_again_with_the_database(
    instances: Instances,
    mortal_server: PostgresServer,
    mortal_url: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    gateway = await instances.open(mortal_url)
    (before,) = await seen(gateway, lambda items: len(items) == 1)
    await asyncio.to_thread(mortal_server.kill)
    await until(lambda: gateway.live.error)
    async with control_of(gateway) as admin:
        assert (await admin.get("/instances")).status_code == 503
    await asyncio.to_thread(mortal_server.restart)
    await seen(gateway, lambda items: items[0]["lastSeenAt"] > before["lastSeenAt"])
    said = [record for record in caplog.records if "sign of life" in record.message]
    assert {record.levelname for record in said} <= {"DEBUG"}


async def test_f01_a_start_without_the_database_makes_up_for_its_sign_of_life(
    instances: Instances, mortal_server: PostgresServer, mortal_url: str
) -> None:
    mortal_server.kill()
    gateway = await instances.open(mortal_url)
    assert not gateway.live.loaded
    await asyncio.to_thread(mortal_server.restart)
    await until(lambda: gateway.live.serves, seconds=30)
    items = await seen(gateway, lambda items: items and items[0]["revision"] is not None)
    assert items[0]["state"] in ("ready", "degraded")
    assert items[0]["lagRevisions"] == 0


async def test_the_end_waits_for_no_database_that_is_away(
    instances: Instances, mortal_server: PostgresServer, mortal_url: str
) -> None:
    gateway = await instances.open(mortal_url)
    await seen(gateway, lambda items: len(items) == 1)
    await asyncio.to_thread(mortal_server.kill)
    await until(lambda: not gateway.heartbeat._known)
    await instances.close()
    await asyncio.to_thread(mortal_server.restart)
    reader = await instances.open(mortal_url, "reader", port=7009)
    items = await seen(reader, lambda items: len(items) == 2)
    assert sorted(one["thisGateway"] for one in items) == [False, True]


async def test_a_gateway_takes_the_place_of_a_silent_one_of_its_name(
    instances: Instances, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay_gateway.server.heartbeat.TIDY_SECONDS", 0.1)
    monkeypatch.setattr("relay_gateway.server.heartbeat.SILENT_SECONDS", 1.0)
    killed = await instances.open(postgres_url, "killed", port=7001)
    await seen(killed, lambda items: len(items) == 1)
    await stand_still(killed)
    elsewhere = await instances.open(postgres_url, "elsewhere", port=7002)
    await seen(elsewhere, lambda items: len(items) == 2)
    again = await instances.open(postgres_url, "again", port=7001)
    own = {again.member.gateway_id, elsewhere.member.gateway_id}
    await seen(again, lambda items: {one["gatewayId"] for one in items} == own)


async def test_what_nobody_expected_costs_signs_of_life_and_nothing_else(
    instances: Instances,
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(*_: object) -> None:
        raise ValueError("a defect")

    monkeypatch.setattr("relay_gateway.storage.InstanceStore.note", fail)
    gateway = await instances.open(postgres_url)
    await until(lambda: [one for one in caplog.records if "sign of life" in one.message])
    revision = await write(gateway)
    assert gateway.live.current.revision == revision
    assert gateway.readiness().ready
    assert await shown(gateway) == []
    told = [one for one in caplog.records if "sign of life" in one.message]
    assert [one.levelname for one in told] == ["ERROR"]
