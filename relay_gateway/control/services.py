"""What the control plane needs from the rest of the process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from relay_gateway.http.addresses import AddressReader
from relay_gateway.plugin import Clock, SecretBackend, SystemClock, UpstreamProvider, UsageReader
from relay_gateway.secret import Secret
from relay_gateway.storage import AuditLog, CatalogStore, SessionStore, SettingsStore


@dataclass(frozen=True, slots=True)
class ReloadReport:
    """A rebuilt snapshot: its revision, how many entities it was built from, how long it took."""

    revision: int
    entities: int
    duration_ms: float


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether the instance can serve. ``degraded`` maps parts that do not work to the reason; a
    degraded part alone does not make the instance unready."""

    snapshot_loaded: bool
    draining: bool = False
    revision: int | None = None
    degraded: Mapping[str, str] = field(default_factory=dict)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRules:
    """How browsers and proxies may reach the control plane.

    ``allowed_hosts`` without any entry allows addresses and ``localhost``, and is ``None`` where
    any host name will do.
    """

    cookie_secure: bool = True
    cors_origins: frozenset[str] = frozenset()
    allowed_hosts: Sequence[str] | None = None
    header_prefix: str = "X-Relay-"
    addresses: AddressReader = field(default_factory=lambda: AddressReader(()))


@dataclass(slots=True, kw_only=True)
class ControlServices:
    """Everything the control plane calls.

    ``refresh`` brings the snapshot up to date; it is awaited after each committed write, so that a
    write is effective when it is answered. ``reload`` reads the whole database anew.
    ``host_key_status`` gives the run-time state of one host key by id. ``users`` maps who may log
    in to the stored password. Without an ``admin_token`` and users nobody can authenticate.
    ``usage_sinks`` are the names of those that receive records.
    """

    store: CatalogStore
    sessions: SessionStore
    settings: SettingsStore
    audit: AuditLog
    secret_backends: Mapping[str, SecretBackend[Any]]
    providers: Mapping[str, UpstreamProvider[Any]]
    usage_reader: UsageReader | None
    plugins: Callable[[], Sequence[PluginEntry]]
    refresh: Callable[[], Awaitable[ReloadReport]]
    reload: Callable[[], Awaitable[ReloadReport]]
    readiness: Callable[[], Readiness]
    host_key_status: Callable[[str], Mapping[str, Any]]
    reset_host_key: Callable[[str], None]
    admin_token: Secret | None
    version: str
    commit: str | None = None
    users: Mapping[str, Secret] = field(default_factory=dict)
    access: AccessRules = field(default_factory=AccessRules)
    usage_sinks: Sequence[str] = ()
    clock: Clock = field(default_factory=SystemClock)
