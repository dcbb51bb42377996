"""Guessing passwords and names over HTTP: as slow for everybody, and slower with each failure."""

from __future__ import annotations

import statistics
import time
from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from relay_gateway.control import ControlServices, create_control_app
from relay_gateway.secret import Secret
from relay_gateway.security.passwords import PasswordBook, hash_password
from relay_gateway.testing.clock import FakeClock

PASSWORD = "correct horse"
PAIRS = 30
COST = 8
"""A check takes some 15 ms: much more than the difference that is allowed."""
ALLOWED_SECONDS = 0.002
Open = Callable[[str], httpx.AsyncClient]


@pytest.fixture
def guarded(services: ControlServices, fake_clock: FakeClock) -> ControlServices:
    services.users = {"ada": Secret(hash_password(Secret(PASSWORD), COST))}
    services.clock = fake_clock
    return services


@pytest.fixture
async def open_client(guarded: ControlServices) -> AsyncIterator[Open]:
    app = create_control_app(guarded)
    clients: list[httpx.AsyncClient] = []

    def open_one(address: str) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(app, client=(address, 1))
        headers = {"Origin": "https://127.0.0.1", "Sec-Fetch-Site": "same-origin"}
        client = httpx.AsyncClient(
            transport=transport, base_url="https://127.0.0.1", headers=headers
        )
        clients.append(client)
        return client

    yield open_one
    for client in clients:
        await client.aclose()


async def guess(
    client: httpx.AsyncClient, username: str, password: str = "wrong"
) -> httpx.Response:
    return await client.post("/auth/login", json={"username": username, "password": password})


async def test_t46_an_unknown_name_takes_as_much_work_as_a_known_one_over_http(
    open_client: Open, fake_clock: FakeClock
) -> None:
    client = open_client("192.0.2.1")
    work: dict[str, list[float]] = {"ada": [], "nobody": []}
    for number in range(PAIRS):
        for username in sorted(work, reverse=bool(number % 2)):
            fake_clock.advance(16 * 60)  # no attempt is slowed down by those before
            before = time.process_time()
            assert (await guess(client, username)).status_code == 401
            work[username].append(time.process_time() - before)
    # Work and not time: on a machine that others use, too, times differ by more than is allowed
    # even between two logins of the same name.
    medians = [statistics.median(times) for times in work.values()]
    assert abs(medians[0] - medians[1]) < ALLOWED_SECONDS, medians


async def test_t46_refusals_differ_in_nothing_but_the_request(open_client: Open) -> None:
    client = open_client("192.0.2.1")
    answers = [await guess(client, name) for name in ("ada", "nobody", "Ada", "ada ", "x" * 200)]
    assert len({answer.status_code for answer in answers}) == 1
    assert len({answer.content for answer in answers}) == 1
    shapes = [{n: v for n, v in a.headers.items() if n != "x-relay-request-id"} for a in answers]
    assert all(shape == shapes[0] for shape in shapes)


async def test_t46_delays_double_to_30_seconds_and_are_told(
    open_client: Open, fake_clock: FakeClock
) -> None:
    client = open_client("192.0.2.1")
    waits = []
    for _ in range(9):
        while (answer := await guess(client, "ada")).status_code == 429:
            waits.append(int(answer.headers["retry-after"]))
            fake_clock.advance(waits[-1])
        assert answer.status_code == 401
    assert waits == [5, 10, 20, 30]


async def test_t46_a_name_is_slowed_down_from_every_address_and_an_address_for_every_name(
    open_client: Open,
) -> None:
    for number in range(5):
        assert (await guess(open_client(f"192.0.2.{number}"), "ada")).status_code == 401
    elsewhere = await guess(open_client("198.51.100.1"), "ada", PASSWORD)
    assert elsewhere.status_code == 429
    one = open_client("203.0.113.1")
    for number in range(5):
        assert (await guess(one, f"user-{number}")).status_code == 401
    assert (await guess(one, "another")).status_code == 429
    assert (await guess(open_client("203.0.113.2"), "another")).status_code == 401


async def test_t46_what_was_refused_for_its_number_is_not_checked(
    open_client: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = open_client("192.0.2.1")
    for _ in range(5):
        await guess(client, "ada")

    def unexpected(*_: object) -> bool:
        raise AssertionError("a password was checked")

    monkeypatch.setattr(PasswordBook, "verify", unexpected)
    assert (await guess(client, "ada", PASSWORD)).status_code == 429
    with pytest.raises(AssertionError, match="was checked"):
        PasswordBook({}).verify("ada", Secret(PASSWORD))
