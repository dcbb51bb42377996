"""Fifty thousand requests directly and through proxy mode: the same bytes both ways."""

from __future__ import annotations

import itertools
import logging
from pathlib import Path

from relay_gateway.testing.data_path import DataPath
from relay_gateway.testing.proxied import PROXY_MODE_ON
from relay_gateway.testing.proxy_cases import make_case
from relay_gateway.testing.proxy_judge import ProxyJudge
from relay_gateway.testing.upstream import ScriptedUpstream

CASES = 50_000
BATCH = 5_000
SEED = 7100
LARGEST = 64 * 1024 * 1024

_log = logging.getLogger(__name__)


async def test_t71_fifty_thousand_requests_are_the_same_through_the_gateway(
    tmp_path: Path,
) -> None:
    async with ScriptedUpstream() as upstream:
        hosts = {"m": upstream.url}
        async with DataPath(tmp_path, hosts, settings=PROXY_MODE_ON, pathPrefix="acme") as path:
            judge = ProxyJudge(path.port, path.relay_key)
            upstream.answer = judge.script_of
            for first in range(0, CASES, BATCH):
                numbers = itertools.islice(itertools.count(first), BATCH)
                cases = (make_case(number, SEED, LARGEST) for number in numbers)
                await judge.compare(cases, upstream, "/acme")
                _log.info("%d cases are the same; %s", judge.compared, judge.seen)
                assert len(path.records) == BATCH
                path.records.clear()
            assert judge.compared == CASES
            assert upstream.malformed == upstream.errors == []
