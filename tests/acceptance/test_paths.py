"""Five hundred paths that two readers could take for different ones, against both planes."""

from __future__ import annotations

import random
import secrets
import string
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import unquote, unquote_to_bytes

import pytest

from relay_gateway.testing.raw_caller import RawCaller
from relay_gateway.testing.scenario import Scenario, running_scenario
from relay_gateway.testing.script import json_response

COUNT = 500
ADMIN_TOKEN = secrets.token_hex(20)
SERVED = {"/healthz": 200, "/readyz": 200, "/v1/models": 401, "/v1/chat/completions": 405}
"""What the inference plane answers to a GET without a key, by the exact path."""
PUBLIC = {"/", "/healthz", "/readyz", "/version", "/auth/login"}
CONTROL = ["/hosts", "/relay-keys", "/audit", "/settings", "/auth/session", "/master-key/generate"]
SEGMENT = frozenset(string.ascii_letters + string.digits + "-._~!$&'()*+,=:@")
TRICKS = (
    "//", "/./", "/../", "/.", "/..", "/%2e/", "/%2E%2e/", "%2f", "/%2f", "%5c", "\\", "/..\\",
    ";", ";a=b", "/;/", "%3b", "%00", "%0d%0a", "%7f", "%c0%af", "%c0%ae%c0%ae/", "%e0%80%af",
    "%252e%252e/", "%252f", "%", "%2", "%zz", "%u002f", "/%20", "%09", ".", "...", "/x/../", "/%6d",
    "%41", "%fe", ":", "@a", "*", "|", "^", "%e2%82%ac", "%ef%bc%8f",
)  # fmt: skip


def paths() -> list[str]:
    """Real paths of both planes with one to three tricks in them, each once."""
    chance = random.Random(24)  # repeatable, not secret
    bases = [*SERVED, *PUBLIC, *CONTROL, "/v1/models/m", "/"]
    made: dict[str, None] = dict.fromkeys([*bases, "/v1/models/../../hosts", "/hosts/..;/healthz"])
    while len(made) < COUNT:
        path = chance.choice(bases)
        for _ in range(chance.randint(1, 3)):
            at = chance.randint(1, len(path))
            path = path[:at] + chance.choice(TRICKS) + path[at:]
        made[path + chance.choice(["", "", chance.choice(bases)])] = None
    return list(made)


def has_one_reading(path: str) -> bool:
    """Whether every reader, decoding and normalising or not, sees the same segments: written out
    letter by letter, unlike the rules of the server."""
    segments = path.split("/")[1:]
    if not all(segments[:-1]):
        return False
    return all(_is_plain(segment) for segment in segments)


def _is_plain(segment: str) -> bool:
    if segment in (".", ".."):
        return False
    at = 0
    while at < len(segment):
        if segment[at] == "%":
            digits = segment[at + 1 : at + 3]
            if len(digits) < 2 or not set(digits) <= set(string.hexdigits):
                return False
            if chr(int(digits, 16)) in ".\\;\x7f" or int(digits, 16) < 32:
                return False
            at += 3
        elif segment[at] in SEGMENT:
            at += 1
        else:
            return False
    try:
        unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        return False
    return True


@pytest.fixture
async def scenario(tmp_path: Path) -> AsyncIterator[Scenario]:
    environ = {"RELAY_ADMIN_TOKEN": ADMIN_TOKEN, "RELAY_LOG_LEVEL": "warning"}
    async with running_scenario(tmp_path, lambda _: json_response(200, {}), environ) as scenario:
        yield scenario


async def status_of(url: str, path: str, *fields: str) -> int:
    """What a GET of ``path``, as it is, is answered on a connection of its own."""
    lines = [f"GET {path} HTTP/1.1", "Host: 127.0.0.1", "Connection: close", *fields, "", ""]
    async with RawCaller(int(url.rpartition(":")[2])) as caller:
        return (await caller.ask("\r\n".join(lines).encode())).status


async def test_t24_inference_serves_exact_paths_only_and_refuses_those_with_two_readings(
    scenario: Scenario,
) -> None:
    url, seen = scenario.gateway.inference_url, set()
    for path in paths():
        status = await status_of(url, path)
        if not has_one_reading(path):
            assert status == 400, path
        elif path.startswith("/v1/models/") and path != "/v1/models/":
            assert status == 401, path
        else:
            assert status == SERVED.get(path, 404), path
        seen.add(status)
    assert seen == {200, 400, 401, 404, 405}


async def test_t24_control_lets_in_nobody_by_a_path_that_guard_and_router_read_differently(
    scenario: Scenario,
) -> None:
    url, closed = scenario.gateway.control_url, 0
    for path in paths():
        anonymous = await status_of(url, path)
        known = await status_of(url, path, f"Authorization: Bearer {ADMIN_TOKEN}")
        assert max(anonymous, known) < 500, path
        if anonymous in (400, 401):
            closed += 1
        else:
            assert anonymous == known, path
            assert unquote(path) in PUBLIC, path
        if path.startswith("/v1/"):
            assert (anonymous, known) in {(401, 404), (400, 400)}, path
    assert closed > COUNT * 0.9
