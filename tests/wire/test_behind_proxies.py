"""Every raw probe through nginx and HAProxy: refused by either, or answered as wanted."""

from __future__ import annotations

import re
from typing import Any

import pytest

from relay_gateway.testing.probes import ACCEPTED, REFUSED, Probe, get
from relay_gateway.testing.wire import WireCaller

NEXT = get(b"/next")
_ANSWER = re.compile(rb"HTTP/1\.[01] (\d{3}) ")

# What a front makes sound of an unsound request: it writes the request anew, and what was wrong
# with it stays behind. Anything else that we refuse must be refused through a front, too.
REPAIRED: dict[str, frozenset[str]] = {}


def ask(port: int, data: bytes) -> tuple[int, bytes, bytes]:
    """Status and body of the answer to ``data``, zero where there is none; and the next one's body,
    empty where the connection was closed."""
    with WireCaller(port) as caller:
        try:
            answer = caller.send(data).read_answer()
            if answer.status == 100:
                answer = caller.read_answer()
        except (OSError, EOFError, ValueError, IndexError):
            return 0, b"", b""
        try:
            return answer.status, answer.body, caller.send(NEXT).read_answer().body
        except (OSError, EOFError):
            return answer.status, answer.body, b""
    

def _name(probe: Probe) -> str:
    return f"{probe.row}: {probe.name}"


@pytest.mark.parametrize("probe", ACCEPTED+REFUSED, ids=_name)
def test_x(probe: Probe, behind: Any) -> None:
    s,b,n=ask(behind.port, probe.data)
    with open('/tmp/probe.out','a') as f: print(behind.front.name, probe.name, probe.status, s, b[:30], n[:30], file=f, sep='|')

def test_z(behind: Any) -> None:
    behind.check_books()
