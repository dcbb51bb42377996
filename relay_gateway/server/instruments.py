"""What one process can say about itself: read from its parts at the moment when somebody asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain

import msgspec

from relay_gateway.catalog.kinds import KINDS
from relay_gateway.catalog.live import LiveCatalog
from relay_gateway.delivery.delivery import Delivery
from relay_gateway.inference.plane import InferencePlane
from relay_gateway.limits.limiter import Limiter
from relay_gateway.observe import families
from relay_gateway.observe.loop_lag import LoopLag
from relay_gateway.observe.process import process_series
from relay_gateway.observe.requests import RequestMetrics
from relay_gateway.observe.series import Series, series_of
from relay_gateway.observe.stall_watch import StallWatch
from relay_gateway.pipeline.budget_gate import BudgetGate
from relay_gateway.pipeline.capture import RESULTS, Payloads
from relay_gateway.pipeline.credentials import Credentials
from relay_gateway.pipeline.dispatch import Dispatcher
from relay_gateway.pipeline.keypool import KeyPools
from relay_gateway.registry import PluginKind, Plugins
from relay_gateway.server.delivery_series import delivery_series
from relay_gateway.server.guards import GuardDuty
from relay_gateway.server.stalls import Stalls
from relay_gateway.server.watch import BUILD_FAILED, TIMEOUT, UNAVAILABLE, CatalogWatcher

SOURCES = ("database", "disk")


class Load(msgspec.Struct, frozen=True):
    """What the server of the inference plane has to do right now."""

    connections: int
    handlers: int


@dataclass(slots=True, kw_only=True)
class Instruments:
    """The parts of a gateway, for reading. ``load`` is set where the inference plane listens."""

    requests: RequestMetrics
    live: LiveCatalog
    watcher: CatalogWatcher
    pools: KeyPools
    dispatcher: Dispatcher
    credentials: Credentials
    delivery: Delivery
    payloads: Payloads
    plane: InferencePlane
    limiter: Limiter
    budgets: BudgetGate
    plugins: Plugins
    guards: GuardDuty
    load: Callable[[], Load] | None = None
    lag: LoopLag = field(default_factory=LoopLag)
    stalls: Stalls = field(init=False)
    stall_watch: StallWatch = field(init=False)

    def __post_init__(self) -> None:
        self.stalls = Stalls(self.plugins)
        self.stall_watch = StallWatch(self.lag, self.stalls.found)

    def start(self) -> None:
        """Begins to watch the running loop."""
        self.lag.start()
        self.stall_watch.start()

    def stop(self) -> None:
        """Watches no more."""
        self.stall_watch.stop()
        self.lag.stop()

    def series(self) -> list[Series]:
        """Everything, as it is now; the labels of one family may come more than once."""
        return list(
            chain(
                self.requests.series(),
                self._traffic(),
                self._keys(),
                self._routing(),
                self._limits(),
                self._usage(),
                self._catalog(),
                self._plugins(),
                self.guards.series(),
                self.lag.series(),
                process_series(),
            )
        )

    def _traffic(self) -> Iterator[Series]:
        if self.load is not None:
            load = self.load()
            # Whoever waits for an upstream, or forwards its answer, does so mostly without a task.
            yield series_of(families.IN_FLIGHT, load.handlers + self.plane.without_task)
            yield series_of(families.CONNECTIONS, load.connections)

    def _keys(self) -> Iterator[Series]:
        snapshot = self.live.current
        for key in snapshot.host_keys.values():
            host = snapshot.hosts.get(key.host_id)
            if host is not None:
                benched = int(self.pools.is_benched(key.id))
                yield series_of(families.KEYS_BENCHED, benched, host.slug, key.slug)
        for backend in self.plugins.secret_backends:
            for result in ("ok", "error"):
                count = self.credentials.fetches[backend, result]
                yield series_of(families.SECRET_FETCHES, count, backend, result)

    def _limits(self) -> Iterator[Series]:
        for rule, decision, count in self.limiter.tally:
            yield series_of(families.LIMIT_DECISIONS, count, rule, decision)
        store = self.limiter.store
        yield series_of(families.STATE_STORE_UP, int(not store.is_lost), store.name)
        for scope, count in list(self.budgets.refusals.items()):
            yield series_of(families.BUDGET_REFUSALS, count, scope)
        for (scope, percent), count in list(self.budgets.reached.items()):
            yield series_of(families.BUDGET_MARKS, count, scope, str(percent))

    def _usage(self) -> Iterator[Series]:
        yield from delivery_series(self.delivery)
        for result in RESULTS:
            yield series_of(families.PAYLOADS, self.payloads.counts[result], result)
        yield series_of(families.PAYLOAD_MEMORY, self.payloads.held_bytes)

    def _routing(self) -> Iterator[Series]:
        breakers, budget = self.dispatcher.breakers, self.dispatcher.budget
        for host in self.live.current.hosts.values():
            ejected = int(breakers.describe(host.id).state != "available")
            yield series_of(families.HOSTS_EJECTED, ejected, host.slug)
            yield series_of(families.EJECTIONS, breakers.opened.get(host.id, 0), host.slug)
        yield series_of(families.RETRIES, budget.granted, "made")
        yield series_of(families.RETRIES, budget.denied, "denied")
        affinity = self.dispatcher.affinity
        yield series_of(families.AFFINITY, affinity.hits, "hit")
        yield series_of(families.AFFINITY, affinity.moves, "moved")
        yield series_of(families.AFFINITY, affinity.starts, "new")

    def _catalog(self) -> Iterator[Series]:
        live = self.live
        if live.loaded:
            yield series_of(families.SNAPSHOT_REVISION, live.current.revision)
            yield series_of(families.SNAPSHOT_AGE, live.age)
            yield series_of(families.SNAPSHOT_LAG, self.watcher.lag)
        for reason in (UNAVAILABLE, TIMEOUT, BUILD_FAILED):
            yield series_of(families.SNAPSHOT_FAILURES, self.watcher.failures[reason], reason)
        for source in SOURCES:
            yield series_of(families.CATALOG_SOURCE, int(live.source == source), source)
        yield series_of(families.CATALOG_SOURCE, int(live.source is None), "none")
        yield series_of(families.DATABASE_UP, int(live.error is None and live.loaded))
        yield series_of(families.READY, int(live.serves and not self.plane.draining))
        left_out = Counter(row.kind for row in live.current.quarantined)
        for kind in KINDS:
            yield series_of(families.QUARANTINED, left_out[kind], kind)

    def _plugins(self) -> Iterator[Series]:
        for plugin in self.plugins.inventory():
            kind, name = str(plugin.kind), plugin.name
            yield series_of(families.PLUGIN_FAILURES, plugin.failures, kind, name)
            yield series_of(families.PLUGIN_STATE, 1, kind, name, str(plugin.state))
        asked = self.dispatcher.asked
        for one in self.plugins.figures():
            calls = one.calls
            if one.kind is PluginKind.UPSTREAM_PROVIDER:
                calls = asked[one.name]
            yield series_of(families.PLUGIN_CALLS, calls, one.kind, one.name)
            yield series_of(families.PLUGIN_SECONDS, one.seconds, one.kind, one.name)
        for (kind, name), count in dict(self.stalls.counts).items():
            yield series_of(families.PLUGIN_STALLS, count, kind, name)
