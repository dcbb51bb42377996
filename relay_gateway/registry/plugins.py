"""Plugins at work: the instances, by kind and name, from opening to closing."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, TypeVar, cast

import msgspec

from relay_gateway.errors import PluginLoadError, PluginUnavailableError, SecretUnavailableError
from relay_gateway.plugin import (
    Dialect,
    Endpoint,
    Guard,
    PayloadLogger,
    PluginContext,
    ResolvedSecret,
    SecretBackend,
    StateStore,
    UpstreamProvider,
    UsageSink,
    WireFormat,
)
from relay_gateway.registry.changes import PlanAgain, Planned, PluginChange, make_effective
from relay_gateway.registry.description import PluginDescription, describe
from relay_gateway.registry.instances import ContextFactory, Instances
from relay_gateway.registry.inventory import PluginFigures, PluginInfo, PluginState, Record
from relay_gateway.registry.kinds import ALWAYS_MADE, PluginKind
from relay_gateway.registry.lifecycle import Timing
from relay_gateway.registry.ownership import owners_of
from relay_gateway.registry.references import resolve_reference

MadeT = TypeVar("MadeT")
logger = logging.getLogger("relay_gateway.registry")


class ServedEndpoint(msgspec.Struct, frozen=True):
    """One path of the inference plane with the wire format that is spoken at it."""

    endpoint: Endpoint
    wire_format: WireFormat


class Plugins:
    """All plugin instances of a process; made by :meth:`Registry.configure`.

    ``secret_backends`` and ``providers`` hold what is installed and configured; what they lack is
    explained by :meth:`unavailable`. ``wire_formats``, ``endpoints`` and ``dialects`` are complete
    from the beginning: they need no opening. All five follow a :meth:`change`. Of the other kinds
    an instance is made when it is first asked for.
    """

    def __init__(
        self,
        planned: Planned,
        context_factory: ContextFactory,
        timing: Timing,
        plan_again: PlanAgain,
    ) -> None:
        self.plan_again = plan_again
        """Looks at what is installed anew, and validates all sections; it takes time, and imports.
        Raises :class:`ConfigurationError`. The plan is for :meth:`change`."""
        self._context_factory = context_factory
        self._instances = Instances(planned.records, planned.blueprints, self._context_of, timing)
        self._classes = planned.classes
        self.wire_formats: dict[str, WireFormat] = {}
        self.endpoints: list[ServedEndpoint] = []
        self.dialects: dict[str, Dialect] = {}
        self._speak(planned)
        self._make_selectable()
        self.secret_backends: dict[str, SecretBackend[Any]] = self._instances.made(
            PluginKind.SECRET_BACKEND
        )
        self.providers: dict[str, UpstreamProvider[Any]] = self._instances.made(
            PluginKind.UPSTREAM_PROVIDER
        )
        self.providers_in_use = dict(self.providers)
        """``providers``, and those that requests may still hold after they were disabled."""
        self._warn_of_undefined_formats()

    def usage_sink(self, name: str) -> UsageSink[Any]:
        """The usage sink of this name; :class:`PluginUnavailableError` says why not."""
        return cast("UsageSink[Any]", self._selected(PluginKind.USAGE_SINK, name))

    def payload_logger(self, name: str) -> PayloadLogger[Any]:
        """The payload logger of this name; :class:`PluginUnavailableError` says why not."""
        return cast("PayloadLogger[Any]", self._selected(PluginKind.PAYLOAD_LOGGER, name))

    def state_store(self, name: str) -> StateStore[Any]:
        """The state store of this name; :class:`PluginUnavailableError` says why not."""
        return cast("StateStore[Any]", self._selected(PluginKind.STATE_STORE, name))

    def guard(self, name: str) -> Guard[Any]:
        """The guard of this name; :class:`PluginUnavailableError` says why not."""
        return cast("Guard[Any]", self._selected(PluginKind.GUARD, name))

    def is_open(self, kind: PluginKind, name: str) -> bool:
        """Whether the plugin has an instance that is open right now."""
        instance = self._instances.get((kind, name))
        return instance is not None and instance.record.state is PluginState.OPEN

    def retire(self, kind: PluginKind, name: str) -> None:
        """Closes a plugin that nobody selects any more, when what began with it has ended."""
        self._instances.take_out((kind, name))

    async def opened(self, kind: PluginKind, name: str) -> str | None:
        """Opens a plugin that is selected by name, where it is not; what kept it from opening.

        Raises :class:`PluginUnavailableError` when there is none to open.
        """
        return await self._instances.select((kind, name)).ready()

    async def release(self, kind: PluginKind, name: str) -> None:
        """Closes a plugin that nobody selects any more; the next selection makes another one."""
        await self._instances.release((kind, name))

    def state_store_for(self, scheme: str) -> StateStore[Any]:
        """The configured state store that has this scheme; :class:`PluginUnavailableError` says
        that there is none."""
        for (kind, name), blueprint in self._instances.blueprints.items():
            plugin: Any = blueprint.plugin
            if kind is PluginKind.STATE_STORE and scheme in plugin.schemes:
                return self.state_store(name)
        raise PluginUnavailableError(f"no state store with the scheme {scheme!r} is installed")

    def unavailable(self, kind: PluginKind, name: str) -> PluginUnavailableError:
        """The error for whoever needs a plugin that is not there: what is installed instead, or why
        the plugin was quarantined or not configured."""
        return self._instances.unavailable((kind, name))

    def inventory(self) -> list[PluginInfo]:
        """Everything installed, with its present state and what it ran into."""
        return [record.info() for record in self._instances.records]

    def figures(self) -> list[PluginFigures]:
        """What each plugin that has a kind was asked for so far."""
        figures = (record.figures() for record in self._instances.records)
        return [one for one in figures if one is not None]

    def described(self) -> list[PluginDescription]:
        """The same with the model of each one's section, and the section as it may be shown."""
        return [self._describe(record) for record in self._instances.records]

    def report(self, kind: PluginKind | str, name: str, error: BaseException) -> None:
        """Counts a failure that a request (or a batch) ran into; never raises.

        The caller has dealt with it already. The 1st, 2nd, 4th, 8th, … failure is logged, so that
        a plugin which fails on every request does not fill the log.
        """
        self._instances.report(kind, name, error)

    def owners_of(self, module: str) -> list[tuple[PluginKind, str]]:
        """The plugins that a module belongs to: those whose class is in it or in its package."""
        return owners_of(module, self._classes.items())

    async def change(self, planned: Planned) -> list[PluginChange]:
        """Makes a plan effective: new instances are opened before the old ones are closed, and what
        began with an old one ends with it. What does not open is not changed.

        ``secret_backends`` and ``providers`` are other instances afterwards; who holds one of
        another kind asks for it again. A wire format that was known before stays the same object.
        """
        changes = await make_effective(planned, self._instances)
        self._classes = planned.classes
        self._speak(planned)
        self._take_over(self.secret_backends, PluginKind.SECRET_BACKEND)
        self._take_over(self.providers, PluginKind.UPSTREAM_PROVIDER)
        self.providers_in_use.update(self.providers)
        self._warn_of_undefined_formats()
        return changes

    async def aopen(self) -> None:
        """Opens all instances at the same time, each within its deadline.

        One that fails is opened again in the background, with growing pauses, unless its section
        has ``required = true``: then everything is closed, and :class:`PluginLoadError` names it.
        """
        await self._instances.aopen()

    async def aclose(self) -> None:
        """Closes all instances, the last made first. Failures are logged and stop nothing."""
        await self._instances.aclose()

    def _speak(self, planned: Planned) -> None:
        """Brings wire formats, their endpoints and their dialects up to date."""
        _follow(self.wire_formats, planned.wire_formats)
        _follow(self.dialects, planned.dialects)
        self.endpoints[:] = (
            ServedEndpoint(endpoint, wire_format)
            for wire_format in self.wire_formats.values()
            for endpoint in wire_format.endpoints
        )

    def _describe(self, record: Record) -> PluginDescription:
        if record.kind is None:
            return describe(record, None, None)
        key = record.kind, record.name
        return describe(record, self._classes.get(key), self._instances.blueprints.get(key))

    def _make_selectable(self) -> None:
        for key, blueprint in self._instances.blueprints.items():
            if key[0] not in ALWAYS_MADE:
                continue
            try:
                self._instances.add(key, blueprint)
            except PluginUnavailableError as error:
                # What relay.toml has a section for is used; the rest may be missing.
                if blueprint.written:
                    raise PluginLoadError(str(error)) from error

    def _take_over(self, held: dict[str, Any], kind: PluginKind) -> None:
        """Brings a mapping that many hold up to date."""
        made = self._instances.made(kind)
        for name in held.keys() - made.keys():
            del held[name]
        held.update(made)

    def _context_of(self, name: str) -> PluginContext:
        context = self._context_factory(name)
        # Not the backends themselves: some are made later than this plugin.
        context.resolve_secret = lambda reference: self._resolve(reference, name)
        return context

    async def _resolve(self, reference: Mapping[str, Any], plugin: str) -> ResolvedSecret:
        try:
            return await resolve_reference(self.secret_backends, reference, plugin)
        except SecretUnavailableError as error:
            self.report(PluginKind.SECRET_BACKEND, str(reference.get("kind")), error)
            raise

    def _warn_of_undefined_formats(self) -> None:
        for name, provider in self.providers.items():
            for wire_format in provider.wire_formats:
                if wire_format not in self.wire_formats:
                    logger.warning(
                        "provider %s speaks %s, which no installed plugin defines: it cannot be "
                        "asked in that format",
                        name,
                        wire_format,
                    )

    def _selected(self, kind: PluginKind, name: str) -> object:
        return self._instances.select((kind, name)).plugin


def _follow(held: dict[str, MadeT], classes: Mapping[str, type[MadeT]]) -> None:
    """Has a mapping hold one instance of each class, of which those that it has already stay."""
    made: dict[str, MadeT] = {}
    for name, wanted in classes.items():
        former = held.get(name)
        made[name] = former if former is not None and type(former) is wanted else wanted()
    held.clear()
    held.update(made)
