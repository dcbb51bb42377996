"""The parts of a running gateway, built in order and closed in reverse."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway import __version__, storage
from relay_gateway.catalog.build import SnapshotBuilder
from relay_gateway.catalog.live import LiveCatalog
from relay_gateway.control.services import ControlServices, Readiness
from relay_gateway.delivery.usage import UsageDelivery
from relay_gateway.errors import StorageUnavailableError
from relay_gateway.http.addresses import AddressReader
from relay_gateway.http.client import HttpClient
from relay_gateway.inference.answers import AnswerWriter
from relay_gateway.inference.plane import InferencePlane
from relay_gateway.inference.requests import HeaderReader
from relay_gateway.pipeline.authenticate import Authenticator
from relay_gateway.pipeline.credentials import Credentials
from relay_gateway.pipeline.dispatch import Dispatcher
from relay_gateway.pipeline.keypool import KeyPools
from relay_gateway.pipeline.run import Pipeline, Wire
from relay_gateway.plugin import CatalogSeed, PluginContext, SystemClock, UsageReader
from relay_gateway.registry import PluginKind, Plugins, Registry
from relay_gateway.security.access import login_users
from relay_gateway.server.access import access_rules
from relay_gateway.server.first_start import seed_catalog
from relay_gateway.server.last_good import LastGoodFile
from relay_gateway.server.watch import PATIENCE_SECONDS, CatalogWatcher, Upkeep
from relay_gateway.settings import Settings
from relay_gateway.storage import AuditLog, CatalogStore, SessionStore, SettingsStore
from relay_gateway.storage.changes import CatalogChanges
from relay_gateway.storage.notify import CatalogListener

SQLITE_POLL = 0.2
POSTGRESQL_POLL = 1.0
DELIVERY_SECONDS = 10.0

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Gateway:
    """A gateway that is built, open and not listening yet."""

    settings: Settings
    plugins: Plugins
    engine: AsyncEngine
    store: CatalogStore
    live: LiveCatalog
    watcher: CatalogWatcher
    pools: KeyPools
    credentials: Credentials
    client: HttpClient
    delivery: UsageDelivery
    plane: InferencePlane
    usage_reader: UsageReader | None
    listener: CatalogListener | None = None

    def control_services(self) -> ControlServices:
        """What the control plane works with."""
        return ControlServices(
            store=self.store,
            sessions=SessionStore(self.engine),
            settings=SettingsStore(self.engine),
            audit=AuditLog(self.engine),
            secret_backends=self.plugins.secret_backends,
            providers=self.plugins.providers,
            usage_reader=self.usage_reader,
            plugins=self.plugins.inventory,
            refresh=self.watcher.refresh,
            reload=self.watcher.reload,
            readiness=self.readiness,
            host_key_status=self.host_key_status,
            reset_host_key=self.pools.reset,
            admin_token=self.settings.admin_token,
            version=__version__,
            users=login_users(self.settings),
            access=access_rules(self.settings),
            usage_sinks=self.settings.usage_logging.sinks,
        )

    def readiness(self) -> Readiness:
        """Whether traffic should be sent here, and which parts do not work."""
        degraded = {"catalog": self._catalog_trouble()} if self.live.error else {}
        if self.listener is not None and self.listener.trouble:
            degraded["notifications"] = f"changes are polled for: {self.listener.trouble}"
        for line in self.delivery.lines:
            if line.dropped:
                degraded[f"usage sink {line.name}"] = f"{line.dropped} records dropped"
        revision = self.live.current.revision if self.live.loaded else None
        return Readiness(self.live.serves, self.plane.draining, revision, degraded)

    def _catalog_trouble(self) -> str:
        if not self.live.loaded:
            return f"source=none: {self.live.error}"
        return f"source={self.live.source}, age={self.live.age:.0f} s: {self.live.error}"

    def host_key_status(self, key_id: str) -> Mapping[str, Any]:
        """The run-time state of one host key."""
        return {**self.pools.describe(key_id), **self.credentials.describe(key_id)}


async def prepare(
    settings: Settings,
    registry: Registry,
    plugins: Plugins,
    environ: Mapping[str, str] = os.environ,
) -> bool:
    """What is done once before gateways are opened, however many there are: the configuration is
    checked, the database migrated, and an empty catalog seeded. ``plugins`` are not opened.

    Returns ``False`` when the database cannot be asked: gateways then do the rest when it can. An
    embedded database that cannot be used is an error, :class:`StorageUnavailableError`.
    """
    for name in settings.usage_logging.sinks:
        plugins.usage_sink(name)
    patient = not LastGoodFile(settings.data_dir, settings.master_key).exists
    try:
        async with asyncio.timeout(None if patient else PATIENCE_SECONDS):
            await prepare_database(settings, registry.seeds, plugins, environ)
    except (StorageUnavailableError, TimeoutError) as error:
        if settings.database_file is not None:
            raise
        _log.error("starting without the database: %s", str(error) or "it does not answer")
        return False
    return True


async def prepare_database(
    settings: Settings,
    seeds: Sequence[CatalogSeed],
    plugins: Plugins,
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Migrates the database and seeds an empty catalog; several processes may do so at once.

    Raises :class:`StorageUnavailableError`, and :class:`ConfigurationError` for a database of a
    newer version.
    """
    await migrate(settings)
    async with open_store(settings) as store:
        made = await seed_catalog(store, seeds, plugins.secret_backends, environ.get)
    for variable in made:
        _log.info("made a host key for %s", variable)


