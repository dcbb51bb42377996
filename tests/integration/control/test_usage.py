"""``/usage``: totals over time and the export."""

from __future__ import annotations

import asyncio
import csv
import io
import tracemalloc
from typing import Any

import httpx
import msgspec
import pytest

from relay_gateway.control import ControlServices, create_control_app
from relay_gateway.control.usage import EXPORT_PAGE
from relay_gateway.plugin import (
    GuardVisit,
    LogPage,
    LogQuery,
    SeriesQuery,
    UsageQuery,
    UsageReader,
    UsageRecord,
)
from relay_gateway.testing.records import usage_record

ADMIN = b"admin-token-3f9c"
FORMULA = '=HYPERLINK("http://127.0.0.1/")'


@pytest.fixture
def records(surroundings: Any) -> list[UsageRecord]:
    """Two records, one of which says things that a spreadsheet would execute."""
    made = [
        UsageRecord(
            request_id="r-1",
            started_at="2026-01-01T00:00:00.000000Z",
            tokens={"input": 3, "audioInput": 2},
            tags={"team": "+a"},
            cost_nanos=5,
            guards=(
                GuardVisit("mask", "request", "changed"),
                GuardVisit("mask", "stream", "failed"),
            ),
        ),
        UsageRecord(
            request_id="r-2",
            started_at="2026-01-01T00:00:01.000000Z",
            requested_model=FORMULA,
            user_agent="@SUM(A1)",
        ),
    ]
    surroundings.reader.records.update({record.request_id: record for record in made})
    return made


async def test_totals_over_time_ask_for_steps_and_groups(
    admin: httpx.AsyncClient, surroundings: Any
) -> None:
    answer = await admin.get(
        "/usage/timeseries",
        params={
            "interval": "day",
            "groupBy": "model,tag:team",
            "from": "2026-01-01T00:00:00Z",
            "status": "200",
            "tag": ["team:a:b", "app:"],
        },
    )
    items = answer.json()["items"]
    assert [item["start"] for item in items] == ["2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z"]
    assert items[0]["row"]["costNanos"] == {"USD": 5}
    assert surroundings.reader.summaries == [
        SeriesQuery(
            interval="day",
            top=10,
            group_by=("model", "tag:team"),
            start="2026-01-01T00:00:00.000000Z",
            equals={"status": 200},
            tags={"team": "a:b", "app": ""},
        )
    ]


async def test_totals_can_be_of_some_tags_only(admin: httpx.AsyncClient, surroundings: Any) -> None:
    answer = await admin.get("/usage/summary?groupBy=model&tag=team:red&tag=app:x")
    assert answer.status_code == 200
    assert surroundings.reader.summaries == [
        UsageQuery(group_by=("model",), tags={"team": "red", "app": "x"})
    ]
    for path in ("summary", "timeseries", "export"):
        refused = await admin.get(f"/usage/{path}?tag=team")
        assert refused.status_code == 400
        assert "name:value" in refused.json()["error"]["message"]


async def test_totals_over_time_are_of_as_many_groups_as_are_asked_for(
    admin: httpx.AsyncClient, surroundings: Any
) -> None:
    answer = await admin.get("/usage/timeseries", params={"groupBy": "relayKey", "top": 1000})
    assert [item["other"] for item in answer.json()["items"]] == [False, False]
    assert [query.top for query in surroundings.reader.summaries] == [1000]


@pytest.mark.parametrize(
    "query",
    [
        "interval=week",
        "groupBy=colour",
        "top=0",
        "top=1001",
        "top=few",
        "since=1h&from=2026-01-01T00:00:00Z",
        "x=1",
    ],
)
async def test_bad_parameters_are_refused(admin: httpx.AsyncClient, query: str) -> None:
    assert (await admin.get(f"/usage/timeseries?{query}")).status_code == 400


