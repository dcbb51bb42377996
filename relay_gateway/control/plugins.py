"""``/plugins``: what is installed, how it is configured, how it fares, and loading it anew."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from fastapi import FastAPI
from starlette.responses import Response

from relay_gateway.control.openapi import Documentation, Operation
from relay_gateway.control.problems import RefusedError
from relay_gateway.control.services import ControlServices, PluginEntry, ProcessReload
from relay_gateway.control.usage_answers import answer_with
from relay_gateway.errors import ConfigurationError
from relay_gateway.observe import families
from relay_gateway.observe.series import Series
from relay_gateway.storage.audit import AuditEvent


class PluginMetrics(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Figures of all processes since they started: ``calls`` that the gateway made, ``errors`` that
    it counted, ``seconds`` that awaited calls took together, and ``stalls``, how often code of the
    plugin held up an event loop."""

    calls: int
    errors: int
    seconds: float
    stalls: int


class PluginItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One installed plugin.

    ``configSchema`` is the JSON Schema of its section in ``relay.toml``; ``config`` what is in
    force, defaults included, with credentials masked. Both are ``null`` for a plugin that could not
    be loaded, ``config`` also for one that lacks a section it needs.
    """

    name: str
    kind: str
    distribution: str
    version: str
    state: str
    error: str | None
    config_schema: dict[str, Any] | None
    config: dict[str, Any] | None
    metrics: PluginMetrics


class PluginList(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """All installed plugins, quarantined ones included."""

    items: tuple[PluginItem, ...]


class ReloadedPlugins(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The changes in every process of this instance."""

    processes: tuple[ProcessReload, ...]


STRUCTS = (PluginList, ReloadedPlugins)


class PluginRoutes:
    """The routes about plugins."""

    def __init__(self, services: ControlServices, docs: Documentation) -> None:
        self._services = services
        self._docs = docs

    def add_to(self, app: FastAPI) -> None:
        """Adds the routes to ``app``."""
        listing = Operation(
            "listPlugins", "List installed plugins",
            description="Those that could not be loaded too, with the reason; of each the JSON "
            "Schema of its section in `relay.toml`, the configuration in force and its figures.",
        )  # fmt: skip
        reloading = Operation(
            "reloadPlugins", "Read the sections of plugins in relay.toml again",
            description="Everything is checked first: where something is not valid, 422 says all "
            "of it and nothing is changed. A new instance is opened before the old one is closed, "
            "and requests that began with the old one end with it.",
            errors=(422,), no_dry_run="it changes nothing stored",
        )  # fmt: skip
        app.add_api_route(
            "/plugins", self._list, methods=["GET"], tags=["operations"],
            **self._docs.describe(listing, answer=PluginList.__name__),
        )  # fmt: skip
        app.add_api_route(
            "/plugins/reload", self._reload, methods=["POST"], tags=["operations"],
            **self._docs.describe(reloading, answer=ReloadedPlugins.__name__),
        )  # fmt: skip

    async def _list(self) -> Response:
        figures = figures_of(await self._services.metrics())
        items = (_item(entry, figures) for entry in self._services.plugins())
        return answer_with(PluginList(items=tuple(items)))

    async def _reload(self) -> Response:
        try:
            processes = await self._services.reload_plugins()
        except ConfigurationError as error:
            raise RefusedError(422, "invalid_configuration", str(error)) from error
        detail = {"processes": msgspec.to_builtins(processes)}
        await self._services.audit.record(
            AuditEvent(action="reload", kind="plugins", detail=detail)
        )
        return answer_with(ReloadedPlugins(processes=tuple(processes)))


Figures = Mapping[tuple[str, str], Mapping[str, float]]


def figures_of(series: Sequence[Series]) -> Figures:
    """The figures of plugins, by kind and name and by the name of the metric."""
    found: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for one in series:
        if one.family in _FIGURES:
            kind, name = one.labels[:2]
            found[kind, name][one.family] = one.value
    return found


_FIGURES = frozenset(
    family.name
    for family in (
        families.PLUGIN_CALLS,
        families.PLUGIN_FAILURES,
        families.PLUGIN_SECONDS,
        families.PLUGIN_STALLS,
    )
)


def _item(entry: PluginEntry, figures: Figures) -> PluginItem:
    own = figures.get((entry.kind, entry.name), {})
    return PluginItem(
        name=entry.name,
        kind=entry.kind,
        distribution=entry.distribution,
        version=entry.version,
        state=entry.state,
        error=entry.error,
        config_schema=entry.config_schema,
        config=entry.config,
        metrics=PluginMetrics(
            calls=int(own.get(families.PLUGIN_CALLS.name, 0)),
            errors=int(own.get(families.PLUGIN_FAILURES.name, 0)),
            seconds=round(own.get(families.PLUGIN_SECONDS.name, 0.0), 6),
            stalls=int(own.get(families.PLUGIN_STALLS.name, 0)),
        ),
    )
