"""From one row to the object that requests read, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from ipaddress import ip_network
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from relay_gateway.catalog import specs
from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.catalog.grants import GrantCompiler, GrantedModel
from relay_gateway.catalog.limit_rules import RateLimit, scoped_rules
from relay_gateway.catalog.pricing import compile_multipliers, compile_plain, compile_rates
from relay_gateway.catalog.snapshot import (
    Binding,
    Deprecation,
    Host,
    HostKey,
    Model,
    Policy,
    PresentedKey,
    Pricing,
    ProxyCredential,
    QuarantinedRow,
    RelayKey,
)
from relay_gateway.errors import RelayError
from relay_gateway.plugin.providers import UpstreamHost, UpstreamProvider, encode_headers
from relay_gateway.plugin.secrets import RowBinding, SecretBackend, SecretRef

_SERVER_OWNED = ("prefix", "revokedAt")
SEALED_FIELDS = {"host key": "valueFrom", "host": "proxyCredential"}
"""The field of each kind that refers to a credential: sealed under this name next to the
``generation`` that its value is bound to."""

network_of = lru_cache(maxsize=65_536)(ip_network)
"""What a CIDR means; many keys share a few."""


class BadRowError(RelayError):
    """A row that cannot be compiled; the message is its reason."""


UNREADABLE = (BadRowError, ValidationError, ValueError, KeyError, TypeError, AttributeError)
"""What a row raises whose content nobody wrote through the control plane."""


def seal_binding(row_id: str, generation: int, kind: str = "host key") -> RowBinding:
    """The place that the credential of a host key, or one of another kind, is bound to."""
    return RowBinding(kind, row_id, f"spec.{SEALED_FIELDS[kind]}", generation)


def quarantine(row: EntityRow, error: Exception) -> QuarantinedRow:
    """The row that raised ``error`` (one of ``UNREADABLE``), with the reason in a few words."""
    if isinstance(error, ValidationError):
        places = (".".join(map(str, item["loc"])) for item in error.errors())
        reason = f"does not validate: {', '.join(places)}"
    elif isinstance(error, BadRowError):
        reason = str(error)
    else:
        reason = f"cannot be read ({type(error).__name__})"
    return QuarantinedRow(row.kind, row.id, row.slug, reason)


def compile_host(
    row: EntityRow,
    spec: specs.HostSpec,
    providers: Mapping[str, UpstreamProvider],
    backends: Mapping[str, SecretBackend],
) -> Host:
    """A host whose adapter, and secret backend where it needs one, are installed."""
    provider = providers.get(spec.adapter)
    if provider is None:
        raise BadRowError(f"adapter {spec.adapter!r} is not installed")
    formats = frozenset(spec.wire_formats or provider.wire_formats)
    view = UpstreamHost(
        id=row.id,
        slug=row.slug,
        base_url=spec.base_url,
        path=urlsplit(spec.base_url).path.rstrip("/"),
        config=provider.HostConfig.model_validate(spec.adapter_config),
        headers=encode_headers(spec.headers),
    )
    return Host(
        id=row.id,
        slug=row.slug,
        adapter=spec.adapter,
        view=view,
        wire_formats=formats & frozenset(provider.wire_formats),
        no_auth=spec.no_auth,
        timeouts=spec.timeouts,
        tls=spec.tls,
        proxy_url=spec.proxy_url,
        proxy_credential=_proxy_credential(row, spec, backends),
        max_connections=spec.max_connections,
        path_prefix=spec.path_prefix,
        proxy_mode=spec.proxy_mode,
    )


def compile_host_key(
    row: EntityRow,
    spec: specs.HostKeySpec,
    hosts: Mapping[str, Host],
    policies: Mapping[str, Policy],
    backends: Mapping[str, SecretBackend],
) -> HostKey:
    """A host key whose host, policy and secret backend are there."""
    if spec.host_id not in hosts:
        raise BadRowError("its host is disabled or could not be loaded")
    if spec.policy_id not in policies:
        raise BadRowError("its policy is disabled or could not be loaded")
    backend, stored = _sealed(row, spec.value_from, backends)
    return HostKey(
        id=row.id,
        slug=row.slug,
        host_id=spec.host_id,
        policy=policies[spec.policy_id],
        backend=backend,
        stored=stored,
        binding=seal_binding(row.id, row.sealed["generation"]),
        weight=spec.weight,
        priority=spec.priority,
    )


def _proxy_credential(
    row: EntityRow, spec: specs.HostSpec, backends: Mapping[str, SecretBackend]
) -> ProxyCredential | None:
    if spec.proxy_url is None or spec.proxy_credential is None:
        return None
    backend, stored = _sealed(row, spec.proxy_credential, backends)
    binding = seal_binding(row.id, row.sealed["generation"], row.kind)
    return ProxyCredential(row.id, backend, stored, binding)


def _sealed(
    row: EntityRow, shown: Mapping[str, Any], backends: Mapping[str, SecretBackend]
) -> tuple[str, SecretRef]:
    """The backend that ``shown`` names, and what it keeps in ``row``."""
    backend = backends.get(str(shown.get("kind")))
    if backend is None:
        raise BadRowError(f"secret backend {shown.get('kind')!r} is not installed")
    kept = row.sealed[SEALED_FIELDS[row.kind]]
    return backend.name, (backend.StoredRef or backend.Ref).model_validate(kept)


def compile_relay_key(row: EntityRow) -> dict[bytes, PresentedKey]:
    """What each digest of a relay key stands for; nothing when it is disabled or revoked."""
    client_owned = {k: v for k, v in row.spec.items() if k not in _SERVER_OWNED}
    spec = specs.RelayKeySpec.model_validate(client_owned)
    if not spec.enabled or row.spec.get("revokedAt") is not None:
        return {}
    key = RelayKey(
        id=row.id,
        slug=row.slug,
        policy_id=spec.policy_id,
        expires_at=spec.expires_at.timestamp() if spec.expires_at else None,
        networks=tuple(network_of(cidr) for cidr in spec.allowed_cidrs),
        tags=_shared(tuple(spec.tags.items())),
        payload_logging=spec.payload_logging,
        rate_limit_ids=tuple(spec.rate_limit_ids),
    )
    presented = {
        bytes.fromhex(former["digest"]): PresentedKey(key, _timestamp(former["until"]))
        for former in row.sealed.get("previous", ())
    }
    presented[bytes.fromhex(row.sealed["digest"])] = PresentedKey(key)
    return presented


@lru_cache(maxsize=4096)  # keys of one team have the same
def _shared(tags: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return dict(tags)


def digests_of(row: EntityRow) -> Iterator[bytes]:
    """Every digest that :func:`compile_relay_key` may have given for ``row``."""
    try:
        yield bytes.fromhex(row.sealed["digest"])
        for former in row.sealed.get("previous", ()):
            yield bytes.fromhex(former["digest"])
    except UNREADABLE:
        return  # it was quarantined and gave none


def compile_pricing(row: EntityRow, spec: specs.PricingSpec) -> Pricing:
    """A price sheet in integers."""
    rates = compile_rates(spec.rates)
    return Pricing(
        row.id,
        row.slug,
        spec.currency,
        rates,
        compile_multipliers(spec.multipliers),
        compile_plain(rates),
        row.version,
    )


def compile_policy(
    row: EntityRow,
    spec: specs.PolicySpec,
    compiler: GrantCompiler,
    rate_limits: Mapping[str, RateLimit],
) -> Policy:
    """A policy with its references resolved."""
    return Policy(
        id=row.id,
        slug=row.slug,
        grants=compiler.compile(spec.models, spec.deny),
        models=tuple(spec.models),
        deny=tuple(spec.deny),
        host_key_ids=frozenset(spec.host_key_ids),
        key_selection=spec.key_selection,
        allow_proxy_mode=spec.allow_proxy_mode,
        payload_logging=spec.payload_logging,
        limits=scoped_rules(spec.rate_limits, rate_limits, compiler),
        max_output_tokens=spec.max_output_tokens,
        budgets=tuple(spec.budgets),
    )


def compile_model(
    row: EntityRow,
    spec: specs.ModelSpec,
    vendors: Mapping[str, str],
    hosts: Mapping[str, Host],
    pricings: Mapping[str, Pricing],
) -> Model:
    """A model with those of its bindings that can be called."""
    if spec.provider_id not in vendors:
        raise BadRowError("its provider is disabled or could not be loaded")
    name = spec.name or row.slug
    bindings = [
        _binding(binding, hosts[binding.host_id], name, pricings)
        for binding in spec.bindings
        if binding.enabled and binding.host_id in hosts
    ]
    return Model(
        id=row.id,
        slug=row.slug,
        name=name,
        display_name=row.display_name,
        provider_id=spec.provider_id,
        provider_slug=vendors[spec.provider_id],
        created=int(_timestamp(row.created_at)),
        bindings=tuple(sorted(bindings, key=lambda binding: binding.priority)),
        fallbacks=tuple(spec.fallbacks),
        max_output_tokens=spec.max_output_tokens,
        deprecation=_deprecation(spec.deprecated),
    )


def _deprecation(spec: specs.Deprecation | None) -> Deprecation | None:
    if spec is None:
        return None
    return Deprecation(
        since=spec.since.timestamp() if spec.since else None,
        sunset=spec.sunset.timestamp() if spec.sunset else None,
        replacement_id=spec.replacement_id,
    )


def granted_model(model: Model) -> GrantedModel:
    """What references of policies can say about a model."""
    hosts = frozenset(binding.host.id for binding in model.bindings)
    return GrantedModel(model.id, model.name, model.slug, model.provider_slug, hosts)


def _binding(
    spec: specs.ModelBinding, host: Host, name: str, pricings: Mapping[str, Pricing]
) -> Binding:
    formats = host.wire_formats
    return Binding(
        host=host,
        upstream_name=spec.upstream_name or name,
        wire_formats=formats & frozenset(spec.wire_formats) if spec.wire_formats else formats,
        priority=spec.priority,
        weight=spec.weight,
        pricing=pricings.get(spec.pricing_id) if spec.pricing_id else None,
    )


def _timestamp(text: str) -> float:
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
