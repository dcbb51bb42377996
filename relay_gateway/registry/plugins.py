"""Plugins at work: the instances, by kind and name, from opening to closing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from relay_gateway.errors import PluginLoadError, PluginUnavailableError
from relay_gateway.plugin import (
    Dialect,
    Endpoint,
    PayloadLogger,
    PluginContext,
    SecretBackend,
    StateStore,
    UpstreamProvider,
    UsageSink,
    WireFormat,
)
from relay_gateway.registry.availability import explain_absence
from relay_gateway.registry.collect import Collection
from relay_gateway.registry.configure import Blueprint, Blueprints
from relay_gateway.registry.inventory import PluginInfo, PluginState, Record
from relay_gateway.registry.kinds import ALWAYS_MADE, PluginKind
from relay_gateway.registry.lifecycle import Instance, Timing
from relay_gateway.registry.masking import secrets_of

ContextFactory = Callable[[str], PluginContext]
logger = logging.getLogger("relay_gateway.registry")


@dataclass(frozen=True, slots=True)
class ServedEndpoint:
    """One path of the inference plane with the wire format that is spoken at it."""

    endpoint: Endpoint
    wire_format: WireFormat


class Plugins:
    """All plugin instances of a process; made by :meth:`Registry.configure`.

    ``secret_backends`` and ``providers`` hold what is installed and configured; what they lack is
    explained by :meth:`unavailable`. ``wire_formats``, ``endpoints`` and ``dialects`` are complete
    from the beginning: they need no opening. Of the other kinds an instance is made when it is
    first asked for.
    """

    def __init__(
        self,
        collection: Collection,
        records: Sequence[Record],
        blueprints: Blueprints,
        context_factory: ContextFactory,
        timing: Timing,
    ) -> None:
        self._records = records
        self._blueprints = blueprints
        self._context_factory = context_factory
        self._timing = timing
        self._instances: dict[tuple[PluginKind, str], Instance] = {}
        self._opened = False
        self._closed = False
        self.wire_formats: Mapping[str, WireFormat] = {
            name: wire_format() for name, wire_format in collection.wire_formats.items()
        }
        self.endpoints: Sequence[ServedEndpoint] = tuple(
            ServedEndpoint(endpoint, wire_format)
            for wire_format in self.wire_formats.values()
            for endpoint in wire_format.endpoints
        )
        self.dialects: Mapping[str, Dialect] = {
            name: dialect() for name, dialect in collection.dialects.items()
        }
        self._make_selectable()
        self.secret_backends: Mapping[str, SecretBackend[Any]] = self._made(
            PluginKind.SECRET_BACKEND
        )
        self.providers: Mapping[str, UpstreamProvider[Any]] = self._made(
            PluginKind.UPSTREAM_PROVIDER
        )
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

    def unavailable(self, kind: PluginKind, name: str) -> PluginUnavailableError:
        """The error for whoever needs a plugin that is not there: what is installed instead, or why
        the plugin was quarantined or not configured."""
        return PluginUnavailableError(explain_absence(kind, name, self._records))

    def inventory(self) -> list[PluginInfo]:
        """Everything installed, with its present state and what it ran into."""
        return [record.info() for record in self._records]

    def report(self, kind: PluginKind | str, name: str, error: BaseException) -> None:
        """Counts a failure that a request (or a batch) ran into; never raises.

        The caller has dealt with it already. The 1st, 2nd, 4th, 8th, … failure is logged, so that
        a plugin which fails on every request does not fill the log.
        """
        for record in self._records:
            if (record.kind, record.name) == (kind, name):
                record.fail(error)
                if record.failures.bit_count() == 1:
                    logger.warning(
                        "%s failed (%d times so far): %s", record, record.failures, record.error
                    )

    async def aopen(self) -> None:
        """Opens all instances at the same time, each within its deadline.

        One that fails is opened again in the background, with growing pauses, unless its section
        has ``required = true``: then everything is closed, and :class:`PluginLoadError` names it.
        """
        self._opened = True
        instances = list(self._instances.values())
        results = await asyncio.gather(
            *(instance.open() for instance in instances), return_exceptions=True
        )
        errors = [result for result in results if isinstance(result, BaseException)]
        if errors:
            await self.aclose()
            raise PluginLoadError("; ".join(str(error) for error in errors)) from errors[0]

    async def aclose(self) -> None:
        """Closes all instances, the last made first. Failures are logged and stop nothing."""
        self._closed = True
        for instance in reversed(list(self._instances.values())):
            await instance.close()

    def _make_selectable(self) -> None:
        for (kind, name), blueprint in self._blueprints.items():
            if kind not in ALWAYS_MADE:
                continue
            try:
                self._make(kind, name, blueprint)
            except PluginUnavailableError as error:
                # What relay.toml has a section for is used; the rest may be missing.
                if blueprint.written:
                    raise PluginLoadError(str(error)) from error

    def _make(self, kind: PluginKind, name: str, blueprint: Blueprint) -> Instance:
        record = blueprint.record
        try:
            context = self._context_factory(name)
            record.hide(secrets_of(context))
            plugin = blueprint.plugin(blueprint.config, context)
        except Exception as error:
            record.enter(PluginState.QUARANTINED, error)
            logger.error("%s cannot be made: %s", record, record.error)  # noqa: TRY400 - masked
            raise self.unavailable(kind, name) from error
        record.enter(PluginState.CONFIGURED)
        instance = Instance(plugin, record, required=blueprint.required, timing=self._timing)
        self._instances[kind, name] = instance
        return instance

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
        instance = self._instances.get((kind, name))
        if instance is None:
            blueprint = self._blueprints.get((kind, name))
            if blueprint is None:
                raise self.unavailable(kind, name)
            if self._closed:
                raise PluginUnavailableError(f"{blueprint.record}: the gateway is stopping")
            instance = self._make(kind, name, blueprint)
            if self._opened:
                instance.open_soon()
        return instance.plugin

    def _made(self, kind: PluginKind) -> dict[str, Any]:
        return {
            name: instance.plugin
            for (of_kind, name), instance in self._instances.items()
            if of_kind is kind
        }
