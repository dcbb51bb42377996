"""The kinds of plugin: their hooks, their sections in ``relay.toml``, their base classes."""

from __future__ import annotations

import enum

from relay_gateway.plugin import (
    CatalogSeed,
    Guard,
    PayloadLogger,
    SecretBackend,
    StateStore,
    UpstreamProvider,
    UsageSink,
)

UNKNOWN_KIND = "-"
"""What an inventory shows as the kind of a plugin that did not get as far as having one."""


class PluginKind(enum.StrEnum):
    """A kind of plugin; the value is how people call it."""

    SECRET_BACKEND = "secret backend"  # noqa: S105 - a name of a kind, not a credential
    UPSTREAM_PROVIDER = "upstream provider"
    USAGE_SINK = "usage sink"
    PAYLOAD_LOGGER = "payload logger"
    STATE_STORE = "state store"
    GUARD = "guard"
    CATALOG_SEED = "catalog seed"

    @property
    def plural(self) -> str:
        """Name of its table of sections in ``relay.toml``: ``secret_backends``."""
        return self.value.replace(" ", "_") + "s"

    @property
    def hook(self) -> str:
        """Name of the hook that registers it."""
        return f"relay_register_{self.plural}"

    @property
    def base(self) -> type[object]:
        """What a class (of a seed: an object) of this kind is an instance or a subclass of."""
        return _BASES[self]


_BASES: dict[PluginKind, type[object]] = {
    PluginKind.SECRET_BACKEND: SecretBackend,
    PluginKind.UPSTREAM_PROVIDER: UpstreamProvider,
    PluginKind.USAGE_SINK: UsageSink,
    PluginKind.PAYLOAD_LOGGER: PayloadLogger,
    PluginKind.STATE_STORE: StateStore,
    PluginKind.GUARD: Guard,
    PluginKind.CATALOG_SEED: CatalogSeed,
}

CONFIGURABLE = tuple(kind for kind in PluginKind if kind is not PluginKind.CATALOG_SEED)
"""Kinds whose plugins are classes with a section of their own."""

ALWAYS_MADE = (PluginKind.SECRET_BACKEND, PluginKind.UPSTREAM_PROVIDER)
"""Kinds that the catalog selects from by name, so that every configured plugin has an instance."""
