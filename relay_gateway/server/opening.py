"""Opens the parts of a gateway in order and closes them in reverse."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from relay_gateway.plugin import CatalogSeed, SystemClock
from relay_gateway.registry import PluginKind, Plugins
from relay_gateway.server.assembly import assemble
from relay_gateway.server.audit_upkeep import AuditUpkeep
from relay_gateway.server.database import open_engine
from relay_gateway.server.gateway import Gateway
from relay_gateway.server.guards import select_guards
from relay_gateway.server.heartbeat import Member
from relay_gateway.server.preparation import prepare_late
from relay_gateway.server.state_store import open_limiter, state_store
from relay_gateway.settings import Settings

DELIVERY_SECONDS = 10.0
PAYLOAD_SECONDS = 5.0
LAST_USES_SECONDS = 2.0


@asynccontextmanager
async def open_gateway(
    settings: Settings,
    plugins: Plugins,
    seeds: Sequence[CatalogSeed],
    environ: Mapping[str, str] = os.environ,
    *,
    prepared: bool,
    member: Member | None = None,
) -> AsyncIterator[Gateway]:
    """Builds and opens all parts; closes them in reverse order.

    With ``prepared`` the database is of this version; otherwise it is brought there with ``seeds``
    as soon as it can be asked. Without ``member`` this process is all of its gateway.
    """
    async with AsyncExitStack() as stack:
        for name in settings.usage_logging.sinks:
            plugins.usage_sink(name)
        select_guards(settings.guarding.order, plugins)
        store = state_store(settings, plugins)
        engine = await stack.enter_async_context(open_engine(settings))
        stack.push_async_callback(plugins.aclose)
        await plugins.aopen()
        report_store = partial(plugins.report, PluginKind.STATE_STORE)
        limiter = await stack.enter_async_context(open_limiter(settings, store, report_store))
        preparation = partial(prepare_late, settings, seeds, plugins, environ)
        gateway = assemble(
            settings, plugins, engine, limiter, preparation, environ, member or Member.alone()
        )
        gateway.guards.begin(settings.guarding.order)
        stack.push_async_callback(gateway.heartbeat.aclose)
        stack.push_async_callback(gateway.credentials.aclose)
        stack.push_async_callback(gateway.logins.aclose)
        stack.push_async_callback(gateway.client.aclose)
        stack.push_async_callback(gateway.sinks.aclose, DELIVERY_SECONDS)
        await gateway.sinks.open([gateway.ledger])
        stack.push_async_callback(gateway.payloads.aclose, PAYLOAD_SECONDS)
        gateway.last_uses.start()
        stack.push_async_callback(gateway.last_uses.aclose, LAST_USES_SECONDS)
        stack.push_async_callback(gateway.watcher.aclose)
        stack.push_async_callback(gateway.stop_reloading)
        await gateway.watcher.open(prepared=prepared)
        if prepared:
            await gateway.ledger.begin()
        _begin_upkeep(gateway)
        gateway.instruments.start()
        stack.callback(gateway.instruments.stop)
        yield gateway


def _begin_upkeep(gateway: Gateway) -> None:
    """What runs beside the requests until the watcher is closed."""
    settings, watcher = gateway.settings, gateway.watcher
    watcher.listen(gateway.key_watch.run())
    watcher.listen(gateway.credentials.run())
    watcher.listen(gateway.limiter.keep_leases())
    watcher.listen(gateway.ledger.run())
    watcher.listen(gateway.heartbeat.run())
    upkeep = AuditUpkeep(
        gateway.engine, settings.master_key, settings.audit_retention_days, SystemClock()
    )
    watcher.listen(upkeep.run())
    if settings.database_file is None:
        # Its driver is of no use to an embedded database.
        from relay_gateway.storage.notify import CatalogListener

        gateway.listener = CatalogListener(
            gateway.engine, settings.database_url, watcher.heard, watcher.listening
        )
        watcher.listen(gateway.listener.run())
