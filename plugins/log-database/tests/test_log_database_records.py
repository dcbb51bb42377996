"""Records come back as they were written, once each, and in pages."""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay_gateway.plugin import LOG_FILTERS, Attempt, LogQuery, UsageRecord
from relay_gateway.testing.plugin_tests import new_id
from relay_gateway_log_database import DatabaseSink
from relay_gateway_log_database.rows import MAX_INTEGER
from relay_gateway_log_database.tables import usage_rows


def record(second: int = 0, **fields: object) -> UsageRecord:
    """A record that began ``second`` seconds into a minute."""
    plain = UsageRecord(request_id=new_id(), started_at=f"2026-01-01T00:00:{second:02}Z")
    return msgspec.structs.replace(plain, **fields)


FULL = UsageRecord(
    request_id="0190a0b0-0000-7000-8000-000000000001",
    started_at="2026-01-01T00:00:00.123456Z",
    mode="proxy",
    endpoint="chat.completions",
    wire_format="acme.chat",
    upstream_wire_format="other.chat",
    streamed=True,
    status=502,
    outcome="upstream_error",
    error_code="upstream_unreachable",
    client_request_id="client-1",
    duration_ms=12.75,
    ttfb_ms=3.5,
    ttft_ms=4.25,
    overhead_ms=0.125,
    attempts=(
        Attempt(host_id="h1", host_key_id="k1", status=500, error="x", duration_ms=1.5),
        Attempt(host_id="h2"),
    ),
    relay_key_id="rk",
    policy_id="po",
    provider_id="pr",
    model_id="mo",
    requested_model="acme/large",
    upstream_model="large-2",
    host_id="h2",
    host_key_id="k2",
    tokens={"input": 7, "output": 0, "somethingNew": 3},
    units={"images": 2},
    usage_source="upstream",
    finish_reason="stop",
    pricing_id="px",
    cost_nanos=123_456_789,
    currency="EUR",
    unpriced=True,
    tags={"team": "blue", 'a "quoted" $.name': "ümläut"},
    client_ip="127.0.0.1",
    user_agent="agent\x00with nul",
    bytes_in=10,
    bytes_out=20,
    instance="one",
)


async def ids(sink: DatabaseSink, **query: object) -> list[str]:
    page = await sink.query(msgspec.structs.replace(LogQuery(), **query))
    return [item.request_id for item in page.items]


@pytest.mark.parametrize("written", [FULL, record()], ids=["full", "plain"])
async def test_a_record_comes_back_equal(sink: DatabaseSink, written: UsageRecord) -> None:
    await sink.write([written])
    assert await sink.get(written.request_id) == written
    assert (await sink.query(LogQuery())).items == (written,)


async def test_an_unknown_record_is_none(sink: DatabaseSink) -> None:
    assert await sink.get(new_id()) is None
    assert await sink.get("a\x00b") is None


async def test_an_empty_database_has_one_empty_page(sink: DatabaseSink) -> None:
    page = await sink.query(LogQuery())
    assert page.items == ()
    assert page.next_cursor is None


async def test_f18_a_second_arrival_changes_nothing(sink: DatabaseSink) -> None:
    first = record(status=200)
    other = record()
    again = msgspec.structs.replace(first, status=500)
    await sink.write([first])
    await sink.write([again, other, other])
    assert await sink.get(first.request_id) == first
    assert sorted(await ids(sink)) == sorted([first.request_id, other.request_id])


async def test_f18_two_writers_of_the_same_records_both_succeed(sink: DatabaseSink) -> None:
    records = [record() for _ in range(300)]
    shuffled = random.Random(1).sample(records, len(records))
    await asyncio.gather(*(sink.write(batch) for batch in (records, shuffled) * 3))
    assert sorted(await ids(sink, limit=1000)) == sorted(item.request_id for item in records)


async def test_a_batch_is_written_whole_or_not_at_all(sink: DatabaseSink) -> None:
    records = [record() for _ in range(250)]
    bad = record(started_at="yesterday")
    with pytest.raises(ValueError, match="'yesterday' is not an RFC 3339 time"):
        await sink.write([*records, bad])
    assert await ids(sink) == []
    await sink.write(records)
    assert len(await ids(sink, limit=1000)) == 250


async def test_t72_a_cancelled_write_leaves_all_or_nothing_and_a_usable_sink(
    sink: DatabaseSink,
) -> None:
    for steps in range(0, 60, 4):
        batch = [record(instance=f"run-{steps}") for _ in range(250)]
        writing = asyncio.create_task(sink.write(batch))
        for _ in range(steps):
            await asyncio.sleep(0)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        mine = {"instance": f"run-{steps}"}
        assert len(await ids(sink, limit=1000, equals=mine)) in (0, 250)
        await sink.write(batch)
        assert len(await ids(sink, limit=1000, equals=mine)) == 250


