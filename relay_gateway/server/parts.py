"""The parts of a running gateway, built in order and closed in reverse."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from relay_gateway import __version__, storage
from relay_gateway.catalog.build import build_snapshot
from relay_gateway.catalog.live import LiveCatalog
from relay_gateway.catalog.snapshot import Snapshot
from relay_gateway.control.services import ControlServices, Readiness
from relay_gateway.delivery.usage import UsageDelivery
from relay_gateway.http.client import HttpClient
from relay_gateway.inference.answers import AnswerWriter
from relay_gateway.inference.plane import InferencePlane
from relay_gateway.inference.requests import AddressReader, HeaderReader
from relay_gateway.pipeline.authenticate import Authenticator
from relay_gateway.pipeline.credentials import Credentials
from relay_gateway.pipeline.dispatch import Dispatcher
from relay_gateway.pipeline.keypool import KeyPools
from relay_gateway.pipeline.run import Pipeline, Wire
from relay_gateway.plugin import PluginContext, SystemClock, UsageReader
from relay_gateway.registry import PluginKind, Plugins, Registry
from relay_gateway.server.first_start import seed_catalog
from relay_gateway.server.watch import CatalogWatcher
from relay_gateway.settings import Settings
from relay_gateway.storage import CatalogRows, CatalogStore

SQLITE_POLL = 0.2
POSTGRESQL_POLL = 1.0
DELIVERY_SECONDS = 10.0

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Gateway:
    """A gateway that is built, open and not listening yet."""

    settings: Settings
    plugins: Plugins
    store: CatalogStore
    live: LiveCatalog
    watcher: CatalogWatcher
    pools: KeyPools
    credentials: Credentials
    client: HttpClient
    delivery: UsageDelivery
    plane: InferencePlane
    usage_reader: UsageReader | None

    def control_services(self) -> ControlServices:
        """What the control plane works with."""
        return ControlServices(
            store=self.store,
            secret_backends=self.plugins.secret_backends,
            providers=self.plugins.providers,
            usage_reader=self.usage_reader,
            plugins=self.plugins.inventory,
            refresh=self.watcher.refresh,
            readiness=self.readiness,
            host_key_status=self.host_key_status,
            reset_host_key=self.pools.reset,
            admin_token=self.settings.admin_token,
            version=__version__,
        )

    def readiness(self) -> Readiness:
        """Whether traffic should be sent here, and which parts do not work."""
        degraded = {"catalog": self.live.error} if self.live.error else {}
        for line in self.delivery.lines:
            if line.dropped:
                degraded[f"usage sink {line.name}"] = f"{line.dropped} records dropped"
        revision = self.live.current.revision if self.live.loaded else None
        return Readiness(self.live.loaded, self.plane.draining, revision, degraded)

    def host_key_status(self, key_id: str) -> Mapping[str, Any]:
        """The run-time state of one host key."""
        return {**self.pools.describe(key_id), **self.credentials.describe(key_id)}


async def prepare(
    settings: Settings, registry: Registry, environ: Mapping[str, str] = os.environ
) -> None:
    """What is done once before gateways are opened, however many there are: the configuration is
    checked, the database migrated, and an empty catalog seeded."""
    plugins = configure_plugins(settings, registry, environ)
    for name in settings.usage_logging.sinks:
        plugins.usage_sink(name)
    await migrate(settings)
    async with open_store(settings) as store:
        made = await seed_catalog(store, registry.seeds, plugins.secret_backends, environ.get)
    for variable in made:
        _log.info("made a host key for %s", variable)


@asynccontextmanager
async def open_gateway(
    settings: Settings, registry: Registry, environ: Mapping[str, str] = os.environ
) -> AsyncIterator[Gateway]:
    """Builds and opens all parts on a prepared database; closes them in reverse order."""
    async with AsyncExitStack() as stack:
        plugins = configure_plugins(settings, registry, environ)
        sinks = [(name, plugins.usage_sink(name)) for name in settings.usage_logging.sinks]
        store = await stack.enter_async_context(open_store(settings))
        stack.push_async_callback(plugins.aclose)
        await plugins.aopen()
        gateway = _assemble(settings, plugins, store, UsageDelivery(sinks, _reporter(plugins)))
        stack.push_async_callback(gateway.credentials.aclose)
        stack.push_async_callback(gateway.client.aclose)
        gateway.delivery.start()
        stack.push_async_callback(gateway.delivery.aclose, DELIVERY_SECONDS)
        await gateway.watcher.refresh()
        gateway.watcher.start()
        stack.push_async_callback(gateway.watcher.aclose)
        yield gateway


def configure_plugins(
    settings: Settings, registry: Registry, environ: Mapping[str, str]
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
async def open_store(settings: Settings) -> AsyncIterator[CatalogStore]:
    """The catalog in the database of the settings."""
    engine = storage.create_engine(settings.database_url)
    try:
        yield CatalogStore(engine)
    finally:
        await engine.dispose()


async def migrate(settings: Settings) -> str:
    """Brings the database to the schema of this version; returns its revision."""
    return await storage.migrate(settings.database_url)


def _assemble(
    settings: Settings, plugins: Plugins, store: CatalogStore, delivery: UsageDelivery
) -> Gateway:
    clock = SystemClock()
    live = LiveCatalog()
    pools = KeyPools(clock)
    client = HttpClient(egress_deny=settings.egress_deny)
    credentials = Credentials(plugins.secret_backends, clock)
    report = partial(plugins.report, PluginKind.UPSTREAM_PROVIDER)
    dispatcher = Dispatcher(plugins.providers, client, credentials, pools, report)
    interval = POSTGRESQL_POLL if settings.database_file is None else SQLITE_POLL
    return Gateway(
        settings=settings,
        plugins=plugins,
        store=store,
        live=live,
        watcher=CatalogWatcher(store, live, _builder(plugins), dispatcher.retain, interval),
        pools=pools,
        credentials=credentials,
        client=client,
        delivery=delivery,
        plane=_plane(settings, plugins, live, dispatcher, delivery),
        usage_reader=_reader(settings, plugins),
    )


def _builder(plugins: Plugins) -> Callable[[CatalogRows], Snapshot]:
    def build(rows: CatalogRows) -> Snapshot:
        return build_snapshot(
            rows.revision,
            rows.rows,
            providers=plugins.providers,
            backends=plugins.secret_backends,
        )

    return build


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
