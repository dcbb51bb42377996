"""Heads pass through in proxy mode as they are, without what is the gateway's."""

from __future__ import annotations

import random

import pytest

from relay_gateway.errors import RequestRefusedError
from relay_gateway.http.message import Headers
from relay_gateway.pipeline.proxied_head import HeadSieve, refuse_leak
from relay_gateway.testing.callers import FakeCaller

SIEVE = HeadSieve(("X-Relay-", "X-SVC-"))
HEAD_SETS = 20_000


def block(*fields: tuple[bytes, bytes]) -> bytes:
    return SIEVE.request_block(FakeCaller(headers=fields), b"up.test")


def test_order_spelling_and_duplicates_stay() -> None:
    fields = ((b"b", b"1"), (b"HOST", b"gw"), (b"A", b"x  y"), (b"B", b"2"), (b"c", b""))
    assert block(*fields) == b"b: 1\r\nHOST: up.test\r\nA: x  y\r\nB: 2\r\nc: \r\n"


def test_a_request_without_a_host_field_gets_one() -> None:
    assert block((b"a", b"1")) == b"Host: up.test\r\na: 1\r\n"


def test_t20_cookies_and_what_belongs_to_the_connection_stay_here() -> None:
    fields = (
        (b"host", b"gw"),
        (b"Cookie", b"relay_session=1"),
        (b"Connection", b"keep-alive, X-Hop"),
        (b"x-hop", b"1"),
        (b"Keep-Alive", b"1"),
        (b"Expect", b"100-continue"),
        (b"TE", b"trailers"),
        (b"Proxy-Authorization", b"Basic x"),
        (b"Transfer-Encoding", b"Chunked"),
    )
    assert block(*fields) == b"host: up.test\r\nTransfer-Encoding: Chunked\r\n"


def test_the_framing_cannot_be_taken_away_by_naming_it() -> None:
    fields = ((b"Host", b"gw"), (b"Connection", b"host, content-length"), (b"Content-Length", b"3"))
    assert block(*fields) == b"Host: up.test\r\nContent-Length: 3\r\n"


def test_t23_answers_lose_cookies_and_hop_by_hop_fields_only() -> None:
    answer = Headers(
        [
            (b"Date", b"today"),
            (b"Set-Cookie", b"a=b"),
            (b"set-cookie2", b"a=b"),
            (b"Connection", b"close, x-a"),
            (b"X-A", b"1"),
            (b"Content-Length", b"3"),
            (b"Content-Encoding", b"br"),
            (b"x-relay-host", b"forged"),
            (b"Vary", b"a"),
            (b"vary", b"b"),
        ]
    )
    expected = b"Date: today\r\nContent-Encoding: br\r\nVary: a\r\nvary: b\r\n"
    assert SIEVE.answer_block(answer) == expected


def test_t19_no_spelling_of_a_gateway_header_passes() -> None:
    chance = random.Random(19)
    for _ in range(HEAD_SETS):
        prefix = chance.choice(["x-relay-", "x-svc-"])
        spelled = "".join(
            chance.choice("-._ ") if letter == "-" else chance.choice([letter, letter.upper()])
            for letter in prefix
        )
        name = (spelled + chance.choice(["API-Key", "proxy-mode", "Anything", "x"])).encode()
        passed = block((b"Host", b"a"), (name, b"secret"), (b"X-Other", b"1"))
        assert passed == b"Host: up.test\r\nX-Other: 1\r\n", name


@pytest.mark.parametrize(
    ("fields", "query", "path"),
    [
        ([(b"Authorization", b"Bearer sk-relay-1")], b"", "/x"),
        ([(b"X-Whatever", b"a sk-relay-1 b")], b"", "/x"),
        ([], b"key=sk-relay-1", "/x"),
        ([], b"", "/sk-relay-1/x"),
    ],
)
def test_t20_a_relay_key_that_would_reach_the_upstream_is_refused(
    fields: list[tuple[bytes, bytes]], query: bytes, path: str
) -> None:
    caller = FakeCaller(path=path, query=query, headers=fields)
    with pytest.raises(RequestRefusedError) as refused:
        refuse_leak("sk-relay-1", caller, SIEVE.request_block(caller, b"up"))
    assert refused.value.status == 400
    assert "sk-relay-1" not in refused.value.message
