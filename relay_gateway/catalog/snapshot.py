"""The catalog as requests read it: immutable, indexed, swapped whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network

from relay_gateway.catalog.grants import NOTHING, Grants
from relay_gateway.catalog.sections import DEFAULTS, RuntimeSettings
from relay_gateway.catalog.specs import Timeouts, Tls
from relay_gateway.plugin.providers import UpstreamHost
from relay_gateway.plugin.secrets import RowBinding, SecretRef


@dataclass(frozen=True, slots=True)
class Host:
    """An enabled host whose adapter is installed. ``wire_formats`` is never empty."""

    id: str
    slug: str
    adapter: str
    view: UpstreamHost
    wire_formats: frozenset[str]
    no_auth: bool
    timeouts: Timeouts
    tls: Tls
    proxy_url: str | None
    max_connections: int
    path_prefix: str | None


@dataclass(frozen=True, slots=True)
class Pricing:
    """A price sheet. ``rates`` maps a meter to ``(above_tokens, scaled rate)``, the highest
    threshold first; see :mod:`relay_gateway.catalog.pricing`."""

    id: str
    slug: str
    currency: str
    rates: Mapping[str, tuple[tuple[int, int], ...]]


@dataclass(frozen=True, slots=True)
class Binding:
    """A host that serves a model, what the model is called there, and what it costs."""

    host: Host
    upstream_name: str
    wire_formats: frozenset[str]
    priority: int
    weight: int
    pricing: Pricing | None


@dataclass(frozen=True, slots=True)
class Model:
    """An enabled model. ``bindings`` are those that can be called, by priority."""

    id: str
    slug: str
    name: str
    display_name: str
    provider_id: str
    provider_slug: str
    created: int
    bindings: tuple[Binding, ...]
    fallbacks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Policy:
    """What a relay key may use, or a host key may serve."""

    id: str
    slug: str
    grants: Grants = NOTHING
    host_key_ids: frozenset[str] = frozenset()
    key_selection: str = "prioritized"


@dataclass(frozen=True, slots=True)
class HostKey:
    """A credential of a host, by reference; resolved when it is first drawn."""

    id: str
    slug: str
    host_id: str
    policy: Policy
    backend: str
    stored: SecretRef
    binding: RowBinding
    weight: int
    priority: int


@dataclass(frozen=True, slots=True)
class RelayKey:
    """An inbound key. Times are seconds since the epoch; ``policy_id`` may be that of a policy
    that is disabled, see :meth:`Snapshot.policy_of`."""

    id: str
    slug: str
    policy_id: str
    expires_at: float | None
    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PresentedKey:
    """What a digest stands for: a relay key, and until when (after a rotation with a time of
    grace)."""

    key: RelayKey
    until: float | None = None


@dataclass(frozen=True, slots=True)
class QuarantinedRow:
    """An entity that the snapshot had to leave out, and why."""

    kind: str
    id: str
    slug: str
    reason: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One state of the catalog. A request takes it once and sees it to its end.

    ``models`` has every exact way to name a model (names, aliases, ``provider/name``);
    ``wildcards`` the aliases that end in ``*``, without it, longest first.
    """

    revision: int = 0
    entities: int = 0
    relay_keys: Mapping[bytes, PresentedKey] = field(default_factory=dict)
    policies: Mapping[str, Policy] = field(default_factory=dict)
    models: Mapping[str, Model] = field(default_factory=dict)
    models_by_id: Mapping[str, Model] = field(default_factory=dict)
    wildcards: tuple[tuple[str, Model], ...] = ()
    hosts: Mapping[str, Host] = field(default_factory=dict)
    hosts_by_slug: Mapping[str, Host] = field(default_factory=dict)
    path_prefixes: frozenset[str] = frozenset()
    host_keys: Mapping[str, HostKey] = field(default_factory=dict)
    keys_by_host: Mapping[str, tuple[HostKey, ...]] = field(default_factory=dict)
    quarantined: tuple[QuarantinedRow, ...] = ()
    settings: RuntimeSettings = DEFAULTS

    def policy_of(self, key: RelayKey) -> Policy | None:
        """What a relay key may use; ``None`` when its policy is disabled or cannot be read."""
        return self.policies.get(key.policy_id)

    def find_model(self, name: str) -> tuple[Model | None, Host | None]:
        """The model that a caller's ``model`` means, and the host it pins with ``name@host``."""
        model = self.models.get(name)
        if model is not None:
            return model, None
        base, at, slug = name.rpartition("@")
        host = self.hosts_by_slug.get(slug) if at else None
        if host is not None and base in self.models:
            return self.models[base], host
        for prefix, model in self.wildcards:
            if name.startswith(prefix):
                return model, None
        return None, None
