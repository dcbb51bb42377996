"""The catalog as requests read it: immutable, indexed, swapped whole."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network

import msgspec

from relay_gateway.catalog.grants import NOTHING, Grants
from relay_gateway.catalog.limit_rules import RateLimit, ScopedRule
from relay_gateway.catalog.sections import DEFAULTS, RuntimeSettings
from relay_gateway.catalog.specs import Budget, Timeouts, Tls
from relay_gateway.plugin.providers import UpstreamHost
from relay_gateway.plugin.secrets import RowBinding, SecretRef


class ProxyCredential(msgspec.Struct, frozen=True):
    """The user name and password of a host's egress proxy, by reference. ``id`` is the host's."""

    id: str
    backend: str
    stored: SecretRef
    binding: RowBinding


class Host(msgspec.Struct, frozen=True):
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
    proxy_credential: ProxyCredential | None
    max_connections: int
    path_prefix: str | None
    proxy_mode: bool = True


class Pricing(msgspec.Struct, frozen=True):
    """A price sheet. ``rates`` maps a meter to ``(above_tokens, scaled rate)``, the highest
    threshold first, ``multipliers`` a tier to its scaled factor; see
    :mod:`relay_gateway.catalog.pricing`. ``plain`` says the same in short, where the sheet is a
    simple one: what a request costs, and by token meter what a token costs and which meters within
    it have rates of their own. ``version`` is that of the entity."""

    id: str
    slug: str
    currency: str
    rates: Mapping[str, tuple[tuple[int, int], ...]]
    multipliers: Mapping[str, int] = msgspec.field(default_factory=dict)
    plain: tuple[int, Mapping[str, tuple[int, tuple[str, ...]]]] | None = None
    version: int = 0


class Binding(msgspec.Struct, frozen=True):
    """A host that serves a model, what the model is called there, and what it costs."""

    host: Host
    upstream_name: str
    wire_formats: frozenset[str]
    priority: int
    weight: int
    pricing: Pricing | None


class Deprecation(msgspec.Struct, frozen=True):
    """When a model was deprecated and when it ends, in seconds since the epoch, and the id of the
    model that serves in its place from then on."""

    since: float | None
    sunset: float | None
    replacement_id: str | None


class Model(msgspec.Struct, frozen=True):
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
    max_output_tokens: int | None = None
    deprecation: Deprecation | None = None


class Policy(msgspec.Struct, frozen=True):
    """What a relay key may use, or a host key may serve. ``models`` and ``deny`` are the references
    that ``grants`` was compiled from; ``limits`` are empty for most."""

    id: str
    slug: str
    grants: Grants = NOTHING
    models: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    host_key_ids: frozenset[str] = frozenset()
    key_selection: str = "prioritized"
    allow_proxy_mode: bool = True
    payload_logging: bool = False
    limits: tuple[ScopedRule, ...] = ()
    max_output_tokens: int | None = None
    budgets: tuple[Budget, ...] = ()


class HostKey(msgspec.Struct, frozen=True):
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


class RelayKey(msgspec.Struct, frozen=True, gc=False):
    """An inbound key. Times are seconds since the epoch; ``policy_id`` may be that of a policy
    that is disabled, see :meth:`Snapshot.policy_of`.

    There may be a hundred thousand, so they are made and kept as cheaply as can be.
    """

    id: str
    slug: str
    policy_id: str
    expires_at: float | None
    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    tags: Mapping[str, str] = {}
    payload_logging: bool = False
    rate_limit_ids: tuple[str, ...] = ()


class PresentedKey(msgspec.Struct, frozen=True, gc=False):
    """What a digest stands for: a relay key, and until when (after a rotation with a time of
    grace)."""

    key: RelayKey
    until: float | None = None


class QuarantinedRow(msgspec.Struct, frozen=True):
    """An entity that the snapshot had to leave out, and why."""

    kind: str
    id: str
    slug: str
    reason: str


class Snapshot(msgspec.Struct, frozen=True):
    """One state of the catalog. A request takes it once and sees it to its end.

    ``models`` has every exact way to name a model (names, aliases, ``provider/name``);
    ``wildcards`` the aliases that end in ``*``, without it, longest first.
    """

    revision: int = 0
    entities: int = 0
    relay_keys: Mapping[bytes, PresentedKey] = msgspec.field(default_factory=dict)
    policies: Mapping[str, Policy] = msgspec.field(default_factory=dict)
    models: Mapping[str, Model] = msgspec.field(default_factory=dict)
    models_by_id: Mapping[str, Model] = msgspec.field(default_factory=dict)
    wildcards: tuple[tuple[str, Model], ...] = ()
    hosts: Mapping[str, Host] = msgspec.field(default_factory=dict)
    hosts_by_slug: Mapping[str, Host] = msgspec.field(default_factory=dict)
    path_prefixes: frozenset[str] = frozenset()
    host_keys: Mapping[str, HostKey] = msgspec.field(default_factory=dict)
    keys_by_host: Mapping[str, tuple[HostKey, ...]] = msgspec.field(default_factory=dict)
    rate_limits: Mapping[str, RateLimit] = msgspec.field(default_factory=dict)
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
