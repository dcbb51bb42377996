"""Every raw probe through nginx and HAProxy: refused by either of us, or answered as wanted."""

from __future__ import annotations

import pytest

from relay_gateway.testing.behind import Behind
from relay_gateway.testing.crowd import Crowd
from relay_gateway.testing.probes import ACCEPTED, REFUSED, Probe, get
from relay_gateway.testing.wire import WireCaller

NEXT = get(b"/next")
CHANGED_REQUESTS = 4_000

# A front writes each request anew, and some of what is wrong with it stays behind: these reach us
# sound, and must be answered. Everything else that we refuse must be refused through a front, too.
_BY_BOTH = {
    "bare LF line ends",
    "bare LF after a field",
    "bare LF at the end",
    "two empty lines before",
    "chunk size with space",
    "chunk line with bare LF",
    "two spaces",
    "http/1.2",
}
_BY_HAPROXY = {
    *_BY_BOTH,
    "CL and TE",
    "TE and CL",
    "two equal CL",
    "CL list",
    "obs-fold",
    "two hosts",
    "tab instead of space",
}
REPAIRED = {
    "nginx": {
        *_BY_BOTH,
        "field without colon",
        "trailer that is no field",
        "length in the trailer",
        "coding in the trailer",
        "absolute form of another host",
        "absolute form of another scheme",
        "underscore in name",
        "websocket",
        "unknown protocol",
        "other expectation",
    },
    "haproxy": _BY_HAPROXY,
    "haproxy with request buffering": _BY_HAPROXY,
}
# What the fronts themselves refuse of what we would take.
REFUSED_BY_FRONT = {
    "nginx": {
        "http 1.0 without host",
        "white space around value",
        "100 fields",
        "target of 8 KiB",
    },
    "haproxy": {"100 fields"},
    "haproxy with request buffering": {"100 fields"},
}


def ask(port: int, data: bytes) -> tuple[int, bytes, bytes]:
    """Status and body of the answer to ``data``, and the body of the answer to the next request.

    Zero and empty where the connection was closed instead, or what came is no HTTP/1 answer.
    """
    with WireCaller(port) as caller:
        try:
            answer = caller.send(data).read_answer()
            if answer.status == 100:
                answer = caller.read_answer()
        except (OSError, EOFError, ValueError, IndexError):
            return 0, b"", b""
        try:
            following = caller.send(NEXT).read_answer()
        except (OSError, EOFError):
            return answer.status, answer.body, b""
        return answer.status, answer.body, following.body


def _name(probe: Probe) -> str:
    return f"{probe.row}: {probe.name}"


@pytest.mark.parametrize("probe", ACCEPTED, ids=_name)
def test_r20_well_formed_request_is_answered_through_a_front(probe: Probe, behind: Behind) -> None:
    status, body, following = ask(behind.port, probe.data)
    if probe.name in REFUSED_BY_FRONT[behind.front.name]:
        assert 400 <= status < 500
    else:
        assert (status, probe.echoed in body) == (200, True)
    assert following in (b"", b"GET /next? ")


@pytest.mark.parametrize("probe", REFUSED, ids=_name)
def test_r20_what_we_refuse_is_refused_or_repaired_by_a_front(probe: Probe, behind: Behind) -> None:
    status, _, following = ask(behind.port, probe.data)
    assert (status == 200) is (probe.name in REPAIRED[behind.front.name])
    assert status in {0, 200} or 400 <= status <= 505
    assert status != 500
    assert following in (b"", b"GET /next? ")
    assert ask(behind.port, NEXT)[0] == 200


async def test_t17_changed_requests_reach_us_as_the_front_passed_them_on(behind: Behind) -> None:
    crowd = Crowd(behind.port, seed=behind.port, count=CHANGED_REQUESTS)
    await crowd.run()
    assert crowd.answered > CHANGED_REQUESTS / 10
    assert len(behind.handled) > crowd.answered


def test_t17_the_books_of_the_front_and_ours_agree(behind: Behind) -> None:
    """The last test of this module: it stops the front."""
    assert behind.check_books() > CHANGED_REQUESTS / 10
