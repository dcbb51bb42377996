from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from relay_gateway.control import ControlServices, create_control_app
from relay_gateway.plugin import LogQuery, UsageQuery, UsageRecord

RECORD = UsageRecord(
    request_id="r-1", started_at="2026-01-01T00:00:00.000000Z", tokens={"input": 3}, cost_nanos=5
)


@pytest.fixture(autouse=True)
def records(surroundings: Any) -> None:
    surroundings.reader.records[RECORD.request_id] = RECORD


async def test_a_record_is_read_by_its_id(admin: httpx.AsyncClient) -> None:
    log = (await admin.get("/logs/r-1")).json()["log"]
    assert (log["requestId"], log["tokens"], log["costNanos"]) == ("r-1", {"input": 3}, 5)
    assert log["ttftMs"] is None
    answer = await admin.get("/logs/r-2")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


async def test_a_list_hands_every_filter_to_the_reader(
    admin: httpx.AsyncClient, surroundings: Any
) -> None:
    answer = await admin.get(
        "/logs",
        params=[
            ("limit", "5"),
            ("cursor", "c"),
            ("status", "429"),
            ("unpriced", "true"),
            ("relayKeyId", "k"),
            ("from", "2026-01-01T01:00:00+01:00"),
            ("to", "2026-01-02T00:00:00Z"),
            ("q", "gpt"),
            ("tag", "team:a"),
            ("tag", "env:p:1"),
        ],
    )
    body = answer.json()
    assert [item["requestId"] for item in body["items"]] == ["r-1"]
    assert body["nextCursor"] == "more"
    assert surroundings.reader.queries == [
        LogQuery(
            limit=5,
            cursor="c",
            equals={"status": 429, "unpriced": True, "relayKeyId": "k"},
            tags={"team": "a", "env": "p:1"},
            start="2026-01-01T00:00:00.000000Z",
            end="2026-01-02T00:00:00.000000Z",
            text="gpt",
        )
    ]


async def test_since_takes_an_age_or_a_time(admin: httpx.AsyncClient, surroundings: Any) -> None:
    await admin.get("/logs?since=90m")
    await admin.get("/logs?since=2026-01-01T00:00:00Z")
    age, time = [query.start for query in surroundings.reader.queries]
    assert 5395 < (datetime.now(UTC) - datetime.fromisoformat(age)).total_seconds() < 5500
    assert time == "2026-01-01T00:00:00.000000Z"


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("limit=0", "limit"),
        ("status=ok", "status"),
        ("status=-1", "status"),
        ("streamed=yes", "streamed"),
        ("from=yesterday", "from"),
        ("to=2026-01-01T00:00:00", "to"),
        ("from=0001-01-01T00:00:00%2B23:00", "from"),
        ("since=5y", "since"),
        ("since=999999999d", "since"),
        ("since=1h&from=2026-01-01T00:00:00Z", "since and from"),
        ("tag=team", "tag"),
        ("tag=:x", "tag"),
        ("modelId=%00", "modelId"),
        ("cursor=bad", "cursor"),
        ("colour=red", "colour"),
    ],
)
async def test_a_parameter_that_cannot_be_read_is_refused_by_name(
    admin: httpx.AsyncClient, query: str, name: str
) -> None:
    answer = await admin.get(f"/logs?{query}")
    assert answer.status_code == 400, answer.text
    assert name in answer.json()["error"]["message"]


async def test_a_summary_is_grouped_and_filtered(
    admin: httpx.AsyncClient, surroundings: Any
) -> None:
    answer = await admin.get(
        "/usage/summary?groupBy=model,tag:team&from=2026-01-01T00:00:00Z&outcome=ok"
    )
    assert answer.json()["items"][0]["costNanos"] == {"USD": 5}
    assert surroundings.reader.summaries == [
        UsageQuery(
            group_by=("model", "tag:team"),
            start="2026-01-01T00:00:00.000000Z",
            equals={"outcome": "ok"},
        )
    ]
    for bad in ("colour", "tag:"):
        refused = await admin.get(f"/usage/summary?groupBy={bad}")
        assert refused.status_code == 400
        assert "relayKey" in refused.json()["error"]["message"]


async def test_without_a_readable_sink_the_answer_is_501_with_the_reason(
    services: ControlServices, admin: httpx.AsyncClient
) -> None:
    services.usage_reader = None
    transport = httpx.ASGITransport(create_control_app(services))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        for path in ("/logs", "/logs/r-1", "/usage/summary"):
            answer = await client.get(path, headers=admin.headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == (
                501,
                "usage_not_readable",
            )
