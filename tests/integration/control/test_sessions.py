"""Logging in, staying in, and being out: on SQLite and on PostgreSQL."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Any

import httpx
import pytest
from msgspec.structs import replace
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.control import ControlServices, create_control_app
from relay_gateway.http.addresses import AddressReader
from relay_gateway.secret import Secret
from relay_gateway.security.passwords import hash_password
from relay_gateway.storage import AuditLog
from relay_gateway.storage.audit import AuditQuery
from relay_gateway.testing.clock import FakeClock
from relay_gateway.testing.databases import migrated

ADMIN_TOKEN = "admin-token-3f9c"
PASSWORD = "correct horse"
ORIGIN = "https://127.0.0.1"
BROWSER = {"Origin": ORIGIN, "Sec-Fetch-Site": "same-origin"}
Open = Callable[..., httpx.AsyncClient]


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    async with migrated(database_url) as engine:
        yield engine


@pytest.fixture
def access(services: ControlServices, fake_clock: FakeClock) -> ControlServices:
    services.users = {"ada": Secret(hash_password(Secret(PASSWORD), 4))}
    services.clock = fake_clock
    return services


@pytest.fixture
async def open_client(access: ControlServices) -> AsyncIterator[Open]:
    clients: list[httpx.AsyncClient] = []

    def open_one(address: str = "127.0.0.1", **headers: str) -> httpx.AsyncClient:
        app = create_control_app(access)
        transport = httpx.ASGITransport(app, client=(address, 1))
        client = httpx.AsyncClient(transport=transport, base_url=ORIGIN, headers=headers)
        clients.append(client)
        return client

    yield open_one
    for client in clients:
        await client.aclose()


@pytest.fixture
def browser(open_client: Open) -> httpx.AsyncClient:
    return open_client(**BROWSER)


async def log_in(
    client: httpx.AsyncClient, username: str = "ada", password: str = PASSWORD, **headers: str
) -> httpx.Response:
    body = {"username": username, "password": password}
    return await client.post("/auth/login", json=body, headers=headers)


def error_of(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


async def audited(engine: AsyncEngine) -> list[tuple[str, str, str | None]]:
    found = await AuditLog(engine).page(AuditQuery())
    return [(item.action, item.actor, item.target) for item in found]


async def test_t45_a_login_begins_a_session_that_ends_with_the_logout(
    browser: httpx.AsyncClient, access: ControlServices
) -> None:
    access.access = replace(access.access, cookie_secure=True)
    answer = await log_in(browser)
    assert answer.status_code == 200, answer.text
    assert answer.json()["username"] == "ada"
    expires = datetime.fromisoformat(answer.json()["expiresAt"])
    assert expires.timestamp() == int(access.clock.time()) + 24 * 3600
    cookie = browser.cookies["relay_session"]
    assert len(cookie) == 43
    assert (await browser.get("/providers")).status_code == 200
    who = (await browser.get("/auth/whoami")).json()
    assert who == {**answer.json(), "method": "session"}
    gone = await browser.post("/auth/logout")
    assert gone.json() == {"sessions": 1}
    assert "relay_session" not in browser.cookies
    replayed = await browser.get("/providers", headers={"Cookie": f"relay_session={cookie}"})
    assert error_of(replayed) == (401, "unauthenticated")


async def test_t45_the_cookie_has_every_protection(
    access: ControlServices, open_client: Open
) -> None:
    for secure in (True, False):
        access.access = replace(access.access, cookie_secure=secure)
        header = (await log_in(open_client())).headers["set-cookie"]
        parts = {part.strip().lower() for part in header.split(";")[1:]}
        expected = {"httponly", "samesite=strict", "path=/", "max-age=86400"}
        assert parts == expected | ({"secure"} if secure else set())


async def test_t45_only_digests_are_stored(browser: httpx.AsyncClient, engine: AsyncEngine) -> None:
    await log_in(browser)
    async with engine.connect() as connection:
        stored = str((await connection.execute(text("SELECT * FROM sessions"))).all())
        stored += str((await connection.execute(text("SELECT * FROM audit_records"))).all())
    assert "ada" in stored
    assert browser.cookies["relay_session"] not in stored
    assert PASSWORD not in stored


async def test_t45_a_login_ends_the_session_it_came_with(browser: httpx.AsyncClient) -> None:
    await log_in(browser)
    old = browser.cookies["relay_session"]
    assert (await log_in(browser)).status_code == 200
    assert browser.cookies["relay_session"] != old
    browser.cookies.clear()
    fixed = await browser.get("/auth/whoami", headers={"Cookie": f"relay_session={old}"})
    assert error_of(fixed) == (401, "unauthenticated")


async def test_t45_a_session_ends_idle_and_at_the_latest_after_a_day(
    browser: httpx.AsyncClient, fake_clock: FakeClock
) -> None:
    await log_in(browser)
    for _ in range(12):
        fake_clock.advance(2 * 3600 - 60)
        assert (await browser.get("/auth/whoami")).status_code == 200
    fake_clock.advance(13 * 60)
    assert (await browser.get("/auth/whoami")).status_code == 401
    await log_in(browser)
    fake_clock.advance(2 * 3600)
    assert (await browser.get("/auth/whoami")).status_code == 401


async def test_t77_a_clock_that_is_set_back_ends_sessions(
    browser: httpx.AsyncClient, fake_clock: FakeClock
) -> None:
    await log_in(browser)
    fake_clock.set_time(fake_clock.time() - 86_400)
    assert (await browser.get("/auth/whoami")).status_code == 401


async def test_t45_a_new_password_and_a_removed_user_end_sessions(
    access: ControlServices, open_client: Open
) -> None:
    for users in ({"ada": Secret(hash_password(Secret("another"), 4))}, {}):
        access.users = {"ada": Secret(hash_password(Secret(PASSWORD), 4))}
        first = open_client(**BROWSER)
        await log_in(first)
        assert (await first.get("/auth/whoami")).status_code == 200
        access.users = users
        browser = open_client(**BROWSER)
        browser.cookies.update(first.cookies)
        assert error_of(await browser.get("/auth/whoami")) == (401, "unauthenticated")


async def test_all_sessions_of_a_user_can_be_ended_at_once(
    access: ControlServices, open_client: Open
) -> None:
    access.users = {**access.users, "bob": access.users["ada"]}
    clients = [open_client(**BROWSER) for _ in range(3)]
    for client, name in zip(clients, ("ada", "ada", "bob"), strict=True):
        await log_in(client, name)
    assert (await clients[0].post("/auth/logout?all=true")).json() == {"sessions": 2}
    statuses = [(await client.get("/auth/whoami")).status_code for client in clients]
    assert statuses == [401, 401, 200]
    operator = open_client(Authorization=f"Bearer {ADMIN_TOKEN}")
    assert (await operator.post("/auth/logout")).json() == {"sessions": 0}
    assert (await operator.post("/auth/logout?all=true")).json() == {"sessions": 1}
    assert (await clients[2].get("/auth/whoami")).status_code == 401


async def test_t46_unknown_users_and_wrong_passwords_are_answered_alike(
    browser: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    wrong = await log_in(browser, password="wrong")
    unknown = await log_in(browser, "nobody")
    assert error_of(wrong) == error_of(unknown) == (401, "invalid_credentials")
    assert wrong.json() == unknown.json()
    assert "set-cookie" not in wrong.headers
    assert await audited(engine) == [
        ("login-failed", "", "nobody"),
        ("login-failed", "", "ada"),
    ]


async def test_t46_the_sixth_login_has_to_wait_even_with_the_right_password(
    browser: httpx.AsyncClient, open_client: Open, fake_clock: FakeClock
) -> None:
    for _ in range(5):
        assert (await log_in(browser, password="wrong")).status_code == 401
    refused = await log_in(browser)
    assert error_of(refused) == (429, "too_many_logins")
    wait = int(refused.headers["retry-after"])
    assert 1 <= wait <= 30
    fake_clock.advance(wait)
    assert (await log_in(browser)).status_code == 200


async def test_t46_callers_behind_a_trusted_proxy_are_told_apart(
    access: ControlServices, open_client: Open, engine: AsyncEngine
) -> None:
    from ipaddress import ip_network

    reader = AddressReader([ip_network("10.0.0.0/8")])
    access.access = replace(access.access, addresses=reader)
    client = open_client("10.0.0.1")
    for number in range(6):
        forwarded = {"X-Forwarded-For": f"192.0.2.{number}"}
        answer = await log_in(client, f"user-{number}", **forwarded)
        assert answer.status_code == 401
    addresses = {item.address for item in await AuditLog(engine).page(AuditQuery())}
    assert addresses == {f"192.0.2.{number}" for number in range(6)}


@pytest.mark.parametrize(
    "body",
    [{}, {"username": "ada"}, {"username": "", "password": "x"}, {"username": 1, "password": "x"},
     {"username": "ada", "password": "x" * 1025}, {"username": "ada", "password": "x", "y": 1}],
)  # fmt: skip
async def test_a_login_that_is_none_is_422_and_quotes_nothing(
    browser: httpx.AsyncClient, body: dict[str, Any]
) -> None:
    answer = await browser.post("/auth/login", json=body)
    assert error_of(answer) == (422, "invalid_entity")
    assert "xxxx" not in answer.text


async def test_a_page_of_another_site_can_neither_log_in_nor_write(
    browser: httpx.AsyncClient, open_client: Open
) -> None:
    evil = open_client(Origin="https://evil.example", **{"Sec-Fetch-Site": "cross-site"})
    assert error_of(await log_in(evil)) == (403, "cross_site_request")
    await log_in(browser)
    evil.cookies.update(browser.cookies)
    entity = {"metadata": {"displayName": "x"}, "spec": {}}
    assert error_of(await evil.post("/providers", json=entity)) == (403, "cross_site_request")
    assert (await browser.post("/providers", json=entity)).status_code == 201


async def test_t43_every_combination_of_origin_and_body_on_a_cookie_write(
    browser: httpx.AsyncClient, open_client: Open
) -> None:
    await log_in(browser)
    cookie = f"relay_session={browser.cookies['relay_session']}"
    plain = open_client()
    origins = (None, ORIGIN, "http://127.0.0.1:81", "null", "https://evil.example")
    sites = (None, "same-origin", "same-site", "cross-site")
    kinds = ("application/json", "text/plain", "application/x-www-form-urlencoded")
    for number, (origin, site, kind) in enumerate(itertools.product(origins, sites, kinds)):
        headers = {"Cookie": cookie, "Content-Type": kind}
        headers |= {"Origin": origin} if origin else {}
        headers |= {"Sec-Fetch-Site": site} if site else {}
        content = b'{"metadata": {"displayName": "p%d"}, "spec": {}}' % number
        answer = await plain.post("/providers", content=content, headers=headers)
        ours = (origin or site) and origin in (None, ORIGIN) and site in (None, "same-origin")
        expected = 201 if ours and kind == "application/json" else 403
        assert answer.status_code == expected, (origin, site, kind)


async def test_the_bearer_decides_alone_where_there_is_one(
    browser: httpx.AsyncClient,
) -> None:
    await log_in(browser)
    wrong = await browser.get("/auth/whoami", headers={"Authorization": "Bearer wrong"})
    assert error_of(wrong) == (401, "unauthenticated")
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}", "Origin": "https://evil.example"}
    right = await browser.get("/auth/whoami", headers=headers)
    assert right.json() == {"username": "admin", "method": "admin-token"}


@pytest.mark.parametrize("value", ["", "x", "x" * 5000, "a; relay_session=b"])
async def test_cookies_that_are_no_session_are_401(open_client: Open, value: str) -> None:
    answer = await open_client().get("/providers", headers={"Cookie": f"relay_session={value}"})
    assert error_of(answer) == (401, "unauthenticated")


async def test_t74_sessions_that_cannot_be_looked_up_are_503_and_never_401(
    browser: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    await log_in(browser)
    async with engine.begin() as connection:
        await connection.execute(text("ALTER TABLE sessions RENAME TO gone"))
    answer = await browser.get("/auth/whoami")
    assert error_of(answer) == (503, "storage_unavailable")
    assert answer.headers["retry-after"]
    assert error_of(await log_in(browser)) == (503, "storage_unavailable")


async def test_f28_who_cannot_be_recorded_cannot_log_in(
    browser: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    async with engine.begin() as connection:
        await connection.execute(text("ALTER TABLE audit_records RENAME TO gone"))
    assert error_of(await log_in(browser)) == (503, "storage_unavailable")
    assert error_of(await log_in(browser, password="wrong")) == (503, "storage_unavailable")
    assert "relay_session" not in browser.cookies
    async with engine.connect() as connection:
        assert (await connection.execute(text("SELECT * FROM sessions"))).all() == []


async def test_logins_logouts_and_writes_say_who_made_them(
    browser: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    await log_in(browser)
    created = await browser.post("/providers", json={"metadata": {"displayName": "x"}, "spec": {}})
    await browser.post("/auth/logout")
    logout, create, login = await AuditLog(engine).page(AuditQuery())
    assert (login.action, login.target, login.address) == ("login", "ada", "127.0.0.1")
    assert (create.actor, create.method) == ("ada", "session")
    assert create.request_id == created.headers["x-relay-request-id"]
    assert create.session == logout.session
    assert len(create.session or "") == 64
    assert (logout.action, logout.actor) == ("logout", "ada")


async def test_without_users_the_answer_says_what_to_do(
    access: ControlServices, open_client: Open
) -> None:
    access.users = {}
    answer = await log_in(open_client())
    assert error_of(answer) == (401, "invalid_credentials")
    assert "RELAY_ADMIN_PASSWORD" in answer.text


async def test_a_plain_text_password_works_and_is_warned_of(
    access: ControlServices, open_client: Open, caplog: pytest.LogCaptureFixture
) -> None:
    access.users = {"ada": Secret("pl41n t3xt")}
    client = open_client()
    assert "deprecated" in caplog.text
    assert "pl41n" not in caplog.text
    assert (await log_in(client, password="pl41n t3xt")).status_code == 200
