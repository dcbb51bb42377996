"""Directly and through the gateway: the same bytes. The long form is in tests/proxy_long."""

from __future__ import annotations

from pathlib import Path

from relay_gateway.testing.data_path import DataPath
from relay_gateway.testing.proxied import PROXY_MODE_ON
from relay_gateway.testing.proxy_cases import make_case
from relay_gateway.testing.proxy_judge import ProxyJudge
from relay_gateway.testing.upstream import ScriptedUpstream

CASES = 1500
LARGEST = 64 * 1024 * 1024


async def test_t71_generated_requests_and_answers_are_the_same_through_the_gateway(
    tmp_path: Path,
) -> None:
    async with ScriptedUpstream() as upstream:
        hosts = {"m": upstream.url}
        async with DataPath(tmp_path, hosts, settings=PROXY_MODE_ON, pathPrefix="acme") as path:
            judge = ProxyJudge(path.port, path.relay_key)
            upstream.answer = judge.script_of
            cases = (make_case(number, 71, LARGEST) for number in range(CASES))
            await judge.compare(cases, upstream, "/acme")
            assert judge.compared == CASES
            assert len(path.records) == CASES
            assert {record.outcome for record in path.records} == {"ok", "upstream_error"}
            assert upstream.malformed == upstream.errors == []
            for kind in ("POST, content-length, large", "PUT, transfer-encoding, small"):
                assert judge.seen[kind] > 0
            assert max(record.bytes_in for record in path.records) > LARGEST // 2
