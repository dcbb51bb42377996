"""A secret is rotated in its store while requests are under way: none of them is lost."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest

from relay_gateway.plugin import ResolvedSecret, RowBinding, SecretRef
from relay_gateway.testing.data_path import DataPath
from relay_gateway.testing.ledger import SeenRequest
from relay_gateway.testing.raw_caller import RawCaller
from relay_gateway.testing.script import Script, json_response
from relay_gateway.testing.upstream import ScriptedUpstream

CALLERS = 16
ROTATIONS = 12
REQUESTS_PER_ROTATION = 60
STORE_SECONDS = 0.01


class Account:
    """An upstream account that takes nothing but its newest secret."""

    def __init__(self) -> None:
        self.newest = "sk-m"
        self.statuses: Counter[int] = Counter()

    def answer(self, request: SeenRequest) -> Script:
        """200, or 401 with the credential that came."""
        sent = request.header("authorization") or ""
        status = 200 if sent == f"Bearer {self.newest}" else 401
        self.statuses[status] += 1
        return json_response(status, {"echo": sent} if status == 401 else {})


class Store:
    """The store of the secret behind the gateway, which takes its time."""

    def __init__(self, path: DataPath, monkeypatch: pytest.MonkeyPatch) -> None:
        self._backend = path._backend
        self._resolve = path._backend.resolve
        monkeypatch.setattr(path._backend, "resolve", self.resolve)

    async def resolve(self, stored: SecretRef, binding: RowBinding) -> ResolvedSecret:
        await asyncio.sleep(STORE_SECONDS)
        return await self._resolve(stored, binding)

    def rotate(self, value: str) -> None:
        self._backend.table["m"] = value


async def test_f52_a_rotation_in_the_store_loses_no_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = Account()
    answered: Counter[int] = Counter()
    enough, more = asyncio.Event(), asyncio.Event()

    async def call(path: DataPath) -> None:
        async with RawCaller(path.port) as caller:
            while not enough.is_set():
                answer = await caller.ask(path.request("m"))
                answered[answer.status] += 1
                more.set()

    async with (
        ScriptedUpstream(account.answer) as upstream,
        DataPath(tmp_path, {"m": f"{upstream.url}/v1"}) as path,
    ):
        store = Store(path, monkeypatch)
        calling = [asyncio.ensure_future(call(path)) for _ in range(CALLERS)]
        for number in range(ROTATIONS):
            wanted = answered.total() + REQUESTS_PER_ROTATION
            async with asyncio.timeout(20):
                while answered.total() < wanted:
                    more.clear()
                    await more.wait()
            value = f"sk-rotated-{number}"
            store.rotate(value)
            account.newest = value
        enough.set()
        await asyncio.gather(*calling)
        fetches = len(path._backend.fetches)
    assert set(answered) == {200}, answered
    assert answered[200] >= ROTATIONS * REQUESTS_PER_ROTATION
    assert ROTATIONS <= account.statuses[401] <= ROTATIONS * 2 * CALLERS
    assert fetches <= 1 + 2 * ROTATIONS
    assert {record.status for record in path.records} == {200}


async def test_f52_a_refused_credential_is_told_to_nobody(tmp_path: Path) -> None:
    account = Account()
    account.newest = "sk-of-somebody-else"
    async with (
        ScriptedUpstream(account.answer) as upstream,
        DataPath(tmp_path, {"m": f"{upstream.url}/v1"}) as path,
        RawCaller(path.port) as caller,
    ):
        answer = await caller.ask(path.request("m"))
        assert (answer.status, json.loads(answer.body)["error"]["code"]) == (
            502,
            "upstream_credentials",
        )
        assert b"sk-m" not in answer.body
