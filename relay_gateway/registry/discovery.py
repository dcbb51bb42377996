"""Discovery: imports and registers one plugin at a time, and quarantines the one that fails."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import EntryPoint

import msgspec
import pluggy

from relay_gateway.errors import PluginLoadError
from relay_gateway.plugin import hookspecs
from relay_gateway.registry.allowlist import AllowList
from relay_gateway.registry.inventory import Origin, PluginState, Record
from relay_gateway.registry.kinds import PluginKind
from relay_gateway.registry.source import UNKNOWN, distribution_of, in_order, installed, origin
from relay_gateway.registry.vetting import vet_answer, vet_attributes, vet_item

logger = logging.getLogger("relay_gateway.registry")


class Registered(msgspec.Struct, frozen=True):
    """What a hook returned, a class or a catalog seed, with its line in the inventory."""

    kind: PluginKind
    name: str
    item: object
    record: Record


class Discovery(msgspec.Struct):
    """Result of looking at everything that is installed.

    ``left_out`` has the lines of what did not get as far as :class:`Registered`.
    """

    registered: list[Registered] = msgspec.field(default_factory=list)
    left_out: list[Record] = msgspec.field(default_factory=list)


def discover(
    allowed: AllowList, entry_points: Iterable[EntryPoint] | None, extra: Sequence[object]
) -> Discovery:
    """Looks at every plugin, each by itself: nothing that one does keeps another one out."""
    manager = pluggy.PluginManager(hookspecs.PROJECT_NAME)
    manager.add_hookspecs(hookspecs)
    discovery = Discovery()
    for found in installed() if entry_points is None else in_order(entry_points):
        source = origin(found)
        refusal = allowed.refusal(source, distribution_of(found))
        if refusal:
            _leave_out(discovery, source, PluginState.DISCOVERED, refusal)
        else:
            _admit(manager, discovery, source, found.load)
    for plugin in extra:
        name = str(getattr(plugin, "__name__", type(plugin).__name__))
        _admit(manager, discovery, Origin(name, UNKNOWN, UNKNOWN), _loader_of(plugin))
    for name in allowed.unmatched():
        reason = "[plugins] enabled names it, but it is not installed"
        source = Origin(name, UNKNOWN, UNKNOWN)
        _leave_out(discovery, source, PluginState.QUARANTINED, reason)
    return discovery


def _loader_of(plugin: object) -> Callable[[], object]:
    return lambda: plugin


def _admit(
    manager: pluggy.PluginManager, discovery: Discovery, source: Origin, load: Callable[[], object]
) -> None:
    try:
        registered = _register(manager, source, load)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - nor may sys.exit() in a module end us
        _leave_out(discovery, source, PluginState.QUARANTINED, error)
        return
    discovery.registered += registered
    names = ", ".join(f"{item.kind} {item.name}" for item in registered)
    logger.info("loaded plugin %s of %s: %s", source.entry_point, source, names)


def _leave_out(
    discovery: Discovery, source: Origin, state: PluginState, reason: BaseException | str
) -> None:
    record = Record(source.entry_point, None, source)
    record.enter(state, reason)
    discovery.left_out.append(record)
    level = logging.INFO if state is PluginState.DISCOVERED else logging.ERROR
    logger.log(level, "plugin %s of %s: %s", record.name, source, record.error)


def _register(
    manager: pluggy.PluginManager, source: Origin, load: Callable[[], object]
) -> list[Registered]:
    plugin = load()
    vet_attributes(plugin)
    # Entry points of two distributions may have the same name; the manager's names must differ.
    key = f"{source} {source.entry_point} {len(manager.list_name_plugin())}"
    try:
        manager.register(plugin, key)
        manager.check_pending()
        registered = list(_collect(manager, key, source))
        if not registered:
            raise PluginLoadError(f"{plugin!r} implements no hook, or its hooks return nothing")
    except BaseException:
        manager.unregister(name=key)
        raise
    return registered


def _collect(manager: pluggy.PluginManager, key: str, source: Origin) -> Iterator[Registered]:
    for kind in PluginKind:
        hook = getattr(manager.hook, kind.hook)
        for hookimpl in hook.get_hookimpls():
            if hookimpl.plugin_name != key:
                continue
            if hook.spec.warn_on_impl is not None:
                # Python shows a DeprecationWarning to nobody but the tests of the plugin.
                advice = hook.spec.warn_on_impl
                logger.warning("plugin %s of %s: %s", source.entry_point, source, advice)
            if hookimpl.wrapper or hookimpl.hookwrapper:
                raise PluginLoadError(f"{kind.hook} is a wrapper; a plugin only speaks for itself")
            for item in vet_answer(kind, hookimpl.function()):
                name = vet_item(kind, item)
                yield Registered(kind, name, item, Record(name, kind, source))
