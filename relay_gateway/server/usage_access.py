"""Usage for commands: what was recorded, read where the gateway's sinks keep it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.catalog.repricing import PriceSheets
from relay_gateway.catalog.sections import read_runtime_settings
from relay_gateway.errors import ConfigurationError, PluginUnavailableError
from relay_gateway.plugin import LogQuery, UsageQuery, UsageReader, UsageRecord, UsageRow
from relay_gateway.registry import PluginKind, Plugins, Registry
from relay_gateway.server.database import open_engine
from relay_gateway.server.plugin_instances import configure_plugins
from relay_gateway.settings import Settings
from relay_gateway.storage import CatalogStore, SettingsStore

LOOK_SECONDS = 0.5
NEWEST = 500


class UsageDesk:
    """Reads usage with one of the sinks. ``catalog`` is all entities, by which ids have names."""

    def __init__(
        self, sink: str, reader: UsageReader, catalog: Sequence[EntityRow], *, corrects: bool
    ) -> None:
        self.reader = reader
        self._sink = sink
        self._catalog = catalog
        self._corrects = corrects
        self._names = {row.id: row.slug for row in catalog}

    @property
    def sink(self) -> str:
        """Name of the sink that is read."""
        return self._sink

    @property
    def catalog(self) -> Sequence[EntityRow]:
        """All entities as they are now."""
        return self._catalog

    def sheets(self) -> PriceSheets:
        """The price sheets of the catalog."""
        return PriceSheets(self._catalog)

    def check_corrects(self) -> None:
        """Raises :class:`ConfigurationError` where the sink cannot correct what it stored."""
        if not self._corrects:
            raise ConfigurationError(
                f"the usage sink {self._sink!r} cannot correct records; leave out --apply, or put "
                "a sink that can, such as a database, first among the sinks"
            )

    def name(self, value: str | None) -> str:
        """What people call an entity, for its id; other texts as they are."""
        return "" if value is None else self._names.get(value, value)

    async def summarize(self, query: UsageQuery) -> Sequence[UsageRow]:
        """Totals per group."""
        return await self.reader.summarize(query)

    async def follow(self, query: LogQuery, last: int) -> AsyncIterator[UsageRecord]:
        """The ``last`` records that match, oldest first, and then each one as it arrives."""
        known: dict[str, None] = {}
        show = last
        while True:
            page = await self.reader.query(_newest(query))
            fresh = [one for one in reversed(page.items) if one.request_id not in known]
            for record in fresh[max(0, len(fresh) - show) :]:
                yield record
            known.update(dict.fromkeys(one.request_id for one in page.items))
            for old in list(known)[: max(0, len(known) - 4 * NEWEST)]:
                del known[old]
            show = NEWEST
            await asyncio.sleep(LOOK_SECONDS)


def _newest(query: LogQuery) -> LogQuery:
    return LogQuery(
        limit=NEWEST, equals=query.equals, tags=query.tags, start=query.start, text=query.text
    )


@asynccontextmanager
async def open_usage(
    settings: Settings, environ: Mapping[str, str] = os.environ
) -> AsyncIterator[UsageDesk]:
    """Opens the first of the usage sinks in force that can be read.

    Raises :class:`ConfigurationError` where there is none.
    """
    registry = Registry.discover(enabled=settings.plugins.enabled)
    plugins = configure_plugins(settings, registry, environ)
    async with open_engine(settings) as engine:
        stored = {name: one.value for name, one in (await SettingsStore(engine).all()).items()}
        section = read_runtime_settings(stored).usage_logging
        sinks = section.sinks if "sinks" in section.model_fields_set else None
        name, reader, corrects = _readable(plugins, sinks or settings.usage_logging.sinks)
        rows = await CatalogStore(engine).load()
        await plugins.aopen()
        try:
            trouble = await plugins.opened(PluginKind.USAGE_SINK, name)
            if trouble is not None:
                raise ConfigurationError(f"the usage sink {name!r} cannot be read: {trouble}")
            yield UsageDesk(name, reader, rows.rows, corrects=corrects)
        finally:
            await plugins.aclose()


def _readable(plugins: Plugins, sinks: Sequence[str]) -> tuple[str, UsageReader, bool]:
    for name in sinks:
        try:
            sink = plugins.usage_sink(name)
        except PluginUnavailableError:
            continue
        if sink.reads and isinstance(sink, UsageReader):
            return name, sink, sink.corrects
    named = ", ".join(sinks) or "none"
    raise ConfigurationError(f"no usage sink that can be read is configured; there is: {named}")