async def _prepare_late(settings: Settings, seeds: Sequence[CatalogSeed], plugins: Plugins) -> None:
    # While requests are served: importing this would hold them up.
    await asyncio.to_thread(import_module, "alembic.command")
    await prepare_database(settings, seeds, plugins)


@asynccontextmanager
async def open_gateway(
    settings: Settings, plugins: Plugins, seeds: Sequence[CatalogSeed], *, prepared: bool
) -> AsyncIterator[Gateway]:
    """Builds and opens all parts; closes them in reverse order.

    With ``prepared`` the database is of this version; otherwise it is brought there with ``seeds``
    as soon as it can be asked.
    """
    async with AsyncExitStack() as stack:
        sinks = [(name, plugins.usage_sink(name)) for name in settings.usage_logging.sinks]
        engine = await stack.enter_async_context(open_engine(settings))
        stack.push_async_callback(plugins.aclose)
        await plugins.aopen()
        delivery = UsageDelivery(sinks, _reporter(plugins))
        preparation = partial(_prepare_late, settings, seeds, plugins)
        gateway = _assemble(settings, plugins, engine, delivery, preparation)
        stack.push_async_callback(gateway.credentials.aclose)
        stack.push_async_callback(gateway.client.aclose)
        gateway.delivery.start()
        stack.push_async_callback(gateway.delivery.aclose, DELIVERY_SECONDS)
        stack.push_async_callback(gateway.watcher.aclose)
        await gateway.watcher.open(prepared=prepared)
        if settings.database_file is None:
            watcher = gateway.watcher
            gateway.listener = CatalogListener(
                engine, settings.database_url, watcher.heard, watcher.listening
            )
            watcher.listen(gateway.listener.run())
        yield gateway


def configure_plugins(
    settings: Settings, registry: Registry, environ: Mapping[str, str] = os.environ
) -> Plugins:
    """Instances of the installed plugins with their sections of the settings."""
    frozen = dict(environ)

    def context(name: str) -> PluginContext:
        return PluginContext(
            plugin=name,
            data_dir=settings.data_dir,
            database_url=settings.database_url,
            master_keys=settings.master_key,
            environ=frozen.get,
        )

    return registry.configure(settings.plugin_sections(), context)


@asynccontextmanager
async def open_engine(settings: Settings) -> AsyncIterator[AsyncEngine]:
    """The database of the settings; nothing is connected yet."""
    engine = storage.create_engine(settings.database_url)
    try:
        yield engine
    finally:
        await engine.dispose()


@asynccontextmanager
async def open_store(settings: Settings) -> AsyncIterator[CatalogStore]:
    """The catalog in the database of the settings."""
    async with open_engine(settings) as engine:
        yield CatalogStore(engine)


async def migrate(settings: Settings) -> str:
    """Brings the database to the schema of this version; returns its revision."""
    return await storage.migrate(settings.database_url)


def _assemble(
    settings: Settings,
    plugins: Plugins,
    engine: AsyncEngine,
    delivery: UsageDelivery,
    preparation: Callable[[], Awaitable[None]],
) -> Gateway:
    clock = SystemClock()
    live = LiveCatalog()
    pools = KeyPools(clock)
    client = HttpClient(egress_deny=settings.egress_deny)
    credentials = Credentials(plugins.secret_backends, clock)
    report = partial(plugins.report, PluginKind.UPSTREAM_PROVIDER)
    dispatcher = Dispatcher(plugins.providers, client, credentials, pools, report)
    upkeep = Upkeep(
        interval=POSTGRESQL_POLL if settings.database_file is None else SQLITE_POLL,
        max_age=settings.max_snapshot_age,
        prepare=preparation,
        swapped=dispatcher.retain,
    )
    return Gateway(
        settings=settings,
        plugins=plugins,
        engine=engine,
        store=CatalogStore(engine),
        live=live,
        watcher=CatalogWatcher(
            CatalogChanges(engine),
            live,
            SnapshotBuilder(plugins.providers, plugins.secret_backends),
            LastGoodFile(settings.data_dir, settings.master_key),
            upkeep,
        ),
        pools=pools,
        credentials=credentials,
        client=client,
        delivery=delivery,
        plane=_plane(settings, plugins, live, dispatcher, delivery),
        usage_reader=_reader(settings, plugins),
    )


def _plane(
    settings: Settings,
    plugins: Plugins,
    live: LiveCatalog,
    dispatcher: Dispatcher,
    delivery: UsageDelivery,
) -> InferencePlane:
    answers = AnswerWriter(settings.header_prefixes[0], plugins.providers)
    authenticator = Authenticator(settings.header_prefixes)
    pipeline = Pipeline(
        live,
        authenticator,
        dispatcher,
        delivery.put,
        Wire(answers.answer_headers, answers.refuse),
        settings.max_request_bytes,
    )
    return InferencePlane(
        live,
        pipeline,
        authenticator,
        answers,
        HeaderReader(settings.header_prefixes),
        AddressReader(settings.trusted_proxies),
        plugins.endpoints,
        tuple(plugins.dialects.values()),
    )


def _reader(settings: Settings, plugins: Plugins) -> UsageReader | None:
    """The first configured sink that can also read."""
    for name in settings.usage_logging.sinks:
        sink = plugins.usage_sink(name)
        if sink.reads and isinstance(sink, UsageReader):
            return sink
    return None


def _reporter(plugins: Plugins) -> Callable[[str, Exception], None]:
    return partial(plugins.report, PluginKind.USAGE_SINK)
