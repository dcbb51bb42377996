"""What a usage sink costs by itself: CPU per record, in batches as the gateway makes them."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

import msgspec

from relay_gateway.ids import new_id
from relay_gateway.plugin import PluginContext, UsageRecord, UsageSink
from relay_gateway.registry import Registry
from relay_gateway.testing.records import usage_record

BATCHES = 40
_WARM = 2
__all__ = ["BATCH", "cost_per_record"]

BATCH = 500
"""Records of a batch, as delivery hands them over to most sinks."""


def cost_per_record(sink: str) -> float:
    """Microseconds of CPU, of all threads, that the sink ``sink`` with its defaults uses for a
    record, its synchronisation with the disk included."""
    with tempfile.TemporaryDirectory(prefix="benchmark-sink-") as directory:
        return asyncio.run(_measured(sink, Path(directory)))


async def _measured(name: str, directory: Path) -> float:
    context = PluginContext(name, directory, f"sqlite:///{directory / 'relay.sqlite3'}")
    kind = Registry.discover().usage_sinks[name]
    sink: UsageSink = kind(kind.Config(), context)
    batches = [_batch() for _ in range(_WARM + BATCHES)]
    await sink.aopen()
    try:
        for batch in batches[:_WARM]:
            await sink.write(batch)
        began = time.process_time()
        for batch in batches[_WARM:]:
            await sink.write(batch)
        return (time.process_time() - began) / BATCHES / BATCH * 1e6
    finally:
        await sink.aclose()
        await context.aclose()


def _batch() -> list[UsageRecord]:
    """Records as those of the benchmark: ids of the catalog, an address, a tag."""
    ids = {name: new_id() for name in ("relay_key_id", "policy_id", "model_id", "host_id")}
    record = usage_record(
        **ids, client_ip="127.0.0.1", user_agent="benchmark/1", tags={"team": "bench"}
    )
    return [msgspec.structs.replace(record, request_id=new_id()) for _ in range(BATCH)]
