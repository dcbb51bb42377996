"""Which sinks records go to: as the settings in the database say, else as ``relay.toml`` does."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

from relay_gateway.catalog.sections import RuntimeSettings
from relay_gateway.catalog.snapshot import Snapshot
from relay_gateway.delivery.delivery import Delivery
from relay_gateway.delivery.spool import SpoolTerms
from relay_gateway.delivery.taking import PositionedConsumer
from relay_gateway.errors import PluginUnavailableError
from relay_gateway.plugin import PayloadLogger, UsageReader, UsageRecord
from relay_gateway.registry import PluginKind, Plugins
from relay_gateway.settings import Settings

EXPECTED_SECONDS = 10.0


class Reading(Protocol):
    """Who reads usage records back."""

    usage_reader: UsageReader | None


class RecordSinks:
    """Keeps ``delivery`` going to the sinks that are in force, and opens and closes those."""

    def __init__(self, settings: Settings, plugins: Plugins) -> None:
        self._configured = settings.usage_logging.sinks
        self._plugins = plugins
        self._sinks = self._configured
        self._loggers: tuple[str, ...] = ()
        self._followers: list[Reading] = []
        self._expected: dict[tuple[PluginKind, str], float] = {}
        """Until when plugins that were just found to work are not closed."""
        self._releases: set[asyncio.Task[None]] = set()
        self.delivery = Delivery(
            settings.data_dir,
            plugins.usage_sink,
            plugins.payload_logger,
            partial(plugins.report, PluginKind.USAGE_SINK),
            report_payload=partial(plugins.report, PluginKind.PAYLOAD_LOGGER),
            terms=SpoolTerms(settings.spool.sync, settings.spool.max_bytes),
            finished=self._finished,
        )

    async def open(self, consumers: Sequence[PositionedConsumer[UsageRecord]] = ()) -> None:
        """Begins to deliver to what ``relay.toml`` names, until there are settings, and to
        ``consumers``."""
        await self.delivery.open(self._configured, consumers)

    def follow(self, snapshot: Snapshot) -> None:
        """Switches to what the settings of a new snapshot say."""
        sinks = self.usage_sinks(snapshot.settings)
        section = snapshot.settings.payload_logging
        loggers = section.loggers if section.enabled else ()
        if sinks != self._sinks:
            self._sinks = sinks
            self.delivery.switch(sinks)
            for follower in self._followers:
                follower.usage_reader = self.reader()
        if loggers != self._loggers:
            self._loggers = loggers
            self.delivery.switch_payloads(loggers)

    def renew(self) -> None:
        """Has records go to the sinks as they are now, and readers read from them, after plugins
        were changed."""
        self.delivery.renew()
        for follower in self._followers:
            follower.usage_reader = self.reader()

    def usage_sinks(self, settings: RuntimeSettings) -> tuple[str, ...]:
        """The usage sinks that are in force with ``settings``."""
        section = settings.usage_logging
        return section.sinks if "sinks" in section.model_fields_set else self._configured

    def keep_current(self, follower: Reading) -> None:
        """Has ``follower`` read from what can be read, now and after each switch."""
        follower.usage_reader = self.reader()
        self._followers.append(follower)

    def reader(self) -> UsageReader | None:
        """The first of the usage sinks that can also read."""
        for name in self._sinks:
            try:
                sink = self._plugins.usage_sink(name)
            except PluginUnavailableError:
                continue
            if sink.reads and isinstance(sink, UsageReader):
                return sink
        return None

    def payload_loggers(self) -> Sequence[PayloadLogger[Any]]:
        """The payload loggers in force, as far as they are to be had."""
        found = []
        for name in self._loggers:
            with contextlib.suppress(PluginUnavailableError):
                found.append(self._plugins.payload_logger(name))
        return found

    async def refusal_of_sink(self, name: str) -> str | None:
        """Why records cannot be sent to this usage sink, which is opened to find out."""
        return await self._refusal(PluginKind.USAGE_SINK, name)

    async def refusal_of_logger(self, name: str) -> str | None:
        """The same of a payload logger."""
        return await self._refusal(PluginKind.PAYLOAD_LOGGER, name)

    async def aclose(self, deadline: float) -> None:
        """Hands over what is left, for at most ``deadline`` seconds."""
        await self.delivery.aclose(deadline)
        await asyncio.gather(*self._releases, return_exceptions=True)

    async def _refusal(self, kind: PluginKind, name: str) -> str | None:
        try:
            error = await self._plugins.opened(kind, name)
        except PluginUnavailableError as unavailable:
            return str(unavailable)
        if error is not None:
            self._finished(kind, name)
        else:
            self._expected[kind, name] = time.monotonic() + EXPECTED_SECONDS
        return error

    def _finished(self, kind: PluginKind | str, name: str) -> None:
        """Closes a plugin that records no longer go to."""
        kind = PluginKind(kind)
        wanted: Sequence[str] = self._sinks if kind is PluginKind.USAGE_SINK else self._loggers
        if name in wanted or self._expected.get((kind, name), 0.0) > time.monotonic():
            return
        release = asyncio.get_running_loop().create_task(self._plugins.release(kind, name))
        self._releases.add(release)
        release.add_done_callback(self._releases.discard)
