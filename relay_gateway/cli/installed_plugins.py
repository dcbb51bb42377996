"""Installed plugins as commands show them: a line of the inventory with all that belongs to it."""

from __future__ import annotations

import contextlib
import logging
import re
import sys
from collections.abc import Sequence
from importlib.metadata import Distribution, EntryPoint, PackageNotFoundError, distribution
from typing import Any

import msgspec

from relay_gateway.errors import ConfigurationError
from relay_gateway.registry import PluginInfo, PluginKind, PluginState, Registry
from relay_gateway.settings import Settings

GROUP = "relay_gateway"


class InstalledPlugin(msgspec.Struct, frozen=True):
    """``item`` is the class (of a seed: nothing), ``config`` its section of ``relay.toml`` without
    credentials, ``None`` where there is none."""

    info: PluginInfo
    item: Any
    distribution: Distribution | None
    entry_point: EntryPoint | None
    config: dict[str, Any] | None

    @property
    def origin(self) -> str:
        """The module that the entry point names, and where it lies."""
        return self.entry_point.value if self.entry_point is not None else "-"

    @property
    def fix(self) -> str | None:
        """What to do about a plugin that cannot be used; ``None`` for one that can."""
        name, state = self.info.distribution, self.info.state
        if state is PluginState.DISCOVERED:
            return f"add {name} to [plugins] enabled in relay.toml, or uninstall it"
        if state is not PluginState.QUARANTINED:
            return None
        if "claimed by" in (self.info.error or ""):
            return "uninstall one of the two, or leave one out of [plugins] enabled"
        return (
            f"install another version of {name}, or tell its author; `relay-gateway plugins list "
            "--verbose` shows the traceback"
        )


def installed_plugins(settings: Settings) -> list[InstalledPlugin]:
    """Everything installed; nothing is opened, and nothing of it can print into an answer."""
    # What the registry would log is what the list shows.
    logging.getLogger("relay_gateway.registry").addHandler(logging.NullHandler())
    with contextlib.redirect_stdout(sys.stderr):
        registry = Registry.discover(enabled=settings.plugins.enabled)
    shown = registry.masked(settings.plugin_sections())
    items = _items(registry)
    return [_installed(info, items, shown) for info in registry.inventory()]


def find_plugins(settings: Settings, wanted: str) -> list[InstalledPlugin]:
    """Those of this name or distribution. Raises :class:`ConfigurationError` naming what there
    is."""
    everything = installed_plugins(settings)
    found = [
        one
        for one in everything
        if wanted == one.info.name or _canonical(wanted) == _canonical(one.info.distribution)
    ]
    if not found:
        names = ", ".join(sorted({one.info.name for one in everything})) or "none"
        raise ConfigurationError(f"no plugin {wanted!r} is installed; there are: {names}")
    return found


def _items(registry: Registry) -> dict[tuple[str, str], Any]:
    return {
        (str(kind), name): item
        for kind in PluginKind
        if isinstance(classes := getattr(registry, kind.plural, None), dict)
        for name, item in classes.items()
    }


def _installed(
    info: PluginInfo,
    items: dict[tuple[str, str], Any],
    shown: dict[str, dict[str, dict[str, Any]]],
) -> InstalledPlugin:
    item = items.get((str(info.kind), info.name))
    tables = {str(kind): kind.plural for kind in PluginKind}
    config = shown.get(tables.get(str(info.kind), ""), {}).get(info.name)
    found = _distribution(info.distribution)
    return InstalledPlugin(info, item, found, _entry_point(found, info.name, item), config)


def _distribution(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except (PackageNotFoundError, ValueError):
        return None


def _entry_point(found: Distribution | None, name: str, item: Any) -> EntryPoint | None:
    """The entry point that registers the plugin: the one whose package its class is from."""
    points: Sequence[EntryPoint] = []
    if found is not None:
        points = tuple(found.entry_points.select(group=GROUP))
    module = getattr(item, "__module__", "")
    for point in points:
        if point.name == name or f"{module}.".startswith(f"{point.module}."):
            return point
    return points[0] if points else None


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
