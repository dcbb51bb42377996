"""Outages of an upstream over real sockets: what it sees of them, and how they end."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path

import pytest

from relay_gateway.pipeline import breaker
from relay_gateway.testing.data_path import DataPath
from relay_gateway.testing.ledger import SeenRequest
from relay_gateway.testing.script import Reset, Script, json_response
from relay_gateway.testing.upstream import ScriptedUpstream

SHORT = 0.4


class Outage:
    """An upstream that answers as it is told to."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.over = False
        self.asked = 0

    def __call__(self, _request: SeenRequest) -> Script:
        self.asked += 1
        return json_response(200, {"ok": True}) if self.over else self.script


async def ask(path: DataPath, times: int, at_once: int = 4) -> Counter[int]:
    """The statuses that so many requests got."""
    statuses: Counter[int] = Counter()

    async def one_after_another(count: int) -> None:
        for _ in range(count):
            reader, writer = await asyncio.open_connection("127.0.0.1", path.port)
            writer.write(path.request("m"))
            line = await reader.readline()
            statuses[int(line.split()[1])] += 1
            writer.close()
            await writer.wait_closed()

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(one_after_another(times // at_once))
    return statuses


@pytest.mark.parametrize(
    "script", [json_response(500, {}), json_response(503, {}), [Reset()]], ids=["500", "503", "RST"]
)
async def test_r11_a_total_outage_is_asked_1_2_times_as_often_at_most(
    tmp_path: Path, script: Script
) -> None:
    outage = Outage(script)
    async with (
        ScriptedUpstream(outage) as upstream,
        DataPath(tmp_path, {"m": upstream.url + "/v1"}) as path,
    ):
        statuses = await ask(path, 100)
        await path.until_recorded(100)
        seen = sum(len(record.attempts) for record in path.records)
    assert statuses.total() == 100
    assert set(statuses) <= {500, 502, 503}
    assert seen == outage.asked
    assert 5 <= seen <= 120
    # After the first failures the host is left alone altogether.
    assert seen <= 20


async def test_r11_three_hosts_that_are_all_out_are_asked_no_more_often_together(
    tmp_path: Path,
) -> None:
    outage = Outage(json_response(500, {}))
    async with ScriptedUpstream(outage) as upstream:
        path = DataPath(tmp_path, dict.fromkeys("mno", upstream.url + "/v1"))
        models = [row for row in path.draft.rows if row.kind == "model"]
        hosts = [row.spec["bindings"][0]["hostId"] for row in models]
        models[0].spec["bindings"] = [{"hostId": one, "upstreamName": "m"} for one in hosts]
        path.publish()
        async with path:
            statuses = await ask(path, 100)
            await path.until_recorded(100)
    assert set(statuses) <= {500, 503}
    # Each host is asked until it is left alone, and by those who were under way by then.
    assert 3 * 5 <= outage.asked <= 120


async def test_f31_a_refused_connection_is_no_storm_either(tmp_path: Path) -> None:
    async with ScriptedUpstream(Outage([Reset()])) as upstream:
        url = upstream.url
    async with DataPath(tmp_path, {"m": url + "/v1"}) as path:
        statuses = await ask(path, 100)
        await path.until_recorded(100)
        seen = sum(len(record.attempts) for record in path.records)
    assert set(statuses) <= {502, 503}
    assert seen <= 20


async def test_r10_after_an_outage_requests_succeed_within_one_probe_interval_without_a_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breaker, "PROBE_SECONDS", SHORT)
    monkeypatch.setattr(breaker, "EJECT_SECONDS", SHORT)
    outage = Outage(json_response(500, {}))
    async with (
        ScriptedUpstream(outage) as upstream,
        DataPath(tmp_path, {"m": upstream.url + "/v1"}) as path,
    ):
        until = time.monotonic() + 3 * SHORT
        while time.monotonic() < until:  # long enough for ejections that grow
            assert 200 not in await ask(path, 4)
        outage.over, ended = True, time.monotonic()
        while (await ask(path, 4, 1))[200] == 0:
            assert time.monotonic() - ended < SHORT + 1
        assert await ask(path, 20) == Counter({200: 20})
