"""The catalog for commands: relay keys and checks, without a running gateway."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

from relay_gateway.catalog.build import build_snapshot
from relay_gateway.catalog.envelope import EntityRow, MetadataInput
from relay_gateway.catalog.snapshot import HostKey, Snapshot
from relay_gateway.catalog.specs import RelayKeySpec
from relay_gateway.control.relay_keys import (
    KIND,
    create_relay_key,
    revoke,
    rotate,
    utc_now,
)
from relay_gateway.errors import RelayError
from relay_gateway.pipeline.credentials import Credentials
from relay_gateway.plugin import SystemClock
from relay_gateway.registry import Plugins, PluginState, Registry
from relay_gateway.secret import Secret
from relay_gateway.security.relay_keys import mint_relay_key
from relay_gateway.server.first_start import seed_catalog
from relay_gateway.server.parts import configure_plugins, migrate, open_store
from relay_gateway.settings import Settings
from relay_gateway.storage import CatalogStore

_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked, and what was found."""

    name: str
    ok: bool
    detail: str


class CatalogAdmin:
    """What commands do with the catalog. Running gateways see each write within a second."""

    def __init__(self, store: CatalogStore, plugins: Plugins) -> None:
        self._store = store
        self._plugins = plugins

    async def create_relay_key(
        self, name: str, policy: str, expires_at: datetime | None
    ) -> tuple[Secret, EntityRow]:
        """A new relay key under the policy with this slug or id; the plaintext is in the answer
        only."""
        row = await self._store.get("policy", policy)
        spec = RelayKeySpec(policy_id=row.id, expires_at=expires_at)
        minted, created = await create_relay_key(
            self._store, MetadataInput(display_name=name), spec
        )
        return minted.plaintext, created

    async def rotate_relay_key(self, ref: str, grace_seconds: int) -> tuple[Secret, EntityRow]:
        """A new plaintext for a relay key; the old one stays valid for ``grace_seconds``."""
        row = await self._store.get(KIND, ref)
        minted = mint_relay_key()
        change = rotate(row, minted, grace_seconds, utc_now())
        updated = await self._store.update(KIND, row.id, change, expected_version=row.version)
        return minted.plaintext, updated

    async def revoke_relay_key(self, ref: str) -> EntityRow:
        """Ends a relay key at once and for good."""
        row = await self._store.get(KIND, ref)
        change = revoke(row, utc_now())
        return await self._store.update(KIND, row.id, change, expected_version=row.version)

    async def relay_keys(self) -> list[EntityRow]:
        """All relay keys in order of creation."""
        rows: list[EntityRow] = []
        cursor: str | None = None
        while True:
            page = await self._store.page(KIND, limit=_PAGE, cursor=cursor)
            rows.extend(page.items)
            cursor = page.next_cursor
            if cursor is None:
                return rows

    async def check(self) -> list[Finding]:
        """Database, plugins, every entity, and whether the secret of each host key can be had."""
        await self._plugins.aopen()
        try:
            rows = await self._store.load()
            snapshot = build_snapshot(
                rows.revision,
                rows.rows,
                providers=self._plugins.providers,
                backends=self._plugins.secret_backends,
            )
            database = Finding(
                "database", True, f"{len(rows.rows)} entities at revision {rows.revision}"
            )
            keys = await self._check_keys(snapshot)
            return [database, *self._check_plugins(), *_check_catalog(snapshot), *keys]
        finally:
            await self._plugins.aclose()

    def _check_plugins(self) -> list[Finding]:
        return [
            Finding(
                f"{info.kind} {info.name}",
                info.state not in (PluginState.QUARANTINED, PluginState.FAILED),
                info.error or str(info.state),
            )
            for info in self._plugins.inventory()
        ]

    async def _check_keys(self, snapshot: Snapshot) -> list[Finding]:
        credentials = Credentials(self._plugins.secret_backends, SystemClock())
        try:
            return [await _check_key(credentials, key) for key in snapshot.host_keys.values()]
        finally:
            await credentials.aclose()


@asynccontextmanager
async def open_catalog(
    settings: Settings, environ: Mapping[str, str] = os.environ
) -> AsyncIterator[CatalogAdmin]:
    """The catalog of the settings' database, migrated and, at its very first use, seeded."""
    registry = Registry.discover(enabled=settings.plugins.enabled)
    plugins = configure_plugins(settings, registry, environ)
    await migrate(settings)
    async with open_store(settings) as store:
        await seed_catalog(store, registry.seeds, plugins.secret_backends, environ.get)
        yield CatalogAdmin(store, plugins)


async def _check_key(credentials: Credentials, key: HostKey) -> Finding:
    try:
        await credentials.get(key)
    except RelayError as error:
        return Finding(f"host key {key.slug}", False, str(error))
    return Finding(f"host key {key.slug}", True, f"resolved by {key.backend}")


def _check_catalog(snapshot: Snapshot) -> list[Finding]:
    return [
        Finding(f"{row.kind} {row.slug}", False, f"left out: {row.reason}")
        for row in snapshot.quarantined
    ]
