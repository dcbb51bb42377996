"""The catalog for commands: relay keys and checks, without a running gateway."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from relay_gateway.catalog.build import build_snapshot
from relay_gateway.catalog.snapshot import Snapshot
from relay_gateway.control.master_key import BackendKeys, MasterKeys
from relay_gateway.control.rewrap import Progress, Rewrap, RewrapReport
from relay_gateway.http.egress import Network
from relay_gateway.registry import Plugins, PluginState, Registry
from relay_gateway.server.credential_checks import check_credentials
from relay_gateway.server.database import migrate, open_engine
from relay_gateway.server.finding import Finding
from relay_gateway.server.first_start import seed_catalog
from relay_gateway.server.host_checks import check_hosts
from relay_gateway.server.plugin_instances import configure_plugins
from relay_gateway.server.relay_key_admin import RelayKeyAdmin
from relay_gateway.settings import Settings
from relay_gateway.storage import CatalogStore, MasterKeyStore, RelayKeyUses


class CatalogAdmin:
    """What commands do with the catalog. Running gateways see each write within a second."""

    def __init__(
        self,
        store: CatalogStore,
        plugins: Plugins,
        master_keys: MasterKeyStore,
        relay_keys: RelayKeyAdmin,
        egress_deny: Sequence[Network],
    ) -> None:
        self.relay_keys = relay_keys
        self._store = store
        self._plugins = plugins
        self._master_keys = master_keys
        self._egress_deny = egress_deny

    async def master_key_status(self) -> list[BackendKeys]:
        """What is sealed with which master key."""
        async with self._opened_plugins():
            return await self._keys().status()

    async def rotate_master_key(self, progress: Progress) -> RewrapReport:
        """Seals everything with the current master key. Raises as :meth:`Rewrap.run`."""
        async with self._opened_plugins():
            return await Rewrap(self._keys(), self._master_keys, self._store).run(progress)

    async def adopt_master_key(self) -> list[str]:
        """Lets the current master key seal, which nothing proves; ids of keys that were added."""
        async with self._opened_plugins():
            return await self._keys().adopt()

    def _keys(self) -> MasterKeys:
        return MasterKeys(self._master_keys, self._plugins.secret_backends)

    @asynccontextmanager
    async def _opened_plugins(self) -> AsyncIterator[None]:
        await self._plugins.aopen()
        try:
            yield
        finally:
            await self._plugins.aclose()

    async def _check_master_keys(self) -> list[Finding]:
        found = []
        for state in await self._keys().status():
            detail = state.trouble or f"{state.current_key_id or 'no key'} seals new values"
            if state.unreadable:
                detail += f"; {state.unreadable} values are sealed with keys that are not here"
            ok = state.trouble is None and not state.unreadable
            found.append(Finding(f"master key of {state.backend}", ok, detail))
        return found

    async def check(self) -> list[Finding]:
        """Database, master key, plugins, every entity, whether the secret of each host key can be
        had, and whether each host answers that a request can be sent to."""
        async with self._opened_plugins():
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
            keys = await check_credentials(snapshot, self._plugins)
            masters = await self._check_master_keys()
            hosts = await check_hosts(snapshot, self._plugins, self._egress_deny)
            catalog = _check_catalog(snapshot)
            return [database, *masters, *self._check_plugins(), *catalog, *keys, *hosts]

    def _check_plugins(self) -> list[Finding]:
        return [
            Finding(
                f"{info.kind} {info.name}",
                info.state not in (PluginState.QUARANTINED, PluginState.FAILED),
                info.error or str(info.state),
            )
            for info in self._plugins.inventory()
        ]


@asynccontextmanager
async def open_catalog(
    settings: Settings, environ: Mapping[str, str] = os.environ
) -> AsyncIterator[CatalogAdmin]:
    """The catalog of the settings' database, migrated and, at its very first use, seeded."""
    registry = Registry.discover(enabled=settings.plugins.enabled)
    plugins = configure_plugins(settings, registry, environ)
    await migrate(settings)
    async with open_engine(settings) as engine:
        store = CatalogStore(engine)
        await seed_catalog(store, registry.seeds, plugins.secret_backends, environ.get)
        relay_keys = RelayKeyAdmin(store, RelayKeyUses(engine))
        yield CatalogAdmin(store, plugins, MasterKeyStore(engine), relay_keys, settings.egress_deny)


def _check_catalog(snapshot: Snapshot) -> list[Finding]:
    return [
        Finding(f"{row.kind} {row.slug}", False, f"left out: {row.reason}")
        for row in snapshot.quarantined
    ]