async def test_an_empty_batch_is_no_error(sink: DatabaseSink) -> None:
    await sink.write([])


async def test_f44_figures_beyond_64_bits_and_long_texts_do_not_stop_a_batch(
    sink: DatabaseSink,
) -> None:
    huge = record(
        cost_nanos=1 << 70,
        tokens={"input": MAX_INTEGER},
        requested_model="m" * 100_000,
        error_code="e\x00" * 2000,
        tags={"nul\x00": "v\x00" * 3000},
    )
    await sink.write([huge])
    assert await sink.get(huge.request_id) == huge
    found = await ids(
        sink,
        equals={"requestedModel": huge.requested_model, "errorCode": huge.error_code},
        tags=huge.tags,
        text="m" * 300,
    )
    assert found == [huge.request_id]


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    names=st.lists(st.one_of(st.none(), text), min_size=3, max_size=3),
    tags=st.dictionaries(text, text, max_size=3),
    tokens=st.dictionaries(text, st.integers(0, MAX_INTEGER), max_size=3),
)
async def test_any_text_comes_back_and_is_found(
    sink: DatabaseSink,
    names: list[str | None],
    tags: dict[str, str],
    tokens: dict[str, int],
) -> None:
    written = record(
        client_request_id=names[0],
        requested_model=names[1],
        user_agent=names[2],
        tags=tags,
        tokens=tokens,
    )
    await sink.write([written])
    assert await sink.get(written.request_id) == written
    equals = {"requestId": written.request_id}
    assert await ids(sink, equals=equals, tags=tags) == [written.request_id]


async def test_pages_are_newest_first_and_complete_without_repeats(sink: DatabaseSink) -> None:
    # Ten records share each second, so pages end in the middle of equal times.
    records = [record(second) for second in range(5) for _ in range(10)]
    await sink.write(random.Random(2).sample(records, len(records)))
    expected = sorted(records, key=lambda r: (r.started_at, r.request_id), reverse=True)
    for limit in (1, 7, 25, 50, 51):
        assert await walk(sink, limit) == expected


async def walk(sink: DatabaseSink, limit: int) -> Sequence[UsageRecord]:
    seen: list[UsageRecord] = []
    cursor = None
    for _ in range(100):
        page = await sink.query(LogQuery(limit=limit, cursor=cursor))
        assert len(page.items) <= limit
        seen.extend(page.items)
        cursor = page.next_cursor
        if cursor is None:
            return seen
    raise AssertionError("the list does not end")


async def test_records_that_arrive_meanwhile_do_not_shift_the_next_page(sink: DatabaseSink) -> None:
    records = [record(second) for second in range(10)]
    await sink.write(records)
    first = await sink.query(LogQuery(limit=5))
    await sink.write([record(30) for _ in range(5)])
    second = await sink.query(LogQuery(limit=5, cursor=first.next_cursor))
    assert [*first.items, *second.items] == records[::-1]


async def test_times_are_ordered_as_times_whatever_their_spelling(sink: DatabaseSink) -> None:
    late = record(started_at="2026-01-01T00:00:00.5Z")
    early = record(started_at="2026-01-01T00:00:00Z")
    abroad = record(started_at="2026-01-01T01:00:00.250000+01:00")
    await sink.write([early, late, abroad])
    assert await ids(sink) == [late.request_id, abroad.request_id, early.request_id]


async def test_the_period_includes_its_start_and_not_its_end(sink: DatabaseSink) -> None:
    records = [record(second) for second in range(6)]
    await sink.write(records)
    found = await ids(sink, start="2026-01-01T00:00:02Z", end="2026-01-01T00:00:04Z")
    assert found == [records[3].request_id, records[2].request_id]


