"""Instances with different master keys on one database, and a rotation that kills itself.

``python -m relay_gateway.testing.sealing URL before|after ROW NEW OLD`` rotates from the key named
OLD to NEW and ends itself with SIGKILL before or after the commit that seals the given ROW anew.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.catalog.compile import SEALED_FIELDS, seal_binding
from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.catalog.specs import HostKeySpec
from relay_gateway.control.host_keys import HostKeyRules
from relay_gateway.control.master_key import MasterKeys
from relay_gateway.control.rewrap import Rewrap, RewrapReport
from relay_gateway.control.rules import no_statuses
from relay_gateway.ids import new_id
from relay_gateway.plugin import PluginConfig, SecretBackend
from relay_gateway.registry import Registry
from relay_gateway.storage import (
    AuditLog,
    CatalogStore,
    MasterKeyStore,
    NewEntity,
    create_engine,
)
from relay_gateway.testing.context import master_key, plugin_context

Moment = Literal["before", "after"]


@dataclass(frozen=True, slots=True)
class Sealer:
    """What one instance has: the database, and its own master keys."""

    name: str
    backend: SecretBackend[Any]
    engine: AsyncEngine

    @property
    def masters(self) -> MasterKeyStore:
        """The master keys in the database."""
        return MasterKeyStore(self.engine)

    @property
    def keys(self) -> MasterKeys:
        """Its keys, held against them."""
        return MasterKeys(self.masters, self.backends)

    @property
    def catalog(self) -> CatalogStore:
        """The catalog."""
        return CatalogStore(self.engine)

    @property
    def audit(self) -> AuditLog:
        """The audit log."""
        return AuditLog(self.engine)

    @property
    def backends(self) -> dict[str, SecretBackend[Any]]:
        """Its only secret backend."""
        return {self.name: self.backend}

    @property
    def key_id(self) -> str:
        """The id of the key that seals here."""
        return self.backend.key_ids()[0]

    def rewrap(self, batch: int = 20) -> Rewrap:
        """A rotation to this instance's current key."""
        return Rewrap(self.keys, self.masters, self.catalog, batch=batch)

    async def add_keys(self, *values: str) -> list[EntityRow]:
        """Host keys that hold ``values``, made at one revision."""
        host, policy = await self._surroundings()
        made = [await self._host_key(host.id, policy.id, value) for value in values]
        return list(await self.catalog.write_all(made))

    async def add_proxied_hosts(self, *values: str) -> list[EntityRow]:
        """Hosts with ``values`` as their logins at an egress proxy, made at one revision."""
        made = []
        for value in values:
            entity_id = new_id()
            ref = self.backend.Ref.model_validate({"kind": self.name, "value": value})
            kept = await self.backend.seal(ref, seal_binding(entity_id, 1, "host"), None)
            shown = self.backend.publish(kept)
            spec = {
                "baseUrl": "https://127.0.0.1:9",
                "adapter": "echo",
                "proxyUrl": "http://127.0.0.1:9",
                "proxyCredential": shown.model_dump(mode="json", by_alias=True),
            }
            sealed = {
                "proxyCredential": kept.model_dump(mode="json", by_alias=True),
                "generation": 1,
            }
            made.append(
                NewEntity(
                    id=entity_id, kind="host", display_name="Proxied", spec=spec, sealed=sealed
                )
            )
        return list(await self.catalog.write_all(made))

    async def open_as(self, cell: EntityRow, place: EntityRow) -> str:
        """What the sealed value of ``cell`` gives at ``place``. Raises :class:`SecretError`."""
        binding = seal_binding(place.id, place.sealed["generation"], place.kind)
        model = self.backend.StoredRef or self.backend.Ref
        stored = model.model_validate(cell.sealed[SEALED_FIELDS[cell.kind]])
        return (await self.backend.resolve(stored, binding)).value.reveal()

    async def add_key(self, value: str) -> EntityRow:
        """One host key. Raises as :meth:`CatalogStore.create`."""
        host, policy = await self._surroundings()
        return await self.catalog.create(await self._host_key(host.id, policy.id, value))

    async def _surroundings(self) -> Sequence[EntityRow]:
        spec = {"baseUrl": "http://127.0.0.1:9", "adapter": "echo"}
        host = NewEntity(kind="host", display_name="Host", spec=spec)
        policy = NewEntity(kind="policy", display_name="Policy", spec={"models": ["*"]})
        return await self.catalog.write_all([host, policy])

    async def value_of(self, row: EntityRow) -> str:
        """What a host key holds now, as this instance can read it. Raises :class:`SecretError`."""
        current = await self.catalog.get("host key", row.id)
        binding = seal_binding(row.id, current.sealed["generation"])
        model = self.backend.StoredRef or self.backend.Ref
        stored = model.model_validate(current.sealed["valueFrom"])
        return (await self.backend.resolve(stored, binding)).value.reveal()

    async def sealed_with(self, rows: Sequence[EntityRow]) -> list[str]:
        """The id of the key that each of the host keys is sealed with, which reads show, too."""
        ids = []
        for row in rows:
            current = await self.catalog.get("host key", row.id)
            ids.append(current.sealed["valueFrom"]["keyId"])
            assert current.spec["valueFrom"]["keyId"] == ids[-1]
        return ids

    async def _host_key(self, host_id: str, policy_id: str, value: str) -> NewEntity:
        entity_id = new_id()
        spec = HostKeySpec(
            host_id=host_id, policy_id=policy_id, value_from={"kind": self.name, "value": value}
        )
        prepared = await HostKeyRules(self.backends, no_statuses).prepare(entity_id, spec, None)
        return NewEntity(
            id=entity_id,
            kind="host key",
            display_name="Key",
            spec=prepared.spec,
            sealed=prepared.sealed,
        )


