"""Instances of plugins by kind and name: made when they are needed, replaced, closed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from relay_gateway.errors import FAULTS, PluginLoadError, PluginUnavailableError
from relay_gateway.plugin import PluginContext
from relay_gateway.registry.availability import explain_absence
from relay_gateway.registry.calls import Calls
from relay_gateway.registry.configure import Blueprint, Blueprints
from relay_gateway.registry.inventory import PluginState, Record
from relay_gateway.registry.kinds import PluginKind
from relay_gateway.registry.lifecycle import Instance, Timing
from relay_gateway.registry.masking import secrets_of

ContextFactory = Callable[[str], PluginContext]
Key = tuple[PluginKind, str]
logger = logging.getLogger("relay_gateway.registry")


class Instances:
    """All instances of a process. ``context_of`` gives the context of a plugin by its name."""

    def __init__(
        self,
        records: Sequence[Record],
        blueprints: Blueprints,
        context_of: ContextFactory,
        timing: Timing,
    ) -> None:
        self.records = list(records)
        self.blueprints = dict(blueprints)
        self._context_of = context_of
        self._timing = timing
        self._instances: dict[Key, Instance] = {}
        self._finishing: dict[asyncio.Task[None], Instance] = {}
        self._opened = False
        self._closed = False

    def __iter__(self) -> Iterator[tuple[Key, Instance]]:
        yield from self._instances.items()

    def get(self, key: Key) -> Instance | None:
        """The instance, where one was made."""
        return self._instances.get(key)

    def make(self, key: Key, blueprint: Blueprint, record: Record) -> Instance:
        """A new instance, which nobody is given yet. Raises :class:`PluginUnavailableError`."""
        kind, name = key
        try:
            context = self._context_of(name)
            record.hide(secrets_of(context))
            plugin = blueprint.plugin(blueprint.config, context)
            calls = Calls(kind, name, record.counts, lambda error: fail(record, error))
            calls.guard(plugin)
        except FAULTS as error:
            record.enter(PluginState.QUARANTINED, error)
            logger.error("%s cannot be made: %s", record, record.error)  # noqa: TRY400 - masked
            raise PluginUnavailableError(f"{record} is {record.state}: {record.error}") from error
        record.enter(PluginState.CONFIGURED)
        return Instance(
            plugin, record, required=blueprint.required, timing=self._timing, calls=calls
        )

    def add(self, key: Key, blueprint: Blueprint) -> Instance:
        """Makes an instance and has it be the one of its key."""
        instance = self._instances[key] = self.make(key, blueprint, blueprint.record)
        return instance

    def select(self, key: Key) -> Instance:
        """The instance, made and opened in the background where there is none.

        Raises :class:`PluginUnavailableError`.
        """
        instance = self._instances.get(key)
        if instance is not None:
            return instance
        blueprint = self.blueprints.get(key)
        if blueprint is None:
            raise self.unavailable(key)
        if self._closed:
            raise PluginUnavailableError(f"{blueprint.record}: the gateway is stopping")
        instance = self.add(key, blueprint)
        if self._opened:
            instance.open_soon()
        return instance

    def put(self, key: Key, instance: Instance) -> None:
        """Has ``instance``, which is open, take the place of the one before."""
        former = self._instances.get(key)
        self._instances[key] = instance
        if former is not None:
            self._finish(key, former)

    def take_out(self, key: Key) -> None:
        """Gives the instance to nobody any more."""
        former = self._instances.pop(key, None)
        if former is not None:
            self._finish(key, former)

    async def release(self, key: Key) -> None:
        """Closes an instance that nobody selects any more; the next selection makes another."""
        instance = self._instances.pop(key, None)
        if instance is not None:
            await instance.close()

    def unavailable(self, key: Key) -> PluginUnavailableError:
        """The error for whoever needs a plugin that is not there."""
        return PluginUnavailableError(explain_absence(*key, self.records))

    def made(self, kind: PluginKind) -> dict[str, Any]:
        """The plugins of a kind, by name."""
        return {
            name: instance.plugin
            for (of_kind, name), instance in self._instances.items()
            if of_kind is kind
        }

    def report(self, kind: PluginKind | str, name: str, error: BaseException) -> None:
        """Counts a failure; see :meth:`Plugins.report`."""
        for record in self.records:
            if (record.kind, record.name) == (kind, name):
                fail(record, error)

    async def aopen(self) -> None:
        """Opens all at the same time; see :meth:`Plugins.aopen`."""
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
        """Closes all, the last made first, and before them those that were replaced."""
        self._closed = True
        finishing = list(self._finishing.items())
        for task, _ in finishing:
            task.cancel()
        await asyncio.gather(*(task for task, _ in finishing), return_exceptions=True)
        for _, instance in finishing:
            await instance.close()
        for instance in reversed(list(self._instances.values())):
            await instance.close()

    def _finish(self, key: Key, former: Instance) -> None:
        # Calls of a provider do not wait for anything, nor do those of a guard for a stream, so
        # nothing shows who still uses it.
        unseen = key[0] in (PluginKind.UPSTREAM_PROVIDER, PluginKind.GUARD)
        seconds = self._timing.finishing if unseen else 0.0
        task = asyncio.get_running_loop().create_task(former.finish(at_least=seconds))
        self._finishing[task] = former
        task.add_done_callback(lambda done: self._finishing.pop(done, None))


def fail(record: Record, error: BaseException) -> None:
    """Counts a failure, and logs the 1st, 2nd, 4th, 8th, …: a plugin that fails on every request
    must not fill the log."""
    record.fail(error)
    if record.failures.bit_count() == 1:
        logger.warning("%s failed (%d times so far): %s", record, record.failures, record.error)