def _cursor(position: str) -> str:
    return base64.urlsafe_b64encode(position.encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (LogQuery(cursor="!"), "begin again without it"),
        (LogQuery(cursor=""), "begin again without it"),
        (LogQuery(cursor="ü"), "begin again without it"),
        (LogQuery(cursor=_cursor("12")), "begin again without it"),
        (LogQuery(cursor=_cursor("x:1")), "begin again without it"),
        (LogQuery(cursor=_cursor(f"{1 << 63}:1")), "begin again without it"),
        (LogQuery(cursor=_cursor("1:\x00")), "begin again without it"),
        (LogQuery(limit=0), "limit is from 1 to 1000, not 0"),
        (LogQuery(limit=1001), "limit is from 1 to 1000"),
        (LogQuery(equals={"userAgent": "x"}), "cannot be filtered by 'userAgent'; they can by"),
        (LogQuery(equals={"request_id": "x"}), "cannot be filtered by 'request_id'"),
        (LogQuery(equals={"status": "high"}), "status is a whole number, not 'high'"),
        (LogQuery(equals={"status": 1 << 63}), "status is a whole number"),
        (LogQuery(equals={"status": True}), "status is a whole number"),
        (LogQuery(equals={"streamed": "maybe"}), "streamed is true or false, not 'maybe'"),
        (LogQuery(equals={"unpriced": 1}), "unpriced is true or false"),
        (LogQuery(start="yesterday"), "'yesterday' is not an RFC 3339 time"),
        (LogQuery(end="2026-01-01T00:00:00"), "append Z for UTC"),
    ],
)
async def test_a_query_that_is_wrong_says_what_is_wrong(
    sink: DatabaseSink, query: LogQuery, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        await sink.query(query)


def _value(field: str) -> str | int | bool:
    return msgspec.to_builtins(FULL)[field]  # type: ignore[no-any-return]


@pytest.mark.parametrize("field", sorted(LOG_FILTERS))
async def test_every_filter_of_the_contract_finds_its_records_only(
    sink: DatabaseSink, field: str
) -> None:
    await sink.write([FULL, *(record(second) for second in range(5))])
    assert await ids(sink, equals={field: _value(field)}) == [FULL.request_id]


@pytest.mark.parametrize(("field", "value"), [("status", "502"), ("streamed", "true")])
async def test_filters_of_numbers_and_booleans_take_their_text(
    sink: DatabaseSink, field: str, value: str
) -> None:
    await sink.write([FULL, record()])
    assert await ids(sink, equals={field: value}) == [FULL.request_id]


async def test_filters_narrow_each_other_down(sink: DatabaseSink) -> None:
    records = [record(model_id=m, status=s) for m in ("a", "b") for s in (200, 429)]
    await sink.write(records)
    assert await ids(sink, equals={"modelId": "b", "status": 429}) == [records[3].request_id]


async def test_all_tags_must_match(sink: DatabaseSink) -> None:
    both = record(tags={"team": "blue", "env": "live"})
    await sink.write([both, record(tags={"team": "blue"}), record(tags={"env": "live"}), record()])
    assert await ids(sink, tags={"team": "blue", "env": "live"}) == [both.request_id]
    assert await ids(sink, tags={"team": "red"}) == []
    assert await ids(sink, tags={'a"b': "blue"}) == []


@pytest.mark.parametrize("wanted", ["acme/LARGE", "large-2", "unreachable", "0190a0b0", "client-1"])
async def test_text_is_found_in_ids_model_names_and_error_codes(
    sink: DatabaseSink, wanted: str
) -> None:
    await sink.write([FULL, record(requested_model="acme/small")])
    assert await ids(sink, text=wanted) == [FULL.request_id]


@pytest.mark.parametrize("shift", [0, 1, 9, 30])
@pytest.mark.parametrize("length", [7, 36])
async def test_any_part_of_a_request_id_finds_it(
    sink: DatabaseSink, shift: int, length: int
) -> None:
    records = [record(client_request_id=None), record(client_request_id="CAFE-1")]
    await sink.write(records)
    for one in records:
        wanted = one.request_id[shift : shift + length]
        for text in (wanted, wanted.upper()):
            expected = {other.request_id for other in records if wanted in other.request_id}
            for start in (None, "2025-12-31T00:00:00Z"):
                assert set(await ids(sink, text=text, start=start)) == expected


async def test_text_that_looks_like_an_id_is_found_in_what_callers_send(sink: DatabaseSink) -> None:
    sent = record(client_request_id=f"for {FULL.request_id}.cafe")
    await sink.write([FULL, sent])
    assert set(await ids(sink, text=FULL.request_id)) == {FULL.request_id, sent.request_id}
    assert await ids(sink, text=".CAFE") == [sent.request_id]
    assert await ids(sink, text=".cafe", equals={"status": 1}) == []
    assert await ids(sink, text="no such text") == []


@pytest.mark.parametrize("wanted", ["%", "_", "/", "\\", "50%", "a_b"])
async def test_text_is_taken_literally(sink: DatabaseSink, wanted: str) -> None:
    match = record(requested_model=f"x{wanted}y")
    await sink.write([match, record(requested_model="xaaby 50")])
    assert await ids(sink, text=wanted) == [match.request_id]


@pytest.mark.parametrize(
    "value", ["' OR 1=1 --", "'; DROP TABLE usage_rows; --", '"', "\x00", "$1", ":x"]
)
async def test_no_filter_value_becomes_sql(sink: DatabaseSink, value: str) -> None:
    await sink.write([FULL])
    assert await ids(sink, equals={"modelId": value}) == []
    assert await ids(sink, tags={value: value}) == []
    assert await ids(sink, tags={value: "blue"}) == []
    assert await ids(sink, text=value + "?") == []
    assert await sink.get(FULL.request_id) == FULL


def test_every_filter_of_the_contract_has_a_column() -> None:
    columns = {column.name.replace("_", "") for column in usage_rows.columns}
    assert {field.lower() for field in LOG_FILTERS} <= columns
