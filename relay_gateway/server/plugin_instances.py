"""Instances of the installed plugins, each with the part of the world that is for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

from relay_gateway.plugin import PluginContext
from relay_gateway.registry import Plugins, Registry
from relay_gateway.server.state_store import with_state_store
from relay_gateway.settings import Settings


def configure_plugins(
    settings: Settings,
    registry: Registry,
    environ: Mapping[str, str] = os.environ,
    withdraw: Callable[[Iterable[str]], None] | None = None,
) -> Plugins:
    """Instances of the installed plugins with their sections of the settings.

    ``withdraw`` removes variables from the environment, where that is wanted of those that a plugin
    has taken a credential from.
    """
    frozen = dict(environ)

    def context(name: str) -> PluginContext:
        return PluginContext(
            plugin=name,
            data_dir=settings.data_dir,
            database_url=settings.database_url,
            master_keys=settings.master_key,
            environ=frozen.get,
            withdraw=(lambda name: withdraw([name])) if withdraw else _keep,
        )

    return registry.configure(with_state_store(settings, registry.state_stores), context)


def _keep(_name: str) -> None:
    """A command does not live long enough for its environment to matter."""