class Fleet:
    """Makes instances on one migrated database."""

    def __init__(self, engine: AsyncEngine, directory: Path) -> None:
        self.engine = engine
        self._directory = directory
        found = Registry.discover().configure({}, lambda _name: plugin_context(directory))
        ((self._name, backend),) = [
            (name, backend) for name, backend in found.secret_backends.items() if backend.seals
        ]
        self._type = type(backend)

    async def instance(self, *keys: str, check: bool = True) -> Sealer:
        """One with the master keys of these names, checked as at its start."""
        ring = [master_key(name) for name in keys]
        context = plugin_context(self._directory, plugin=self._name, master_keys=ring)
        backend = self._type(PluginConfig(), context)
        await backend.aopen()
        sealer = Sealer(self._name, backend, self.engine)
        if check:
            await sealer.keys.check()
        return sealer


async def rotate_and_die(sealer: Sealer, row: int, moment: Moment) -> RewrapReport:
    """Rotates and kills this process around the commit that seals the ``row``-th row anew; returns
    when there are fewer."""
    written = 0

    def see(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        nonlocal written
        written += statement.startswith("UPDATE entities")

    def die_before(_connection: object) -> None:
        if moment == "before" and written == row:
            os.kill(os.getpid(), signal.SIGKILL)

    def die_after(_report: RewrapReport) -> None:
        if moment == "after" and written == row:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(sealer.engine.sync_engine, "before_cursor_execute", see)
    event.listen(sealer.engine.sync_engine, "commit", die_before)
    return await sealer.rewrap(batch=1).run(die_after)


async def _main(url: str, moment: Moment, row: int, *keys: str) -> None:
    engine = create_engine(url)
    with tempfile.TemporaryDirectory() as directory:
        sealer = await Fleet(engine, Path(directory)).instance(*keys)
        await rotate_and_die(sealer, row, moment)
    await engine.dispose()


if __name__ == "__main__":
    _url, _moment, _row, *_keys = sys.argv[1:]
    asyncio.run(_main(_url, "before" if _moment == "before" else "after", int(_row), *_keys))
