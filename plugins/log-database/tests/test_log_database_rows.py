"""Rows hold what records say, whichever way a text is spelled."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from relay_gateway.testing.records import usage_record
from relay_gateway_log_database.rollups import VIEWS, is_as_fine, view_of
from relay_gateway_log_database.rows import (
    COLUMNS,
    MAX_INTEGER,
    MAX_TEXT,
    Rows,
    microseconds,
    names_in,
    started_at,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def value(row: tuple[object, ...], column: str) -> object:
    return row[COLUMNS.index(column)]


@pytest.mark.parametrize(
    "time",
    [
        "2026-11-20T23:59:59.999Z",
        "1970-01-01T00:00:00.000Z",
        "2026-11-20T23:59:59Z",
        "2026-11-20T23:59:59.999999Z",
        "2026-11-20T23:59:59.500+02:00",
    ],
)
def test_a_time_is_read_as_the_library_reads_it(time: str) -> None:
    moment = datetime.fromisoformat(time)
    assert microseconds(time) == (moment - EPOCH) // timedelta(microseconds=1)


@pytest.mark.parametrize(
    "time",
    ["2026-02-30T00:00:00.000Z", "2026-11-20T24:61:00.000Z", "2026-11-20T23:59:59.999", "now", ""],
)
def test_what_is_no_time_is_refused(time: str) -> None:
    with pytest.raises(ValueError, match="is not an RFC 3339 time"):
        microseconds(time)


def test_only_a_time_that_is_written_otherwise_is_kept_beside_its_number() -> None:
    usual = usage_record(started_at="2026-11-20T23:59:59.120Z")
    short = usage_record(started_at="2026-11-20T23:59:59Z")
    rows = Rows(dict.fromkeys(names_in([usual, short]), 1))
    assert value(rows.of(usual), "rest") is None
    assert started_at(microseconds(usual.started_at)) == usual.started_at
    assert value(rows.of(short), "rest") == b'{"started_at":"2026-11-20T23:59:59Z"}'


def test_tags_that_do_not_fit_are_not_taken_for_others_that_do() -> None:
    long = {"team": "x" * (MAX_TEXT + 1)}
    cut = {"team": "x" * MAX_TEXT}
    records = [usage_record(tags=tags) for tags in (cut, long, cut, {}, long)]
    rows = Rows(dict.fromkeys(names_in(records), 1))
    made = [rows.of(record) for record in records]
    kept_beside = ["tags" in str(value(row, "rest")) for row in made]
    assert kept_beside == [False, True, False, False, True]
    assert len({value(row, "tags") for row in made}) == 2


def test_figures_beyond_the_column_are_cut_there_and_kept_whole_beside_it() -> None:
    record = usage_record(
        tokens={"input": MAX_INTEGER + 1, "output": 2, "odd": 3}, bytes_in=1 << 70
    )
    row = Rows(dict.fromkeys(names_in([record]), 1)).of(record)
    assert value(row, "tokens_input") == value(row, "bytes_in") == MAX_INTEGER
    assert value(row, "tokens_output") == 2
    rest = value(row, "rest")
    assert isinstance(rest, bytes)
    assert str(MAX_INTEGER + 1).encode() in rest
    assert b'"odd":3' in rest


@pytest.mark.parametrize(
    ("columns", "fine"),
    [
        (("model_id",), True),
        (("host_key_id",), True),
        (("relay_key_id",), True),
        (("policy_id",), True),
        (("provider_id",), False),
        (("outcome",), False),
        (("outcome", "status", "endpoint"), True),
        ((), True),
    ],
)
def test_who_asks_for_less_than_a_view_has_gets_sums_of_the_database(
    columns: tuple[str, ...], *, fine: bool
) -> None:
    view = view_of(columns)
    assert view is not None
    assert is_as_fine(columns, view) is fine
    assert is_as_fine(VIEWS[view], view)
