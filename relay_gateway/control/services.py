"""What the control plane needs from the rest of the process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from relay_gateway.catalog.live import LiveCatalog
from relay_gateway.http.addresses import AddressReader
from relay_gateway.observe.series import Series
from relay_gateway.pipeline.explain import Explainer
from relay_gateway.pipeline.probe import HostProber
from relay_gateway.plugin import (
    Clock,
    PayloadLogger,
    SecretBackend,
    SystemClock,
    UpstreamProvider,
    UsageReader,
)
from relay_gateway.registry.plugins import ServedEndpoint
from relay_gateway.secret import Secret
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


class ReloadReport(msgspec.Struct, frozen=True):
    """A rebuilt snapshot: its revision, how many entities it was built from, how long it took."""

    revision: int
    entities: int
    duration_ms: float


class Readiness(msgspec.Struct, frozen=True):
    """Whether the instance can serve. ``degraded`` maps parts that do not work to the reason; a
    degraded part alone does not make the instance unready."""

    snapshot_loaded: bool
    draining: bool = False
    revision: int | None = None
    degraded: Mapping[str, str] = msgspec.field(default_factory=dict)

    @property
    def ready(self) -> bool:
        """Whether traffic should be sent here."""
        return self.snapshot_loaded and not self.draining


class PluginEntry(Protocol):
    """One row of the plugin registry's inventory."""

    @property
    def name(self) -> str:
        """What configuration and catalog call it."""

    @property
    def kind(self) -> str:
        """``secret backend``, ``upstream provider``, …"""

    @property
    def distribution(self) -> str:
        """Name of the installed distribution it came with."""

    @property
    def version(self) -> str:
        """Version of that distribution."""

    @property
    def state(self) -> str:
        """``open``, ``quarantined``, …"""

    @property
    def error(self) -> str | None:
        """Why it is not open, in one line."""

    @property
    def config_schema(self) -> dict[str, Any] | None:
        """JSON Schema of its section in ``relay.toml``, where it could be loaded."""

    @property
    def config(self) -> dict[str, Any] | None:
        """What it is configured with, where it is; credentials masked."""


class AccessRules(msgspec.Struct, frozen=True, kw_only=True):
    """How browsers and proxies may reach the control plane.

    ``allowed_hosts`` without any entry allows addresses and ``localhost``, and is ``None`` where
    any host name will do.
    """

    cookie_secure: bool = True
    metrics_public: bool = False
    cors_origins: frozenset[str] = frozenset()
    allowed_hosts: Sequence[str] | None = None
    header_prefix: str = "X-Relay-"
    addresses: AddressReader = msgspec.field(default_factory=lambda: AddressReader(()))


class ReloadedPlugin(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What became of a plugin: ``change`` is ``enabled``, ``disabled``, ``reconfigured``, or
    ``kept`` (it does not open as it is configured now, and goes on as it was)."""

    kind: str
    name: str
    change: str
    error: str | None = None


class ProcessReload(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The changes in one process; ``error`` says why it has made none."""

    process: str
    changes: list[ReloadedPlugin]
    error: str | None = None


async def _no_processes() -> Sequence[ProcessReload]:
    return ()


def _not_signed(_content: bytes, _signature: str) -> bool:
    return False


async def accept_any(_name: str) -> str | None:
    """Refuses no name."""
    return None


class ControlServices(msgspec.Struct, kw_only=True):
    """Everything the control plane calls.

    ``refresh`` brings the snapshot up to date; it is awaited after each committed write, so that a
    write is effective when it is answered. ``reload`` reads the whole database anew.
    ``host_key_statuses`` and ``host_statuses`` give run-time states by id. ``users`` maps who may
    log in to the stored password. Without an ``admin_token`` and users nobody can authenticate.
    ``usage_sinks`` are the names of those that receive records, ``payload_loggers`` gives the
    loggers that receive payloads; ``refusal_of_sink`` and ``refusal_of_logger`` tell why nothing
    can be sent to one. ``metrics`` gives the series of all processes. ``inference_url``
    is where the inference plane listens, ``gateway_id`` tells this gateway from others on the same
    database. ``reload_plugins`` reads ``relay.toml`` again and raises
    :class:`ConfigurationError` for one that is not valid. ``is_signed`` tells whether a signature
    of the audit log's checkpoint is a gateway's own.
    """

    store: CatalogStore
    sessions: SessionStore
    settings: SettingsStore
    audit: AuditLog
    relay_key_uses: RelayKeyUses
    login_failures: LoginFailures
    master_keys: MasterKeyStore
    spending: SpendingStore
    instances: InstanceStore
    secret_backends: Mapping[str, SecretBackend[Any]]
    providers: Mapping[str, UpstreamProvider[Any]]
    usage_reader: UsageReader | None
    plugins: Callable[[], Sequence[PluginEntry]]
    refresh: Callable[[], Awaitable[ReloadReport]]
    reload: Callable[[], Awaitable[ReloadReport]]
    readiness: Callable[[], Readiness]
    host_key_statuses: Callable[[Sequence[str]], Awaitable[Mapping[str, Mapping[str, Any]]]]
    reset_host_key: Callable[[str], Awaitable[None]]
    host_statuses: Callable[[Sequence[str]], Awaitable[Mapping[str, Mapping[str, Any]]]]
    reset_host: Callable[[str], Awaitable[None]]
    admin_token: Secret | None
    version: str
    metrics: Callable[[], Awaitable[Sequence[Series]]]
    live: LiveCatalog
    endpoints: Sequence[ServedEndpoint]
    explainer: Explainer
    prober: HostProber
    inference_url: str = ""
    gateway_id: str = ""
    is_signed: Callable[[bytes, str], bool] = _not_signed
    commit: str | None = None
    users: Mapping[str, Secret] = msgspec.field(default_factory=dict)
    access: AccessRules = msgspec.field(default_factory=AccessRules)
    usage_sinks: Sequence[str] = ()
    payload_loggers: Callable[[], Sequence[PayloadLogger[Any]]] = tuple
    refusal_of_sink: Callable[[str], Awaitable[str | None]] = accept_any
    refusal_of_logger: Callable[[str], Awaitable[str | None]] = accept_any
    reload_plugins: Callable[[], Awaitable[Sequence[ProcessReload]]] = _no_processes
    clock: Clock = msgspec.field(default_factory=SystemClock)
