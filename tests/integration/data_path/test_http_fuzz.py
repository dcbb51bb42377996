"""Changed requests on one connection: read as another parser reads them, and answered."""

from __future__ import annotations

import pytest

from relay_gateway.testing.mutation import LAST, Mutator
from relay_gateway.testing.wire_judge import (
    ReadRequest,
    Verdict,
    judge,
    read_by_h11,
    read_by_us,
)

REQUESTS = 40_000
SMUGGLED = ReadRequest(b"GET", b"/smuggled", b"")
FIRST = ReadRequest(b"GET", b"/last", b"")


async def test_r21_changed_request_is_read_as_another_parser_reads_it() -> None:
    mutator = Mutator(seed=21)
    accepted = 0
    for _ in range(REQUESTS):
        data = mutator.request()
        verdict = await read_by_us(mutator.pieces(data))
        judge(verdict, read_by_h11(data))
        accepted += len(verdict.handled)
    assert accepted > REQUESTS / 10


async def test_r21_every_cut_of_a_request_is_read_the_same() -> None:
    head = b"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    data = head + b"5;x\r\nhello\r\n0\r\n\r\n"
    for at in range(1, len(data)):
        verdict = await read_by_us([data[:at], data[at:] + LAST])
        assert verdict.handled == [ReadRequest(b"POST", b"/a", b"hello"), FIRST]


@pytest.mark.parametrize(
    ("verdict", "reference"),
    [
        (Verdict([FIRST, SMUGGLED], [200, 200], over=False), [FIRST]),
        (Verdict([SMUGGLED], [200], over=False), [FIRST]),
        (Verdict([FIRST], [200], over=False), [FIRST, SMUGGLED]),
        (Verdict([FIRST], [200, 400], over=False), [FIRST]),
        (Verdict([FIRST], [200, 400, 400], over=True), [FIRST]),
        (Verdict([], [500], over=True), []),
        (Verdict([FIRST], [], over=False), [FIRST]),
    ],
)
def test_r21_confused_server_would_be_found_out(
    verdict: Verdict, reference: list[ReadRequest]
) -> None:
    with pytest.raises(AssertionError):
        judge(verdict, reference)
