"""What the control plane needs from the rest of the process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from relay_gateway.plugin import SecretBackend, UpstreamProvider, UsageReader
from relay_gateway.secret import Secret
from relay_gateway.storage import CatalogStore


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


@dataclass(slots=True, kw_only=True)
class ControlServices:
    """Everything the control plane calls.

    ``refresh`` rebuilds the snapshot; it is awaited after each committed write, so that a write is
    effective when it is answered. ``host_key_status`` gives the run-time state of one host key by
    id. Without an ``admin_token`` nobody can authenticate.
    """

    store: CatalogStore
    secret_backends: Mapping[str, SecretBackend[Any]]
    providers: Mapping[str, UpstreamProvider[Any]]
    usage_reader: UsageReader | None
    plugins: Callable[[], Sequence[PluginEntry]]
    refresh: Callable[[], Awaitable[ReloadReport]]
    readiness: Callable[[], Readiness]
    host_key_status: Callable[[str], Mapping[str, Any]]
    reset_host_key: Callable[[str], None]
    admin_token: Secret | None
    version: str
    commit: str | None = None
