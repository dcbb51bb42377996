"""Plugins changed at run time: ``relay.toml`` is read again, checked whole, then made effective."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from relay_gateway.errors import RelayError
from relay_gateway.registry import Planned, PluginChange, Plugins
from relay_gateway.server.guards import check_order, with_order
from relay_gateway.server.state_store import with_state_store
from relay_gateway.settings import PLUGIN_SECTIONS, Settings, load_settings

APPLIED = (*PLUGIN_SECTIONS, "plugins", "guarding")
"""The settings that are made effective; all others are, at a restart."""

Read = Callable[[], Settings]
Effect = Callable[[Sequence[PluginChange]], Awaitable[None]]
_log = logging.getLogger(__name__)


class PluginReload:
    """Reloads the plugins of this process. ``read`` gives the settings as they are now, ``effect``
    has the parts that hold a changed plugin take the new one."""

    def __init__(self, settings: Settings, plugins: Plugins, read: Read, effect: Effect) -> None:
        self.settings = settings
        """Those in force."""
        self.keep: Callable[[Settings], None] = _nobody
        """Told of the settings that a reload has made effective."""
        self._plugins = plugins
        self._read = read
        self._effect = effect
        self._one_at_a_time = asyncio.Lock()

    async def reload(self) -> list[PluginChange]:
        """Makes the configuration effective; what has changed.

        Raises :class:`RelayError` with every problem of a configuration that is not valid, and then
        nothing is changed.
        """
        async with self._one_at_a_time:
            # In a thread: distributions that were not enabled so far are imported.
            settings, planned = await asyncio.to_thread(self._plan)
            former, order = self.settings.guarding.order, settings.guarding.order
            changes = with_order(await self._plugins.change(planned), former, order)
            self.settings = settings
            if changes or former != order:
                await self._effect(changes)
            self.keep(settings)
        for change in changes:
            _log.info("%s %s: %s", change.kind, change.name, _outcome(change))
        return changes

    async def hear_signal(self) -> None:
        """Reloads because of SIGHUP, and says in the log what came of it."""
        try:
            changes = await self.reload()
        except RelayError as error:
            _log.error("nothing is reloaded: %s", error)
        except Exception:  # noqa: BLE001 - a signal has nobody to raise it to
            _log.exception("plugins could not be reloaded")
        else:
            _log.info("the configuration of plugins is reloaded: %d changes", len(changes))

    def _plan(self) -> tuple[Settings, Planned]:
        read = self._read()
        settings = self.settings.model_copy(update={name: getattr(read, name) for name in APPLIED})
        sections_of = partial(with_state_store, settings)
        planned = self._plugins.plan_again(settings.plugins.enabled, sections_of)
        check_order(settings.guarding.order, planned)
        return settings, planned


def reader(environ: Mapping[str, str]) -> Read:
    """Reads the settings as at the start: the file of today with the variables of then."""
    return partial(load_settings, environ)


def _nobody(_settings: Settings) -> None:
    """A process that is alone reads the file when it starts again."""


def _outcome(change: PluginChange) -> str:
    return f"{change.change}: {change.error}" if change.error else str(change.change)
