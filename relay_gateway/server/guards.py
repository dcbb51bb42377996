"""Which guards are on duty: as ``[guarding] order`` says, from the start and after each reload."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from relay_gateway.errors import ConfigurationError
from relay_gateway.inference.plane import InferencePlane
from relay_gateway.inference.proxy_mode import OTHER
from relay_gateway.observe import families
from relay_gateway.observe.series import Series, series_of
from relay_gateway.pipeline.guarding import Guarding, GuardLedger, Post
from relay_gateway.pipeline.translate import Translator
from relay_gateway.plugin import GuardConfig, PluginConfig, WireFormat
from relay_gateway.registry import Change, Planned, PluginChange, PluginKind, Plugins
from relay_gateway.registry.availability import explain_absence

KIND = PluginKind.GUARD


class GuardDuty:
    """Puts guards up before ``plane``, and takes them down."""

    def __init__(self, plugins: Plugins, translator: Translator, plane: InferencePlane) -> None:
        self._plugins = plugins
        self._translator = translator
        self._plane = plane
        self.order: tuple[str, ...] = ()
        """Those on duty."""
        self.ledger = GuardLedger(partial(plugins.report, KIND))

    def begin(self, order: Sequence[str]) -> None:
        """Puts up guards whose instances are open already, or will be."""
        self.order = tuple(order)
        posts = [
            Post(self._plugins.guard(name), partial(self._plugins.is_open, KIND, name))
            for name in order
        ]
        guarding = Guarding(posts, self._translator, self.ledger) if posts else None
        self._plane.guard(guarding)

    async def change(self, order: Sequence[str]) -> None:
        """Puts up others, or other instances of the same, each opened before. Those that are no
        longer on duty close when what they look at has ended."""
        for name in order:
            await self._plugins.opened(KIND, name)
        gone = [name for name in self.order if name not in order]
        self.begin(order)
        for name in gone:
            self._plugins.retire(KIND, name)

    def series(self) -> Iterator[Series]:
        """What guards have done so far."""
        for (guard, phase, did, dry_run), count in list(self.ledger.decisions.items()):
            dry = "true" if dry_run else "false"
            yield series_of(families.GUARD_DECISIONS, count, guard, phase, did, dry)


def select_guards(order: Sequence[str], plugins: Plugins) -> None:
    """Makes those that are to be on duty, before plugins are opened.

    Raises :class:`PluginUnavailableError`, and :class:`ConfigurationError` for one that is to guard
    endpoints that there are not.
    """
    known = _names(plugins.wire_formats.values())
    for name in order:
        _check_scope(name, plugins.guard(name).config, known)


def check_order(order: Sequence[str], planned: Planned) -> None:
    """The same of what is planned. Raises :class:`ConfigurationError`."""
    known = _names(planned.wire_formats.values())
    for name in order:
        blueprint = planned.blueprints.get((KIND, name))
        if blueprint is None:
            raise ConfigurationError(
                f"relay.toml: [guarding] order: {explain_absence(KIND, name, planned.records)}"
            )
        _check_scope(name, blueprint.config, known)


def with_order(
    changes: Sequence[PluginChange], former: Sequence[str], order: Sequence[str]
) -> list[PluginChange]:
    """``changes``, and the guards that come on duty or go off, which is all that is said of one
    unless something is wrong with it."""
    moved = [PluginChange(KIND, name, Change.ENABLED) for name in order if name not in former]
    moved += [PluginChange(KIND, name, Change.DISABLED) for name in former if name not in order]
    names = {change.name for change in moved}
    others = [one for one in changes if one.error or one.kind is not KIND or one.name not in names]
    return others + moved


def _names(wire_formats: Iterable[WireFormat | type[WireFormat]]) -> set[str]:
    return {OTHER} | {endpoint.name for one in wire_formats for endpoint in one.endpoints}


def _check_scope(name: str, config: PluginConfig, known: set[str]) -> None:
    endpoints = config.endpoints if isinstance(config, GuardConfig) else ()
    strange = sorted(set(endpoints) - known)
    if strange:
        raise ConfigurationError(
            f"relay.toml: [guards.{name}] endpoints: there is no {', '.join(strange)}; there "
            f"are: {', '.join(sorted(known))}"
        )
