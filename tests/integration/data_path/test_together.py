"""What comes in one turn of the loop is gone through together, in order, and each on its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from relay_gateway.http.client import HttpClient
from relay_gateway.http.exchange import ServerExchange
from relay_gateway.pipeline.settle import Settlement
from relay_gateway.pipeline.turn import Turn
from relay_gateway.testing.data_path import DataPath
from relay_gateway.testing.gathering import gather_everything
from relay_gateway.testing.raw_caller import RawCaller
from relay_gateway.testing.script import Hang, WaitFor, response
from relay_gateway.testing.upstream import ScriptedUpstream

MANY = 40
JSON = [("content-type", "application/json")]
OK = response(200, b"3:5", JSON)


class Diary:
    """Notes in order what is written and what is sent; a ledger, too."""

    full = False

    def __init__(self) -> None:
        self.held = False
        self.sizes: list[int] = []
        """How many announcements and records each write had."""
        self.early: list[str] = []
        """What went out although something was still to be written."""
        self._gathered = 0

    def announce(self, request_id: str, opened: object) -> None:
        self._write()

    def record(self) -> None:
        self._write()

    def hold(self) -> None:
        self.held, self._gathered = True, 0

    def release(self) -> None:
        self.held = False
        if self._gathered:
            self.sizes.append(self._gathered)

    def sends(self, what: str) -> None:
        if self.held:
            self.early.append(what)

    def _write(self) -> None:
        if self.held:
            self._gathered += 1
        else:
            self.sizes.append(1)


class Crowd:
    """Callers whose connections, and those to the upstream, are all open and idle."""

    def __init__(
        self, path: DataPath, upstream: ScriptedUpstream, callers: list[RawCaller]
    ) -> None:
        self.path = path
        self.upstream = upstream
        self.callers = callers

    async def ask_at_once(self, requests: list[bytes]) -> list[tuple[int, bytes]]:
        answers = await asyncio.gather(
            *(caller.ask(one) for caller, one in zip(self.callers, requests, strict=True))
        )
        return [(answer.status, answer.body) for answer in answers]


@pytest.fixture
def diary(monkeypatch: pytest.MonkeyPatch) -> Diary:
    diary = Diary()
    begin_now, respond, account = HttpClient.begin_now, ServerExchange.respond, Settlement.account

    def begun(self: HttpClient, *given: object) -> object:
        diary.sends("request")
        return begin_now(self, *given)  # type: ignore[arg-type]

    def responded(self: ServerExchange, *given: object) -> None:
        diary.sends("answer")
        respond(self, *given)  # type: ignore[arg-type]

    def accounted(self: Settlement, *given: object) -> None:
        diary.record()
        account(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(HttpClient, "begin_now", begun)
    monkeypatch.setattr(ServerExchange, "respond", responded)
    monkeypatch.setattr(Settlement, "account", accounted)
    return diary


@pytest.fixture
async def crowd(
    tmp_path: Path, diary: Diary, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Crowd]:
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(ScriptedUpstream())
        hosts = {"m": upstream.url + "/v1"}
        path = await stack.enter_async_context(DataPath(tmp_path, hosts, ledger=diary))
        callers = [await stack.enter_async_context(RawCaller(path.port)) for _ in range(MANY)]
        crowd = Crowd(path, upstream, callers)
        go = asyncio.Event()
        upstream.enqueue(*([WaitFor(go), *OK] for _ in range(MANY)))
        asked = asyncio.create_task(crowd.ask_at_once([path.request("m")] * MANY))
        await upstream.wait_for_requests(MANY)  # each has a connection of its own now
        go.set()
        assert await asked == [(200, b"3:5")] * MANY
        gather_everything(monkeypatch)
        diary.sizes.clear()
        yield crowd


async def test_nothing_goes_out_before_it_is_written_and_many_take_one_write(
    crowd: Crowd, diary: Diary
) -> None:
    crowd.upstream.enqueue(*[OK] * MANY)
    answers = await crowd.ask_at_once([crowd.path.request("m")] * MANY)
    assert answers == [(200, b"3:5")] * MANY
    assert diary.early == []
    assert sum(diary.sizes) == 2 * MANY, "an announcement and a record of each"
    assert len(diary.sizes) < MANY
    assert [record.outcome for record in crowd.path.records] == ["ok"] * 2 * MANY


async def test_r29_each_gets_its_own_answer_whatever_becomes_of_the_others(
    crowd: Crowd, diary: Diary
) -> None:
    path = crowd.path
    odd = [path.request("m"), path.request("unknown"), b"", path.request("m", extra=',"model":"m"')]
    head = path.head(12).replace(path.relay_key.encode(), b"sk-wrong")
    odd[2] = head + b'{"model":"m"'  # neither key nor body is right
    crowd.upstream.enqueue(*[OK] * (MANY // 4))
    answers = await crowd.ask_at_once(odd * (MANY // 4))
    assert [status for status, _ in answers] == [200, 404, 401, 400] * (MANY // 4)
    assert diary.early == []
    assert len(path.records) == 2 * MANY
    assert len(crowd.upstream.ledger) == MANY + MANY // 4


def let_fail_once(monkeypatch: pytest.MonkeyPatch, owner: type, method: str) -> None:
    """Has the first call of ``method`` raise an exception that nobody expects."""
    works = getattr(owner, method)
    failed: list[bool] = []

    def fails_once(*given: object) -> object:
        if not failed:
            failed.append(True)
            raise RuntimeError("broken")
        return works(*given)

    monkeypatch.setattr(owner, method, fails_once)


async def test_one_that_cannot_be_accounted_for_fails_alone(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_fail_once(monkeypatch, Settlement, "account")
    crowd.upstream.enqueue(*[OK] * MANY)
    answers = await crowd.ask_at_once([crowd.path.request("m")] * MANY)
    assert sorted(status for status, _ in answers) == [200] * (MANY - 1) + [500]


async def test_one_that_cannot_be_sent_fails_alone(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_fail_once(monkeypatch, HttpClient, "begin_now")
    crowd.upstream.enqueue(*[OK] * MANY)
    answers = await crowd.ask_at_once([crowd.path.request("m")] * MANY)
    assert sorted(status for status, _ in answers) == [200] * (MANY - 1) + [500]
    assert max(record.status for record in crowd.path.records[MANY:]) == 500
    assert crowd.path.holdings().drawn_keys == 0


async def test_f43_callers_that_leave_before_their_turn_comes_are_not_answered_for(
    crowd: Crowd,
) -> None:
    crowd.upstream.enqueue(*[[Hang()]] * MANY)
    for caller in crowd.callers:
        caller.send(crowd.path.request("m"))
        caller.writer.transport.abort()
    await crowd.path.until_left()
    await crowd.path.until_recorded(2 * MANY)
    outcomes = {record.outcome for record in crowd.path.records[MANY:]}
    assert outcomes == {"cancelled"}
    assert crowd.path.holdings().drawn_keys == 0


async def test_f10_a_stopping_gateway_ends_what_was_gathered_too(crowd: Crowd) -> None:
    crowd.upstream.enqueue(*[[Hang()]] * MANY)
    for caller in crowd.callers:
        caller.send(crowd.path.request("m"))
    await crowd.upstream.wait_for_requests(MANY + 1)
    crowd.path.interrupt()
    await crowd.path.until_recorded(MANY + 1)
    answers = await asyncio.gather(*(caller.read_answer() for caller in crowd.callers))
    assert {answer.status for answer in answers} == {503}


async def test_f10_what_was_gathered_is_begun_before_everything_is_ended(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Turn, "_schedule", lambda _: None)  # its end does not come by itself
    crowd.upstream.enqueue(*[[Hang()]] * MANY)
    for caller in crowd.callers:
        caller.send(crowd.path.request("m"))
    await crowd.path.until_begun(2 * MANY)
    crowd.path.interrupt()
    answers = await asyncio.gather(*(caller.read_answer() for caller in crowd.callers))
    assert {answer.status for answer in answers} == {503}
