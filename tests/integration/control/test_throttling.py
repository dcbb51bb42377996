"""Failed logins that instances count together, and wrong admin tokens."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.control import ControlServices, create_control_app
from relay_gateway.control.refused_tokens import FREE, MAX_ADDRESSES, OTHERS, RefusedTokens
from relay_gateway.control.unauthenticated import UnauthenticatedError
from relay_gateway.secret import Secret
from relay_gateway.security.passwords import hash_password
from relay_gateway.storage import AuditLog
from relay_gateway.storage.audit import Actor, AuditQuery, acting
from relay_gateway.testing.clock import FakeClock
from relay_gateway.testing.databases import migrated

ADMIN_TOKEN = "admin-token-3f9c"
PASSWORD = "correct horse"
Open = Callable[..., httpx.AsyncClient]


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    async with migrated(database_url) as engine:
        yield engine


@pytest.fixture
async def instance(services: ControlServices, fake_clock: FakeClock) -> AsyncIterator[Open]:
    """Opens a client of one and of the other instance on the same database, in turn."""
    services.users = {"ada": Secret(hash_password(Secret(PASSWORD), 4))}
    services.clock = fake_clock
    clients: list[httpx.AsyncClient] = []
    turns = itertools.cycle([create_control_app(services), create_control_app(services)])

    def open_one(address: str = "127.0.0.1", **headers: str) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(next(turns), client=(address, 1))
        url = "http://127.0.0.1"
        clients.append(httpx.AsyncClient(transport=transport, base_url=url, headers=headers))
        return clients[-1]

    yield open_one
    for client in clients:
        await client.aclose()


async def log_in(client: httpx.AsyncClient, password: str = PASSWORD) -> int:
    body = {"username": "ada", "password": password}
    return (await client.post("/auth/login", json=body)).status_code


async def test_t46_instances_count_failed_logins_together(
    instance: Open, fake_clock: FakeClock
) -> None:
    for number in range(5):
        assert await log_in(instance(f"10.0.0.{number}"), "wrong") == 401
        fake_clock.advance(1)
    body = {"username": "ada", "password": PASSWORD}
    refused = await instance("10.0.1.1").post("/auth/login", json=body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many_logins")
    fake_clock.advance(int(refused.headers["retry-after"]))
    assert await log_in(instance("10.0.1.1")) == 200
    # The success has cleared the name for all of them.
    assert await log_in(instance("10.0.1.2"), "wrong") == 401


async def test_t46_an_address_is_slowed_down_on_all_instances(instance: Open) -> None:
    for number in range(5):
        body = {"username": f"user-{number}", "password": "wrong"}
        assert (await instance("2001:db8::1").post("/auth/login", json=body)).status_code == 401
    assert await log_in(instance("2001:db8::2")) == 429
    assert await log_in(instance("2001:db8:0:1::1")) == 200


async def test_failures_are_forgotten_after_15_minutes_and_kept_as_digests(
    instance: Open, fake_clock: FakeClock, engine: AsyncEngine
) -> None:
    for _ in range(5):
        await log_in(instance(), "wrong")
    fake_clock.advance(15 * 60 + 1)
    assert await log_in(instance("10.0.0.9"), "wrong") == 401
    async with engine.connect() as connection:
        rows = (await connection.execute(text("SELECT * FROM login_failures"))).all()
    assert len(rows) == 2
    assert "ada" not in str(rows)
    assert "10.0.0.9" not in str(rows)


async def test_t77_failures_of_a_clock_that_was_ahead_lock_nobody_out(
    instance: Open, fake_clock: FakeClock
) -> None:
    for _ in range(5):
        await log_in(instance(), "wrong")
    fake_clock.set_time(fake_clock.time() - 86_400)
    assert await log_in(instance()) == 200


async def tokens_refused(engine: AsyncEngine) -> list[tuple[str | None, Any]]:
    found = await AuditLog(engine).page(AuditQuery(limit=1000, equal={"action": "token-refused"}))
    return [(item.address, item.detail["attempts"]) for item in reversed(found)]


async def test_t46_wrong_admin_tokens_are_recorded_with_their_address(
    instance: Open, engine: AsyncEngine
) -> None:
    client = instance("10.0.0.7", Authorization="Bearer wrong-token-4711")
    for _ in range(3):
        assert (await client.get("/providers")).status_code == 401
    assert await tokens_refused(engine) == [("10.0.0.7", 1)]
    async with engine.connect() as connection:
        stored = str((await connection.execute(text("SELECT * FROM audit_records"))).all())
    assert "4711" not in stored


async def test_t46_a_flood_of_wrong_tokens_is_slowed_down_and_the_right_one_is_not(
    instance: Open, engine: AsyncEngine
) -> None:
    client = instance("10.0.0.7")
    wrong = {"Authorization": "Bearer wrong"}
    statuses = [(await client.get("/version-", headers=wrong)).status_code for _ in range(FREE)]
    assert set(statuses) == {401}
    refused = await client.get("/providers", headers=wrong)
    assert (refused.status_code, refused.json()["error"]["code"]) == (
        429,
        "too_many_refused_tokens",
    )
    assert refused.headers["retry-after"] == "60"
    right = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    assert (await client.get("/providers", headers=right)).status_code == 200
    assert await tokens_refused(engine) == [("10.0.0.7", 1)]


async def test_t59_a_flood_makes_few_records_that_count_all_of_it(engine: AsyncEngine) -> None:
    refused = RefusedTokens(AuditLog(engine))
    for number in range(MAX_ADDRESSES + 50):
        for _ in range(3):
            acting.set(Actor(address=f"10.0.{number // 250}.{number % 250}"))
            await refused.refuse()
    await refused.end_minute()
    recorded = await tokens_refused(engine)
    assert len(recorded) <= 2 * (MAX_ADDRESSES + 1)
    assert sum(attempts for _, attempts in recorded) == 3 * (MAX_ADDRESSES + 50)
    assert sum(attempts for address, attempts in recorded if address == OTHERS) == 150
    await refused.end_minute()
    assert await tokens_refused(engine) == recorded


async def test_f28_wrong_tokens_are_refused_and_not_forgotten_while_nothing_can_be_recorded(
    instance: Open, engine: AsyncEngine
) -> None:
    async with engine.begin() as connection:
        await connection.execute(text("ALTER TABLE audit_records RENAME TO gone"))
    refused = RefusedTokens(AuditLog(engine))
    acting.set(Actor(address="10.0.0.7"))
    for _ in range(2):
        assert isinstance(await refused.refuse(), UnauthenticatedError)
    await refused.end_minute()
    async with engine.begin() as connection:
        await connection.execute(text("ALTER TABLE gone RENAME TO audit_records"))
    await refused.end_minute()
    assert await tokens_refused(engine) == [("10.0.0.7", 2)]
