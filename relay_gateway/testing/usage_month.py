"""A month of usage as a busy gateway has it: many records, spread evenly over thirty days."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID

from relay_gateway.plugin import Attempt, UsageRecord, UsageSink
from relay_gateway.testing.kept import kept_sink

DAYS = 30
RELAY_KEYS, POLICIES, MODELS, PROVIDERS, HOSTS, HOST_KEYS = 200, 20, 20, 5, 8, 16
_BATCH = 2000
RARE_KEY = f"relay-{RELAY_KEYS - 1:03}"
"""A relay key with one record in ten thousand; the others share the rest evenly."""


def month_of_records(
    number: int, end: float, *, days: float = DAYS, seed: int = 1
) -> Iterator[UsageRecord]:
    """So many records that began within so many days before ``end`` (seconds since the epoch),
    oldest first. One in twenty-five failed, half are streams, half have tags."""
    dice = random.Random(seed)  # noqa: S311 - made-up data
    pause_ms = days * 86_400_000 / number
    first_ms = round(end * 1000) - round(days * 86_400_000)
    for place in range(number):
        yield _record(dice, first_ms + int(place * pause_ms), place)


async def write_month(sink: UsageSink[Any], number: int, end: float) -> None:
    """Writes :func:`month_of_records` into an open sink, as many at once as a busy gateway does."""
    records = month_of_records(number, end)
    while batch := list(islice(records, _BATCH)):
        await sink.write(batch)


async def fill_month(data_dir: Path, number: int, database_url: str | None = None) -> None:
    """Writes a month that ends now where a gateway that starts with this data, which there is none
    of yet, and this database keeps its records."""
    await asyncio.to_thread(data_dir.mkdir, mode=0o700)
    async with kept_sink(data_dir, database_url) as sink:
        await write_month(sink, number, time.time() - 60)


def _record(dice: random.Random, milliseconds: int, place: int) -> UsageRecord:
    key = RELAY_KEYS - 1 if place % 10_000 == 5_000 else dice.randrange(RELAY_KEYS - 1)
    model = (key + dice.randrange(3)) % MODELS
    host = (model + dice.randrange(2)) % HOSTS
    host_key = 2 * host + dice.randrange(2)
    failed = dice.random() < 0.04
    duration = dice.lognormvariate(6.5, 1.0)
    tokens = {"input": dice.randrange(20, 4000), "output": dice.randrange(5, 900)}
    return UsageRecord(
        request_id=_id(dice, milliseconds),
        started_at=_timestamp(milliseconds),
        endpoint="chat.completions" if place % 4 else "messages",
        wire_format="acme.chat" if place % 4 else "acme.messages",
        upstream_wire_format="acme.chat",
        streamed=place % 2 == 0,
        status=429 if failed else 200,
        outcome="upstream_error" if failed else "ok",
        error_code="rate_limit_exceeded" if failed else None,
        duration_ms=round(duration, 3),
        ttfb_ms=round(duration / 4, 3),
        ttft_ms=round(duration / 3, 3) if place % 2 == 0 else None,
        overhead_ms=0.6,
        attempts=(_attempt(host, host_key, duration),),
        relay_key_id=f"relay-{key:03}",
        policy_id=f"policy-{key % POLICIES}",
        provider_id=f"provider-{model % PROVIDERS}",
        model_id=f"model-{model}",
        requested_model=f"acme-{model}",
        upstream_model=f"acme-{model}-2026",
        host_id=f"host-{host}",
        host_key_id=f"key-{host_key}",
        tokens={} if failed else tokens,
        usage_source="none" if failed else "upstream",
        finish_reason=None if failed else "stop",
        cost_nanos=None if failed else 150 * tokens["input"] + 600 * tokens["output"],
        currency=None if failed else "USD",
        tags={"team": f"team-{key % 10}"} if place % 2 else {},
        client_ip=f"10.0.0.{key % 250}",
        user_agent=f"acme-client/{key % 30}",
        bytes_in=tokens["input"] * 4,
        bytes_out=tokens["output"] * 4,
        instance=f"instance-{place % 3}",
    )


def _attempt(host: int, host_key: int, duration: float) -> Attempt:
    return Attempt(
        host_id=f"host-{host}",
        host_key_id=f"key-{host_key}",
        status=200,
        duration_ms=round(duration, 3),
    )


def _id(dice: random.Random, milliseconds: int) -> str:
    """A UUIDv7 of that moment; the gateway's own never go back in time."""
    chance = dice.getrandbits(74)
    high, low = chance >> 62, chance & ((1 << 62) - 1)
    return str(UUID(int=milliseconds << 80 | 7 << 76 | high << 64 | 2 << 62 | low))


def _timestamp(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03d}Z"
