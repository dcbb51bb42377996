"""How long a write takes to reach every instance, and how late event loops are meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from relay_gateway.security.relay_keys import mint_relay_key
from relay_gateway.server.gateway import Gateway
from relay_gateway.storage import EntityChange, NewEntity
from relay_gateway.testing.instances import until
from relay_gateway.testing.postgres import PostgresServer

_BULK = """
WITH next AS (UPDATE catalog_revision SET revision = revision + 1 RETURNING revision),
added AS (
  INSERT INTO entities (id, kind, slug, display_name, description, labels, managed_by, spec,
                        sealed, version, created_at, updated_at)
  SELECT gen_random_uuid()::text, 'relay key', '{batch}-' || n, 'Bulk', '', '{{}}', 'api',
    jsonb_build_object('policyId', '{policy}', 'prefix', 'sk-relay-', 'revokedAt', null,
                       'tags', jsonb_build_object('team', 't' || n % 50),
                       'allowedCidrs', '["10.0.0.0/8"]'::jsonb),
    jsonb_build_object('digest', md5('{batch}' || n) || md5(n::text), 'previous', '[]'::jsonb),
    1, '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z'
  FROM generate_series(1, {count}) AS n RETURNING id)
INSERT INTO catalog_changes
SELECT revision, id, 'relay key', 'create', '2026-01-01T00:00:00.000000Z' FROM next, added;
NOTIFY relay_catalog, '{revision}';
"""
REVOKED_AT = "2026-01-01T00:00:00Z"
LONGEST_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Figures:
    """Median, 99th percentile and maximum of some seconds."""

    count: int
    p50: float
    p99: float
    largest: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Self:
        """The figures of at least one measurement."""
        ordered = sorted(seconds)
        count = len(ordered)
        return cls(count, ordered[count // 2], ordered[count * 99 // 100], ordered[-1])

    def __str__(self) -> str:
        p50, p99, largest = (f"{1000 * s:.1f} ms" for s in (self.p50, self.p99, self.largest))
        return f"{self.count} measured, p50 {p50}, p99 {p99}, max {largest}"


class ProbedKey:
    """A relay key that one gateway revokes and grants again, and how long others took to see it."""

    def __init__(
        self, writer: Gateway, readers: Sequence[Gateway], *, probe_seconds: float = 0.001
    ) -> None:
        self._writer = writer
        self._readers = readers
        self._pause = probe_seconds
        self._minted = mint_relay_key()
        self._spec: dict[str, Any] = {}
        self._sealed = {"digest": self._minted.digest, "previous": []}
        self.id = ""
        self.seen: list[float] = []
        """Seconds from a commit to its enforcement, one for each reader and write."""

    @property
    def plaintext(self) -> str:
        """What a caller presents."""
        return self._minted.plaintext.reveal()

    @property
    def digest(self) -> bytes:
        """What a snapshot knows it by."""
        return bytes.fromhex(self._minted.digest)

    async def create(self) -> None:
        """Makes it, granted, and waits until all know it."""
        policy = next(iter(self._writer.live.current.policies))
        self._spec = {"policyId": policy, "prefix": self._minted.prefix, "revokedAt": None}
        entity = NewEntity(
            kind="relay key", display_name="Probed", spec=self._spec, sealed=self._sealed
        )
        self.id = (await self._writer.store.create(entity)).id
        await self._until(granted=True)

    async def set(self, *, granted: bool) -> None:
        """Writes, and adds for each reader the seconds from the commit to when it enforced it."""
        await self.write(granted=granted)
        await self._until(granted=granted)

    async def write(self, *, granted: bool) -> None:
        """Writes, and waits for nobody."""
        self._spec["revokedAt"] = None if granted else REVOKED_AT
        change = EntityChange(display_name="Probed", spec=self._spec, sealed=self._sealed)
        await self._writer.store.update("relay key", self.id, change)

    async def _until(self, *, granted: bool) -> None:
        committed = time.perf_counter()
        missing = list(self._readers)
        async with asyncio.timeout(LONGEST_SECONDS):
            while missing:
                for reader in list(missing):
                    if (self.digest in reader.live.current.relay_keys) is granted:
                        missing.remove(reader)
                        self.seen.append(time.perf_counter() - committed)
                if missing:
                    await asyncio.sleep(self._pause)


class LoopLag:
    """How late the running event loop is, in seconds, until :meth:`stop`.

    Only the time counts in which this process worked: how long it waits for others on a busy
    machine says nothing about it.
    """

    def __init__(self) -> None:
        self.late: list[float] = []
        self._running = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> Figures:
        """Ends the measurement."""
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)
        return Figures.of(self.late)

    async def _run(self) -> None:
        pause = 0.001
        while True:
            began, worked = time.perf_counter(), time.process_time()
            await asyncio.sleep(pause)
            waited = time.perf_counter() - began - pause
            self.late.append(max(0.0, min(waited, time.process_time() - worked)))


async def add_keys(
    gateway: Gateway, server: PostgresServer, url: str, count: int, *, batch: str = "bulk"
) -> float:
    """Makes relay keys in the database by one write that no gateway takes part in; seconds until
    ``gateway`` had them."""
    revision = gateway.live.current.revision + 1
    policy = next(iter(gateway.live.current.policies))
    statement = _BULK.format(policy=policy, revision=revision, count=count, batch=batch)
    await asyncio.to_thread(server.execute, statement, url=url)
    return await until(lambda: gateway.live.current.revision == revision, seconds=60)


async def until_listening(*gateways: Gateway) -> None:
    """Waits until all hear notifications."""
    for gateway in gateways:
        listener = gateway.listener
        assert listener is not None
        await until(partial(getattr, listener, "connected"))
