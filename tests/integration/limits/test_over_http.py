"""Limits on real sockets: carried by callbacks, told in headers, given back at every end."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from relay_gateway.testing.data_path import DataPath
from relay_gateway.testing.raw_caller import RawAnswer, RawCaller
from relay_gateway.testing.script import Close, Script, response
from relay_gateway.testing.upstream import ScriptedUpstream

OK = response(200, b"3:5", [("content-type", "application/json")])
EXTRA = ',"max_tokens":40'


class Warm:
    """A data path with an idle connection to its upstream, and a caller."""

    def __init__(self, path: DataPath, upstream: ScriptedUpstream, caller: RawCaller) -> None:
        self.path = path
        self.upstream = upstream
        self.caller = caller

    def limit(self, *rules: dict[str, Any], scope: str = "relay-key") -> None:
        """Has the relay key's policy apply ``rules`` from now on."""
        spec = {"rules": [{"windowSeconds": 3600, **rule} for rule in rules]}
        rate_limit = self.path.draft.add("rate limit", "tight", spec)
        free = self.path.draft.policy("free")
        for row in self.path.draft.rows:
            if row.kind == "host key":
                row.spec["policyId"] = free
            elif row.kind == "policy" and row.id != free:
                row.spec["rateLimits"] = [{"rateLimitId": rate_limit, "scope": scope}]
        self.path.publish()

    async def ask(self, *scripts: Script) -> RawAnswer:
        """One more request, which the upstream answers so if it is asked."""
        self.upstream.enqueue(*scripts)
        return await self.caller.ask(self.path.request("m", extra=EXTRA))


@pytest.fixture
async def warm(tmp_path: Path) -> AsyncIterator[Warm]:
    async with (
        ScriptedUpstream() as upstream,
        DataPath(tmp_path, {"m": upstream.url + "/v1"}) as path,
        RawCaller(path.port) as caller,
    ):
        world = Warm(path, upstream, caller)
        assert (await world.ask(OK)).status == 200
        yield world


@pytest.mark.parametrize("scope", ["relay-key", "policy", "model", "tag:team", "global"])
@pytest.mark.parametrize(
    ("meter", "amount", "family"),
    [
        ("requests", 2, "requests"),
        ("tokens", 60, "tokens"),  # the first one claims 7 + 40 and uses 8
        ("tokens.input", 12, "tokens"),  # claims 7, uses 3
        ("tokens.output", 45, "tokens"),  # claims 40, uses 5
    ],
)
async def test_each_meter_and_scope_refuses_the_third(
    warm: Warm, meter: str, amount: int, family: str, scope: str
) -> None:
    warm.limit({"meter": meter, "amount": amount, "strategy": "session-window"}, scope=scope)
    answers = [await warm.ask(OK), await warm.ask(OK), await warm.ask()]
    assert [answer.status for answer in answers] == [200, 200, 429]
    for answer in answers:
        assert f"x-ratelimit-limit-{family}: {amount}\r\n".encode() in answer.head
        assert f"x-ratelimit-remaining-{family}: ".encode() in answer.head
        assert re.search(rb"x-ratelimit-reset-[a-z]+: (1h0m0s|59m[0-9.]+s)\r\n", answer.head)
    assert b"retry-after: 3" in answers[2].head
    assert [record.outcome for record in warm.path.records[1:]] == ["ok", "ok", "rejected"]


async def test_the_head_of_a_limited_answer_is_this(warm: Warm) -> None:
    warm.limit({"meter": "requests", "amount": 2, "strategy": "session-window"})
    await warm.ask(OK)
    answers = [await warm.ask(OK), await warm.ask()]
    seen = [re.sub(rb"[0-9a-f-]{36}|: [0-9]{4}$", b"*", answer.head) for answer in answers]
    names = [re.findall(rb"(?m)^([A-Za-z-]+):", head) for head in seen]
    assert names[0] == [
        b"Date",
        b"content-type",
        b"cache-control",
        b"X-Relay-Request-Id",
        b"X-Relay-Host",
        b"x-ratelimit-limit-requests",
        b"x-ratelimit-remaining-requests",
        b"x-ratelimit-reset-requests",
        b"X-Relay-Attempts",
        *names[0][9:],
    ]
    assert b"x-ratelimit-remaining-requests" in names[1]
    assert names[1].count(b"retry-after") == 1


async def test_limited_requests_need_no_task_of_their_own_either(warm: Warm) -> None:
    warm.limit({"meter": "requests", "amount": 9}, {"meter": "concurrency", "amount": 2,
                                                    "windowSeconds": None})  # fmt: skip
    before = warm.path.holdings()
    assert (await warm.ask(OK)).status == 200
    await warm.path.until_recorded(2)
    assert warm.path.holdings().tasks == before.tasks


async def test_an_upstream_that_breaks_off_costs_no_slot(warm: Warm) -> None:
    warm.limit({"meter": "concurrency", "amount": 1, "windowSeconds": None})
    for _ in range(3):
        answer = await warm.ask(response(400, b"{}", [("content-type", "application/json")]))
        assert answer.status == 400
    assert (await warm.ask([Close()], [Close()], [Close()])).status in (502, 503)
    assert (await warm.ask(OK)).status != 429
