"""How long an upstream asks to be left alone, in all the ways in which upstreams say it."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime, formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_gateway.pipeline.keypool import KeyPools
from relay_gateway.plugin import reset_of, retry_after, span, wait_of
from relay_gateway.testing.clock import FakeClock

SENT = datetime(2026, 1, 1, 0, 0, 0, tzinfo=UTC)
DATE = format_datetime(SENT, usegmt=True).encode()
PAIRS = ((b"left-a", b"reset-a"), (b"left-b", b"reset-b"))


@pytest.mark.parametrize(
    ("headers", "benched"),
    [
        ({b"retry-after": b"20"}, 20),
        ({b"retry-after": b"2.5"}, 2.5),
        ({b"retry-after": b"0"}, 1),
        ({b"retry-after": b"-3"}, 1),
        ({b"retry-after": b"Thu, 01 Jan 2026 00:00:30 GMT", b"date": DATE}, 30),
        ({b"retry-after": b"Thursday, 01-Jan-26 00:00:30 GMT", b"date": DATE}, 30),
        ({b"retry-after": b"Thu Jan  1 00:00:30 2026", b"date": DATE}, 30),
        ({b"retry-after": b"Wed, 31 Dec 2025 00:00:30 GMT", b"date": DATE}, 1),
        ({b"retry-after": b"999999999"}, 600),
        ({b"retry-after": b"in a while"}, 1),
        ({b"retry-after-ms": b"1250", b"retry-after": b"60"}, 1.25),
        ({}, 1),
    ],
    ids=[
        "seconds",
        "a fraction",
        "nothing",
        "less than nothing",
        "a date",
        "an old date",
        "a date of asctime",
        "a date that has passed",
        "absurdly long",
        "words",
        "milliseconds",
        "absent",
    ],
)  # fmt: skip
def test_f39_twelve_forms_of_retry_after_bench_a_key_for_1_s_to_10_min(
    headers: dict[bytes, bytes], benched: float
) -> None:
    clock = FakeClock()
    pools = KeyPools(clock)
    pools.bench("k", "throttled by the upstream", wait_of(headers))
    left = pools.state("k").benched_until - clock.monotonic()
    assert benched - 1e-6 <= left <= benched * 1.1 + 1e-6


def test_f60_a_date_is_compared_with_the_upstreams_own_clock() -> None:
    assert retry_after(b"Thu, 01 Jan 2026 00:00:07 GMT", DATE) == 7
    in_an_hour = formatdate(datetime.now(UTC).timestamp() + 3600, usegmt=True).encode()
    wait = retry_after(in_an_hour)
    assert wait is not None
    assert 3590 < wait <= 3600


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (b"6m0s", 360),
        (b"1h2m3s", 3723),
        (b"120ms", 0.12),
        (b"37s", 37),
        (b"34.074823224s", 34.074823224),
        (b"12", 12),
        (b"2026-01-01T00:00:09Z", 9),
        (b"2026-01-01T01:00:09+01:00", 9),
        (b"1767225610", 10),
        (b"1767225610000", 10),
        (b"Thu, 01 Jan 2026 00:00:08 GMT", 8),
        (b"2025-01-01T00:00:09Z", 0),
        (b"soon", None),
        (b"6m later", None),
        (b"", None),
    ],
)
def test_spans_are_read_in_every_notation(text: bytes, seconds: float | None) -> None:
    assert span(text, DATE) == (seconds if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({b"left-a": b"0", b"reset-a": b"5s", b"left-b": b"9", b"reset-b": b"60s"}, 5),
        ({b"left-a": b"0", b"reset-a": b"5s", b"left-b": b"0", b"reset-b": b"60s"}, 60),
        ({b"left-a": b"3", b"reset-a": b"5s"}, None),
        ({b"reset-a": b"5s", b"reset-b": b"2s"}, 2),
        ({b"left-a": b"0"}, None),
        ({}, None),
    ],
)
def test_the_limit_that_is_used_up_says_how_long(
    headers: dict[bytes, bytes], wait: float | None
) -> None:
    assert reset_of(headers, PAIRS) == wait


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_whatever_is_sent_is_a_time_or_nothing(value: bytes, date: bytes) -> None:
    for found in (span(value, date), wait_of({b"retry-after": value, b"date": date})):
        assert found is None or 0 <= found < float("inf")
