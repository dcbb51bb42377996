"""Signs of life: written over each other, forgotten in time, read with the newest revision."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.storage import CatalogStore, InstanceStore, KnownInstance, NewEntity
from relay_gateway.testing.life_signs import SIGN, pass_time

HOUR = 3600


@pytest.fixture
def known(engine: AsyncEngine) -> InstanceStore:
    return InstanceStore(engine)


async def only(known: InstanceStore) -> KnownInstance:
    (one,) = (await known.known(10)).known
    return one


async def test_a_sign_of_life_is_read_as_it_was_given(known: InstanceStore) -> None:
    degraded = {"catalog": 'source=disk: "quoted"'}
    await known.note(replace(SIGN, state="degraded", degraded=degraded))
    found = await known.known(10)
    (one,) = found.known
    assert (one.gateway_id, one.process, one.instance) == ("gateway-a", "worker-1", "host:17")
    assert (one.gateway, one.version, one.state) == ("host:8080", "1.2.3", "degraded")
    assert (one.degraded, one.revision, found.newest) == (degraded, 0, 0)
    assert one.seen_at == one.current_at <= found.now
    assert one.seen_at - one.started_at == 100_000
    assert one.applied_at is not None
    assert one.seen_at - one.applied_at == 40_000


async def test_beginnings_stay_while_the_process_and_its_revision_do(
    known: InstanceStore, engine: AsyncEngine
) -> None:
    await known.note(SIGN)
    await pass_time(engine, "gateway-a", HOUR)
    first = await only(known)
    await known.note(SIGN)
    second = await only(known)
    assert second.seen_at >= first.seen_at + HOUR * 1000
    assert (second.started_at, second.applied_at) == (first.started_at, first.applied_at)
    await known.note(replace(SIGN, revision=7, applied_age=1.0))
    third = await only(known)
    assert third.started_at == first.started_at
    assert third.applied_at == third.seen_at - 1000
    await known.note(replace(SIGN, instance="host:18", revision=7, age=2.0))
    other = await only(known)
    assert (other.instance, other.started_at) == ("host:18", other.seen_at - 2000)


async def test_who_lacks_the_newest_revision_was_current_when_it_last_had_it(
    known: InstanceStore, store: CatalogStore, engine: AsyncEngine
) -> None:
    await known.note(SIGN)
    await pass_time(engine, "gateway-a", HOUR)
    had_it = (await only(known)).seen_at
    await store.create(NewEntity(kind="provider", display_name="Acme", spec={}))
    await known.note(SIGN)
    behind = await known.known(10)
    assert (behind.newest, behind.known[0].current_at) == (1, had_it)
    await known.note(replace(SIGN, revision=1))
    one = await only(known)
    assert one.current_at == one.seen_at


async def test_without_a_catalog_there_is_no_revision_and_no_time_of_it(
    known: InstanceStore,
) -> None:
    await known.note(replace(SIGN, state="not-ready", revision=None, applied_age=None))
    one = await only(known)
    assert (one.revision, one.applied_at, one.current_at) == (None, None, one.started_at)


async def test_a_process_that_ends_is_forgotten_and_no_other(known: InstanceStore) -> None:
    for process in ("worker-1", "worker-2"):
        await known.note(replace(SIGN, process=process))
    await known.note(replace(SIGN, gateway_id="gateway-b"))
    await known.forget("gateway-a", "worker-1")
    left = {(one.gateway_id, one.process) for one in (await known.known(10)).known}
    assert left == {("gateway-a", "worker-2"), ("gateway-b", "worker-1")}


async def test_the_silent_go_when_their_name_is_taken_and_all_after_a_day(
    known: InstanceStore, engine: AsyncEngine
) -> None:
    for gateway_id, silent in (("new", 0), ("old", HOUR), ("twin", 1)):
        await known.note(replace(SIGN, gateway_id=gateway_id))
        await pass_time(engine, gateway_id, silent)
    for gateway_id, silent in (("quiet", HOUR), ("long gone", 25 * HOUR)):
        await known.note(replace(SIGN, gateway_id=gateway_id, gateway="elsewhere:8080"))
        await pass_time(engine, gateway_id, silent)
    await known.tidy("new", "host:8080", silent_seconds=1800, keep_seconds=86_400)
    assert [one.gateway_id for one in (await known.known(10)).known] == ["new", "twin", "quiet"]


async def test_those_heard_of_last_come_first_and_no_more_than_asked_for(
    known: InstanceStore, engine: AsyncEngine
) -> None:
    for place, gateway_id in enumerate(("c", "a", "b")):
        await known.note(replace(SIGN, gateway_id=gateway_id))
        await pass_time(engine, gateway_id, HOUR * place)
    assert [one.gateway_id for one in (await known.known(2)).known] == ["c", "a"]


async def test_signs_of_life_are_no_writes_of_the_catalog(
    known: InstanceStore, store: CatalogStore
) -> None:
    await known.note(SIGN)
    await known.tidy("gateway-a", "host:8080", silent_seconds=0, keep_seconds=86_400)
    await known.forget("gateway-a", "worker-1")
    assert await store.revision() == 0
