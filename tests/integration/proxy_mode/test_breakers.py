"""What proxy mode tells the breaker of a host, and what it does not."""

from __future__ import annotations

import socket
from pathlib import Path

from relay_gateway.testing.data_path import DataPath
from relay_gateway.testing.proxied import PROXY_MODE_ON, proxied
from relay_gateway.testing.raw_caller import RawAnswer, RawCaller
from relay_gateway.testing.script import response
from relay_gateway.testing.upstream import ScriptedUpstream

FIELDS = [("Content-Type", "application/json")]


async def ask(path: DataPath) -> RawAnswer:
    """One request in proxy mode."""
    request = proxied(path.relay_key, "POST", "/acme/v1/plain", FIELDS, b'{"model":"m"}')
    async with RawCaller(path.port) as caller:
        return await caller.ask(request)


async def test_f31_a_host_that_cannot_be_reached_is_left_alone_by_others_but_not_by_proxy_mode(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    async with DataPath(tmp_path, {"m": url}, settings=PROXY_MODE_ON, pathPrefix="acme") as path:
        for _ in range(5):
            assert (await ask(path)).status == 502
        assert path.left_alone == {"m"}
        async with RawCaller(path.port) as caller:
            answer = await caller.ask(path.request("m"))
        assert (answer.status, b"no_available_host" in answer.body) == (503, True)
        answer = await ask(path)
        assert (answer.status, b"upstream_unreachable" in answer.body) == (502, True)


async def test_what_a_caller_has_a_host_answer_in_proxy_mode_does_not_have_it_left_alone(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    for _ in range(6):
        upstream.enqueue(response(500, b"{}", FIELDS))
        assert (await ask(path)).status == 500
    assert path.left_alone == set()
