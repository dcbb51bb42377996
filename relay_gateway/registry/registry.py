"""The registry: every installed plugin's classes by name, before any of them is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.metadata import EntryPoint
from typing import Any

from relay_gateway.errors import DuplicatePluginError
from relay_gateway.plugin import (
    CatalogSeed,
    Guard,
    PayloadLogger,
    SecretBackend,
    StateStore,
    UpstreamProvider,
    UsageSink,
)
from relay_gateway.registry.allowlist import AllowList
from relay_gateway.registry.changes import Planned, SectionsOf
from relay_gateway.registry.collect import collect
from relay_gateway.registry.configure import Sections, read_sections
from relay_gateway.registry.discovery import Discovery, discover
from relay_gateway.registry.instances import ContextFactory
from relay_gateway.registry.inventory import PluginInfo
from relay_gateway.registry.kinds import CONFIGURABLE, PluginKind
from relay_gateway.registry.lifecycle import Timing
from relay_gateway.registry.masking import masked
from relay_gateway.registry.plugins import Plugins

Look = Callable[[AllowList], Discovery]


class Registry:
    """What is installed. Made by :meth:`discover`; a plugin that is broken is only a line in
    :meth:`inventory`."""

    def __init__(self, discovery: Discovery, look: Look) -> None:
        self._look = look
        self._collection = collect(discovery.registered)
        self._records = [item.record for item in discovery.registered] + discovery.left_out
        classes = {kind: self._items(kind) for kind in PluginKind}
        self.secret_backends: Mapping[str, type[SecretBackend[Any]]] = classes[
            PluginKind.SECRET_BACKEND
        ]
        self.upstream_providers: Mapping[str, type[UpstreamProvider[Any]]] = classes[
            PluginKind.UPSTREAM_PROVIDER
        ]
        self.usage_sinks: Mapping[str, type[UsageSink[Any]]] = classes[PluginKind.USAGE_SINK]
        self.payload_loggers: Mapping[str, type[PayloadLogger[Any]]] = classes[
            PluginKind.PAYLOAD_LOGGER
        ]
        self.state_stores: Mapping[str, type[StateStore[Any]]] = classes[PluginKind.STATE_STORE]
        self.guards: Mapping[str, type[Guard[Any]]] = classes[PluginKind.GUARD]
        self.seeds: Sequence[CatalogSeed] = tuple(classes[PluginKind.CATALOG_SEED].values())

    @classmethod
    def discover(
        cls,
        *,
        enabled: Sequence[str] | None = None,
        entry_points: Iterable[EntryPoint] | None = None,
        extra: Sequence[object] = (),
    ) -> Registry:
        """Imports and registers what is installed, one plugin at a time; never raises for a plugin.

        ``enabled`` names the distributions or entry points that may be imported, each with an
        optional ``==version``; ``None`` means all. ``entry_points`` takes the place of what is
        installed. ``extra`` are plugin modules or objects that the program brings itself.
        """
        points = None if entry_points is None else tuple(entry_points)
        look = partial(discover, entry_points=points, extra=extra)
        return cls(look(AllowList(enabled)), look)

    @property
    def conflicts(self) -> Sequence[str]:
        """One sentence for each name that is claimed twice; :meth:`configure` then refuses."""
        return tuple(self._collection.conflicts)

    def inventory(self) -> list[PluginInfo]:
        """Everything installed: usable, left alone or quarantined."""
        return [record.info() for record in self._records]

    def configure(
        self, sections: Sections, context_factory: ContextFactory, *, timing: Timing | None = None
    ) -> Plugins:
        """Validates each plugin's section and makes the secret backends and the providers.

        ``sections`` maps tables of ``relay.toml`` to sections: ``{"usage_sinks": {"acme": {…}}}``.
        A plugin without a section is made from its defaults; where a needed key has none, it stays
        unused. ``context_factory`` gets the name of the plugin.

        Raises :class:`DuplicatePluginError`, :class:`PluginConfigError` with every problem of every
        section, or :class:`PluginLoadError` for a configured plugin that cannot be made.
        """
        planned = self.plan(sections)
        timing = timing or Timing()
        return Plugins(planned, context_factory, timing, self._plan_again)

    def plan(self, sections: Sections) -> Planned:
        """Validates each plugin's section and makes nothing: what :meth:`Plugins.change` makes
        effective. Raises as :meth:`configure`."""
        if self.conflicts:
            raise DuplicatePluginError("\n".join(self.conflicts))
        blueprints = read_sections(self._collection, self._records, sections)
        classes: dict[tuple[PluginKind, str], Any] = {
            (kind, name): item for kind in CONFIGURABLE for name, item in self._items(kind).items()
        }
        known = self._collection
        return Planned(self._records, classes, blueprints, known.wire_formats, known.dialects)

    def _plan_again(self, enabled: Sequence[str] | None, sections_of: SectionsOf) -> Planned:
        anew = Registry(self._look(AllowList(enabled)), self._look)
        return anew.plan(sections_of(anew.state_stores))

    def masked(self, sections: Sections) -> dict[str, dict[str, dict[str, Any]]]:
        """The sections as they may be shown: no credential, and nothing that may be one."""
        kinds = {kind.plural: kind for kind in CONFIGURABLE}
        shown: dict[str, dict[str, dict[str, Any]]] = {}
        for table, named in sections.items():
            known = self._items(kinds[table]) if table in kinds else {}
            shown[table] = {
                name: masked(known[name].Config if name in known else None, section)
                for name, section in named.items()
            }
        return shown

    def _items(self, kind: PluginKind) -> dict[str, Any]:
        return {name: item.item for name, item in self._collection.plugins[kind].items()}
