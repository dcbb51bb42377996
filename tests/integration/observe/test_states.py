"""Who may scrape, and what is shown of a catalog that cannot be read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from relay_gateway.control import create_control_app
from relay_gateway.registry import Registry
from relay_gateway.server.gateway import Gateway
from relay_gateway.storage import NewEntity
from relay_gateway.testing.instances import Instances, control_of, until
from relay_gateway.testing.postgres import PostgresServer
from relay_gateway.testing.scrape import Scrape


@pytest.fixture
async def instances(tmp_path: Path) -> AsyncIterator[Instances]:
    opened = Instances(tmp_path, Registry.discover())
    yield opened
    await opened.close()


@pytest.fixture(scope="module")
def module_server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def mortal_server(module_server: PostgresServer) -> Iterator[PostgresServer]:
    """A server that the test may kill."""
    yield module_server
    if not module_server.running:
        module_server.restart()


def anonymous(gateway: Gateway) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(create_control_app(gateway.control_services()))
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")


async def test_t56_metrics_need_authentication_unless_the_settings_make_them_public(
    instances: Instances, tmp_path: Path
) -> None:
    closed = await instances.open(f"sqlite:///{tmp_path}/closed.sqlite3", "closed")
    async with anonymous(closed) as client:
        for path in ("/metrics", "/metrics/"):
            refused = await client.get(path)
            assert (refused.status_code, "relay_" in refused.text) == (401, False)
    opened = await instances.open(f"sqlite:///{tmp_path}/open.sqlite3", "open", metrics_public=True)
    async with anonymous(opened) as client:
        assert (await Scrape.of(client)).total("relay_ready") == 1
        assert (await client.get("/metrics", params={"name": "x"})).status_code == 400
        assert (await client.post("/metrics")).status_code == 405
        for path in ("/hosts", "/metrics/", "/openapi.json"):
            assert (await client.get(path)).status_code == 401
    async with control_of(opened) as admin:
        document = (await admin.get("/openapi.json")).json()
        assert document["paths"]["/metrics"]["get"]["security"] == []


async def test_scrapes_at_the_same_time_share_one_collection(
    instances: Instances, tmp_path: Path
) -> None:
    gateway = await instances.open(f"sqlite:///{tmp_path}/a.sqlite3")
    first, second = await asyncio.gather(gateway.gathering.collect(), gateway.gathering.collect())
    assert first is second
    assert await gateway.gathering.collect() is not first


async def test_f06_revisions_that_were_heard_of_and_are_not_served_yet_are_the_lag(
    instances: Instances, tmp_path: Path
) -> None:
    gateway = await instances.open(f"sqlite:///{tmp_path}/a.sqlite3")
    gateway.watcher.heard(gateway.live.current.revision + 2)
    async with control_of(gateway) as admin:
        lag = [one.value for one in gateway.instruments.series() if "snapshot_lag" in one.family]
        assert lag == [2]
        await until(lambda: gateway.watcher.lag == 0)
        assert (await Scrape.of(admin)).total("relay_snapshot_lag_revisions") == 0


async def test_f11_a_row_that_is_left_out_is_shown_by_kind(
    instances: Instances, tmp_path: Path
) -> None:
    gateway = await instances.open(f"sqlite:///{tmp_path}/a.sqlite3")
    broken = NewEntity(kind="host", display_name="Broken", spec={"nothing": "of use"})
    await gateway.store.create(broken)
    await gateway.watcher.refresh()
    async with control_of(gateway) as admin:
        quarantined = (await Scrape.of(admin)).by("relay_quarantined_entities", "kind")
    assert {kind: count for kind, count in quarantined.items() if count} == {("host",): 1}


async def test_f03_an_outage_of_the_database_is_seen_and_so_is_its_end(
    instances: Instances, mortal_server: PostgresServer
) -> None:
    gateway = await instances.open(mortal_server.create_database())
    async with control_of(gateway) as admin:
        before = await Scrape.of(admin)
        assert before.total("relay_catalog_database_up") == 1
        assert before.total("relay_snapshot_failures_total") == 0
        assert before.total("relay_snapshot_age_seconds") < 5

        mortal_server.kill()
        await until(lambda: gateway.live.error)
        during = await Scrape.of(admin)
        assert during.total("relay_catalog_database_up") == 0
        assert during.total("relay_snapshot_failures_total") >= 1
        assert during.total("relay_ready") == 1
        revisions = [scrape.total("relay_snapshot_revision") for scrape in (before, during)]
        assert revisions[0] == revisions[1] > 0

        mortal_server.restart()
        await until(lambda: gateway.live.error is None, seconds=20)
        after = await Scrape.of(admin)
        assert after.total("relay_catalog_database_up") == 1


async def test_f01_a_gateway_without_any_catalog_says_so(
    instances: Instances, mortal_server: PostgresServer
) -> None:
    url = mortal_server.create_database()
    mortal_server.kill()
    gateway = await instances.open(url, max_snapshot_age=0)
    async with control_of(gateway) as admin:
        scrape = await Scrape.of(admin)
    assert scrape.by("relay_catalog_source", "source")["none",] == 1
    assert scrape.total("relay_ready") == 0
    assert "relay_snapshot_revision{" not in scrape.text
    assert scrape.total("relay_snapshot_failures_total", reason="database_unavailable") >= 1