async def test_an_export_has_every_page_as_json_lines(
    admin: httpx.AsyncClient, records: list[UsageRecord]
) -> None:
    answer = await admin.get("/usage/export", params={"q": "gpt"})
    lines = answer.text.splitlines()
    assert [msgspec.json.decode(line, type=UsageRecord) for line in lines] == records * 2
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.headers["content-disposition"] == 'attachment; filename="usage.jsonl"'


@pytest.mark.usefixtures("records")
async def test_t51_no_text_of_an_export_is_a_formula(admin: httpx.AsyncClient) -> None:
    answer = await admin.get("/usage/export?format=csv")
    first, second, *_ = csv.DictReader(io.StringIO(answer.text))
    assert (first["tokens.input"], first["otherTokens"]) == ("3", '{"audioInput":2}')
    assert (first["costNanos"], first["tags"]) == ("5", '{"team":"+a"}')
    assert (first["guards"], second["guards"]) == ("mask:request:changed mask:stream:failed", "")
    assert second["requestedModel"] == f"'{FORMULA}"
    assert second["userAgent"] == "'@SUM(A1)"
    rows = list(csv.reader(io.StringIO(answer.text)))[1:]
    cells = [cell for row in rows for cell in row if not cell.lstrip("-").isdigit()]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]


class EndlessReader(UsageReader):
    """As many pages as wanted, each with the same records."""

    def __init__(self, pages: int) -> None:
        self.pages = pages
        self.asked = 0
        self.items = tuple(usage_record(user_agent="x" * 200) for _ in range(EXPORT_PAGE))

    async def query(self, query: LogQuery) -> LogPage:
        assert query.limit == EXPORT_PAGE
        self.asked += 1
        more = str(self.asked) if self.asked < self.pages else None
        return LogPage(items=self.items, next_cursor=more)


class SlowCaller:
    """Takes an answer of the control plane piece by piece and keeps none of it."""

    def __init__(self, reader: EndlessReader) -> None:
        self.reader = reader
        self.status = self.lines = self.bytes = 0
        self.ahead = 0
        """How many pages were read at most beyond those that it had taken."""

    async def ask(self, app: Any, path: str) -> None:
        target, _, query = path.partition("?")
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http",
            "method": "GET", "path": target, "raw_path": target.encode(), "root_path": "",
            "query_string": query.encode(), "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8081),
            "headers": [(b"host", b"127.0.0.1"), (b"authorization", b"Bearer " + ADMIN)],
        }  # fmt: skip
        await app(scope, self._receive, self._send)

    async def _receive(self) -> Any:
        await asyncio.Event().wait()

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            return
        taken = self.lines // EXPORT_PAGE
        self.ahead = max(self.ahead, self.reader.asked - taken)
        self.lines += message["body"].count(b"\n")
        self.bytes += len(message["body"])
        await asyncio.sleep(0)  # the caller takes its time


@pytest.mark.parametrize(("form", "pages"), [("csv", 12), ("jsonl", 100)])
async def test_an_export_of_100_000_records_needs_the_memory_of_a_page(
    services: ControlServices, form: str, pages: int
) -> None:
    reader = EndlessReader(pages)
    app = create_control_app(msgspec.structs.replace(services, usage_reader=reader))
    caller = SlowCaller(reader)
    tracemalloc.start()
    try:
        await caller.ask(app, f"/usage/export?format={form}")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    heading = 1 if form == "csv" else 0
    assert (caller.status, caller.lines) == (200, pages * EXPORT_PAGE + heading)
    assert caller.ahead == 1, "a page is read once the caller has the one before"
    assert peak < caller.bytes / 3


async def test_an_export_that_cannot_begin_says_why(
    admin: httpx.AsyncClient, surroundings: Any
) -> None:
    async def fail(_query: object) -> None:
        raise ValueError("records cannot be filtered by that")

    surroundings.reader.query = fail
    answer = await admin.get("/usage/export")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_parameter")
