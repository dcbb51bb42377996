"""Collects what was registered by name, with wire formats, and finds names claimed twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from relay_gateway.plugin import Dialect, UpstreamProvider, WireFormat
from relay_gateway.registry.discovery import Registered
from relay_gateway.registry.inventory import Origin, PluginState, Record
from relay_gateway.registry.kinds import PluginKind


class Collection(msgspec.Struct, frozen=True):
    """Everything registered, by kind and name; of a name claimed twice, neither claimant.

    ``conflicts`` has one sentence per such name. Dialects include the default one of the core.
    """

    plugins: dict[PluginKind, dict[str, Registered]]
    wire_formats: dict[str, type[WireFormat]]
    dialects: dict[str, type[Dialect]]
    conflicts: list[str]


class _Claims(msgspec.Struct):
    """Who came first to each name."""

    conflicts: list[str] = msgspec.field(default_factory=list)
    _owners: dict[tuple[str, str], tuple[object, Record]] = msgspec.field(default_factory=dict)

    def claim(self, what: str, name: str, thing: object, record: Record) -> None:
        """Gives ``name`` to ``thing``; somebody else's later claim quarantines both."""
        other, owner = self._owners.setdefault((what, name), (thing, record))
        if other is thing:
            return
        conflict = (
            f"the {what} {name!r} is claimed by {owner.origin} ({_path(other)}) and by "
            f"{record.origin} ({_path(thing)}): uninstall one of them, or list what to load in "
            "[plugins] enabled"
        )
        self.conflicts.append(conflict)
        owner.enter(PluginState.QUARANTINED, conflict)
        record.enter(PluginState.QUARANTINED, conflict)


def collect(registered: Iterable[Registered]) -> Collection:
    """Sorts what hooks returned by kind and name, in the order of discovery."""
    claims = _Claims()
    core = Record("core", None, Origin("core", "relay-gateway", "itself"))
    claims.claim("dialect", Dialect.name, Dialect, core)
    plugins: dict[PluginKind, dict[str, Registered]] = {kind: {} for kind in PluginKind}
    for item in registered:
        claims.claim(item.kind, item.name, item, item.record)
        plugins[item.kind].setdefault(item.name, item)
        _claim_formats(claims, item)
    usable = {kind: dict(_usable(items)) for kind, items in plugins.items()}
    formats = dict(_formats(usable[PluginKind.UPSTREAM_PROVIDER].values()))
    dialects = {wire_format.dialect.name: wire_format.dialect for wire_format in formats.values()}
    return Collection(usable, formats, {Dialect.name: Dialect} | dialects, claims.conflicts)


def _claim_formats(claims: _Claims, item: Registered) -> None:
    for wire_format in _defined(item):
        claims.claim("wire format", wire_format.name, wire_format, item.record)
        claims.claim("dialect", wire_format.dialect.name, wire_format.dialect, item.record)
        for endpoint in wire_format.endpoints:
            path = f"{endpoint.method} {endpoint.path}"
            claims.claim("endpoint", path, wire_format, item.record)


def _usable(items: dict[str, Registered]) -> Iterator[tuple[str, Registered]]:
    for name, item in items.items():
        if item.record.state is not PluginState.QUARANTINED:
            yield name, item


def _formats(providers: Iterable[Registered]) -> Iterator[tuple[str, type[WireFormat]]]:
    for provider in providers:
        for wire_format in _defined(provider):
            yield wire_format.name, wire_format


def _defined(item: Registered) -> tuple[type[WireFormat], ...]:
    if isinstance(item.item, type) and issubclass(item.item, UpstreamProvider):
        return item.item.defines
    return ()


def _path(thing: object) -> str:
    named = thing.item if isinstance(thing, Registered) else thing
    if isinstance(named, type):
        return f"{named.__module__}.{named.__qualname__}"
    return type(named).__name__
