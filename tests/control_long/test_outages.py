"""The database away for a minute under load, and twenty failovers."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

from relay_gateway.errors import StorageUnavailableError
from relay_gateway.server.gateway import Gateway
from relay_gateway.settings.data_dir import new_master_key
from relay_gateway.storage import NewEntity
from relay_gateway.testing.failover import Failover
from relay_gateway.testing.instances import ADMIN_TOKEN, Instances
from relay_gateway.testing.outage import Outage
from relay_gateway.testing.postgres import PostgresServer

_log = logging.getLogger(__name__)


async def test_r5_a_minute_without_the_database(
    tmp_path: Path, mortal_server: PostgresServer
) -> None:
    environ = {
        "RELAY_DATABASE_URL": mortal_server.create_database(),
        "RELAY_MASTER_KEY": new_master_key(),
        "RELAY_ADMIN_TOKEN": ADMIN_TOKEN,
    }
    report = await Outage(tmp_path, mortal_server, environ).run(seconds=60)
    _log.info("%s", report)
    assert report.lasting.keys() == report.restarted.keys() == {200}
    assert report.control == {(503, True)}
    assert report.ready == {200}
    assert "source=disk" in report.source
    assert report.live_seconds <= 2
    assert report.usage == report.lasting[200]


async def test_r9_the_database_comes_back_again_and_again(
    instances: Instances, mortal_server: PostgresServer
) -> None:
    gateway = await instances.open(mortal_server.create_database())
    took: list[float] = []
    for _ in range(20):
        await asyncio.to_thread(mortal_server.kill)
        await seconds_until_written(gateway, expected=False)
        await asyncio.to_thread(mortal_server.restart)
        took.append(await seconds_until_written(gateway, expected=True))
    _log.info("writes again after %s s", ", ".join(f"{seconds:.2f}" for seconds in sorted(took)))
    assert max(took) <= 2


async def test_f05_twenty_failovers_lose_nothing_that_was_confirmed(
    instances: Instances, tmp_path: Path
) -> None:
    for number in range(20):
        with PostgresServer() as primary, Failover(primary) as pair:
            gateway = await instances.open(pair.url, f"f{number}")
            before = len((await gateway.store.load()).rows)
            assert await seconds_until_written(gateway, expected=True) <= 1
            await asyncio.to_thread(pair.synchronize)
            await asyncio.to_thread(pair.fail_over)
            took = await seconds_until_written(gateway, expected=True)
            assert len((await gateway.store.load()).rows) == before + 2
            await instances.close()
        _log.info("failover %d: writes again after %.2f s", number, took)
        assert took <= 5


async def seconds_until_written(gateway: Gateway, *, expected: bool) -> float:
    """How long it takes until a write is done, or until it is refused."""
    began = time.perf_counter()
    async with asyncio.timeout(30):
        while True:
            try:
                entity = NewEntity(kind="provider", display_name="X", spec={})
                await gateway.store.create(entity)
                if not expected:
                    continue
            except StorageUnavailableError:
                if expected:
                    await asyncio.sleep(0.02)
                    continue
            return time.perf_counter() - began
