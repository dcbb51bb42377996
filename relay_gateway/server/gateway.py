"""A gateway that is built: its parts, and what is asked of all of them together."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway import __version__
from relay_gateway.catalog.live import LiveCatalog
from relay_gateway.control.master_key import MasterKeys
from relay_gateway.control.services import ControlServices, Readiness
from relay_gateway.delivery.budget_ledger import BudgetLedger
from relay_gateway.delivery.last_uses import LastUses
from relay_gateway.http.client import HttpClient
from relay_gateway.inference.plane import InferencePlane
from relay_gateway.limits.limiter import Limiter
from relay_gateway.observe.requests import RequestMetrics
from relay_gateway.observe.series import Series
from relay_gateway.pipeline.budget_gate import BudgetGate
from relay_gateway.pipeline.capture import Payloads
from relay_gateway.pipeline.credentials import Credentials
from relay_gateway.pipeline.dispatch import Dispatcher
from relay_gateway.pipeline.explain import Explainer
from relay_gateway.pipeline.key_health import KeyHealth
from relay_gateway.pipeline.keypool import KeyPools
from relay_gateway.pipeline.probe import HostProber
from relay_gateway.pipeline.proxy_logins import ProxyLogins
from relay_gateway.pipeline.translate import Translator
from relay_gateway.registry import ALWAYS_MADE, PluginChange, PluginKind, Plugins
from relay_gateway.security.access import login_users
from relay_gateway.server.access import access_rules
from relay_gateway.server.audit_upkeep import checkpoint_signer
from relay_gateway.server.gathering import ALONE, Gathering
from relay_gateway.server.guards import GuardDuty
from relay_gateway.server.heartbeat import Heartbeat, Member
from relay_gateway.server.instruments import Instruments
from relay_gateway.server.key_watch import MasterKeyWatch
from relay_gateway.server.plugin_reload import PluginReload, reader
from relay_gateway.server.plugin_reloads import PluginReloads
from relay_gateway.server.process_states import ProcessStates
from relay_gateway.server.questions import State
from relay_gateway.server.record_sinks import RecordSinks
from relay_gateway.server.sockets import local_url
from relay_gateway.server.watch import CatalogWatcher
from relay_gateway.settings import Settings
from relay_gateway.storage import (
    AuditLog,
    CatalogStore,
    InstanceStore,
    LoginFailures,
    MasterKeyStore,
    RelayKeyUses,
    SessionStore,
    SettingsStore,
    SpendingStore,
)

if TYPE_CHECKING:
    from relay_gateway.storage.notify import CatalogListener


@dataclass(slots=True)
class Gateway:
    """A gateway that is built, open and not listening yet."""

    settings: Settings
    plugins: Plugins
    engine: AsyncEngine
    store: CatalogStore
    live: LiveCatalog
    watcher: CatalogWatcher
    pools: KeyPools
    credentials: Credentials
    health: KeyHealth
    dispatcher: Dispatcher
    translator: Translator
    logins: ProxyLogins
    client: HttpClient
    sinks: RecordSinks
    payloads: Payloads
    last_uses: LastUses
    ledger: BudgetLedger
    plane: InferencePlane
    limiter: Limiter
    budgets: BudgetGate
    requests: RequestMetrics
    environ: Mapping[str, str]
    member: Member
    listener: CatalogListener | None = None
    guards: GuardDuty = field(init=False)
    instruments: Instruments = field(init=False)
    plugin_reload: PluginReload = field(init=False)
    _reloading: set[asyncio.Task[None]] = field(init=False)
    reloads: PluginReloads = field(init=False)
    gathering: Gathering = field(init=False)
    states: ProcessStates = field(init=False)
    key_watch: MasterKeyWatch = field(init=False)
    heartbeat: Heartbeat = field(init=False)

    def __post_init__(self) -> None:
        self.guards = GuardDuty(self.plugins, self.translator, self.plane)
        self.instruments = Instruments(
            requests=self.requests,
            live=self.live,
            watcher=self.watcher,
            pools=self.pools,
            dispatcher=self.dispatcher,
            credentials=self.credentials,
            delivery=self.sinks.delivery,
            payloads=self.payloads,
            plane=self.plane,
            plugins=self.plugins,
            limiter=self.limiter,
            budgets=self.budgets,
            guards=self.guards,
        )
        self.dispatcher.breakers.stalled = self.instruments.lag.stood_still
        self.plugin_reload = PluginReload(
            self.settings, self.plugins, reader(self.environ), self._take_changes
        )
        self.reloads = PluginReloads(self.plugin_reload)
        self._reloading = set()
        self.gathering = Gathering(ALONE, self.instruments.series)
        self.states = ProcessStates(self)
        self.key_watch = MasterKeyWatch(
            MasterKeys(MasterKeyStore(self.engine), self.plugins.secret_backends)
        )
        self.heartbeat = Heartbeat(
            InstanceStore(self.engine), self.member, self.settings.port, self.live, self.readiness
        )

    def control_services(self) -> ControlServices:
        """What the control plane works with."""
        services = ControlServices(
            store=self.store,
            sessions=SessionStore(self.engine),
            settings=SettingsStore(self.engine),
            audit=AuditLog(self.engine),
            relay_key_uses=RelayKeyUses(self.engine),
            login_failures=LoginFailures(self.engine),
            master_keys=MasterKeyStore(self.engine),
            spending=SpendingStore(self.engine),
            instances=InstanceStore(self.engine),
            gateway_id=self.member.gateway_id,
            secret_backends=self.plugins.secret_backends,
            providers=self.plugins.providers,
            usage_reader=None,
            payload_loggers=self.sinks.payload_loggers,
            refusal_of_sink=self.sinks.refusal_of_sink,
            refusal_of_logger=self.sinks.refusal_of_logger,
            plugins=self.plugins.described,
            reload_plugins=self.reloads.everywhere,
            refresh=self.watcher.refresh,
            reload=self.watcher.reload,
            readiness=self.readiness,
            host_key_statuses=self.states.host_keys,
            reset_host_key=self.states.reset_host_key,
            host_statuses=self.states.hosts,
            reset_host=self.states.reset_host,
            admin_token=self.settings.admin_token,
            version=__version__,
            users=login_users(self.settings),
            access=access_rules(self.settings),
            usage_sinks=self.settings.usage_logging.sinks,
            metrics=self.gathering.collect,
            live=self.live,
            endpoints=self.plugins.endpoints,
            explainer=Explainer(
                self.pools,
                self.credentials,
                speak=self.translator.speech_for,
                breakers=self.dispatcher.breakers,
                admission=self.dispatcher.admission,
            ),
            inference_url=local_url(self.settings.host, self.settings.port),
            is_signed=checkpoint_signer(self.settings.master_key).accepts,
            prober=HostProber(self.plugins.providers_in_use, self.client, self.credentials),
        )
        self.sinks.keep_current(services)
        return services

    def readiness(self) -> Readiness:
        """Whether traffic should be sent here, and which parts do not work."""
        degraded = {"catalog": self._catalog_trouble()} if self.live.error else {}
        if self.listener is not None and self.listener.trouble:
            degraded["notifications"] = f"changes are polled for: {self.listener.trouble}"
        for backend, trouble in self.key_watch.troubles.items():
            degraded[f"master key of {backend}"] = trouble
        degraded.update(self.sinks.delivery.troubles())
        if self.ledger.trouble:
            degraded["budgets"] = f"what others spend is not known: {self.ledger.trouble}"
        revision = self.live.current.revision if self.live.loaded else None
        return Readiness(self.live.serves, self.plane.draining, revision, degraded)

    def _catalog_trouble(self) -> str:
        if not self.live.loaded:
            return f"source=none: {self.live.error}"
        return f"source={self.live.source}, age={self.live.age:.0f} s: {self.live.error}"

    def reload_soon(self) -> None:
        """Has the sections of plugins read again, in the background."""
        task = asyncio.get_running_loop().create_task(self.plugin_reload.hear_signal())
        self._reloading.add(task)
        task.add_done_callback(self._reloading.discard)

    async def stop_reloading(self) -> None:
        """Breaks off what :meth:`reload_soon` has begun."""
        for task in self._reloading:
            task.cancel()
        await asyncio.gather(*self._reloading, return_exceptions=True)

    async def _take_changes(self, changes: Sequence[PluginChange]) -> None:
        """Has those use a changed plugin who hold the one before."""
        self.sinks.renew()
        for change in changes:
            if change.kind is PluginKind.STATE_STORE and change.name == self.limiter.store.name:
                self.limiter.store.replace(self.plugins.state_store(change.name))
        if any(change.kind is PluginKind.UPSTREAM_PROVIDER for change in changes):
            self.translator.providers_changed()
            self.dispatcher.providers_changed()
            dialects = tuple(self.plugins.dialects.values())
            self.plane.providers_changed(self.plugins.endpoints, dialects)
        order = self.plugin_reload.settings.guarding.order
        if order != self.guards.order or any(one.kind is PluginKind.GUARD for one in changes):
            await self.guards.change(order)
        if any(change.kind in ALWAYS_MADE for change in changes):
            await self.watcher.plugins_changed()

    def series(self) -> list[Series]:
        """Everything that this process has counted."""
        return self.instruments.series()

    def host_key_state(self, key_id: str) -> State:
        """The state of one host key in this process."""
        key = self.live.current.host_keys.get(key_id)
        return {
            **self.pools.describe(key_id),
            **self.credentials.describe(key_id),
            "host": self.host_state(key.host_id if key is not None else ""),
        }

    def reset_host_key(self, key_id: str) -> None:
        """Puts a benched host key, and its host, back to use in this process."""
        self.health.reset(key_id)
        key = self.live.current.host_keys.get(key_id)
        if key is not None:
            self.reset_host(key.host_id)

    def host_state(self, host_id: str) -> State:
        """The state of one host in this process."""
        host = self.dispatcher.breakers.describe(host_id)
        return {
            "state": host.state,
            "reason": host.reason,
            "secondsLeft": host.seconds_left,
            "ejections": host.ejections,
        }

    def reset_host(self, host_id: str) -> None:
        """Has a host asked again by this process, as if it had never failed."""
        self.dispatcher.breakers.reset(host_id)
