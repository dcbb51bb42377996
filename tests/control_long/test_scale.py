"""A hundred thousand relay keys and two thousand models: what builds cost, and who feels them."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import time
from typing import Any

import pytest

from relay_gateway.catalog.snapshot import Snapshot
from relay_gateway.server.gateway import Gateway
from relay_gateway.server.serving import settle_memory, share_interpreter
from relay_gateway.storage import Batch, EntityRemoval, NewEntity
from relay_gateway.testing.instances import Instances
from relay_gateway.testing.memory import MIB, resident_bytes
from relay_gateway.testing.postgres import PostgresServer
from relay_gateway.testing.propagation import (
    Figures,
    LoopLag,
    ProbedKey,
    add_keys,
    until_listening,
)

KEYS = 100_000
MODELS = 2_000

_log = logging.getLogger(__name__)


async def add_models(gateway: Gateway) -> None:
    vendor = NewEntity(kind="provider", display_name="Scale", spec={})
    host = NewEntity(
        kind="host", display_name="Scale", spec={"baseUrl": "http://127.0.0.1:9", "adapter": "echo"}
    )
    models = [
        NewEntity(
            kind="model",
            display_name=f"scale {number}",
            spec={"providerId": vendor.id, "bindings": [{"hostId": host.id}]},
        )
        for number in range(MODELS)
    ]
    began = time.perf_counter()
    rows = await gateway.store.write_all([vendor, host, *models])
    _log.info("%d entities written in %.2f s", len(rows), time.perf_counter() - began)
    await gateway.watcher.refresh()


def timed_builds(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How many seconds of work each build takes from now on."""
    seconds: list[float] = []
    apply = gateway.watcher._builder.apply

    def timed(*arguments: Any) -> Snapshot:
        began = time.thread_time()
        snapshot = apply(*arguments)
        seconds.append(time.thread_time() - began)
        return snapshot

    monkeypatch.setattr(gateway.watcher._builder, "apply", timed)
    return seconds


async def test_f10_a_hundred_thousand_keys_are_built_beside_the_loop(
    instances: Instances,
    postgres_server: PostgresServer,
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateway = await instances.open(postgres_url)
    await until_listening(gateway)
    settle_memory()
    share_interpreter()
    before = resident_bytes(os.getpid())
    await add_models(gateway)
    lag = LoopLag()
    took = await add_keys(gateway, postgres_server, postgres_url, KEYS)
    late = await lag.stop()
    _log.info("%d keys came in %.2f s; loop late: %s", KEYS, took, late)
    assert len(gateway.live.current.relay_keys) == KEYS
    assert late.p99 <= 0.005
    await asyncio.sleep(3)  # the last good catalog is written meanwhile
    gc.collect()
    grown = resident_bytes(os.getpid()) - before
    _log.info("memory grew by %d MiB", grown // MIB)
    assert grown <= 150 * MIB

    builds = timed_builds(gateway, monkeypatch)
    lag = LoopLag()
    key = ProbedKey(gateway, [gateway])
    await key.create()
    key.seen.clear()
    builds.clear()
    for index in range(200):
        await key.set(granted=index % 2 == 1)
    late, built = await lag.stop(), Figures.of(builds)
    _log.info("one key among them: in force after %s", Figures.of(key.seen))
    _log.info("its builds took %s of work; loop late: %s", built, late)
    assert late.p99 <= 0.005
    assert built.p50 <= 0.005

    lag = LoopLag()
    began = time.perf_counter()
    await gateway.watcher.reload()
    took = time.perf_counter() - began
    late = await lag.stop()
    _log.info("everything read anew in %.2f s; loop late: %s", took, late)
    assert late.p99 <= 0.005

    lag = LoopLag()
    await add_keys(gateway, postgres_server, postgres_url, 10_000, batch="more")
    late = await lag.stop()
    _log.info("10 000 more keys; loop late: %s", late)
    assert late.p99 <= 0.005
    assert late.largest <= 0.05


async def test_f10_ten_thousand_entities_are_written_beside_the_loop(
    instances: Instances, postgres_url: str
) -> None:
    gateway = await instances.open(postgres_url)
    settle_memory()
    share_interpreter()
    policy = next(iter(gateway.live.current.policies))
    spec = {"policyId": policy, "prefix": "sk-relay-", "revokedAt": None}
    lag = LoopLag()
    began = time.perf_counter()
    rows = await gateway.store.write_all(
        [NewEntity(kind="relay key", display_name="Bulk", spec=spec) for _ in range(10_000)]
    )
    took = time.perf_counter() - began
    late = await lag.stop()
    _log.info("10 000 entities written in %.2f s; loop late: %s", took, late)
    assert took <= 5
    assert late.largest <= 0.05
    removals = [EntityRemoval("relay key", row.id) for row in rows]
    began = time.perf_counter()
    await gateway.store.write(Batch(delete=removals))
    _log.info("and deleted in %.2f s", time.perf_counter() - began)
