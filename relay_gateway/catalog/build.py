"""From rows to a snapshot: every entity that can serve is compiled, the rest is reported.

One bad row never keeps the others from loading: it is left out, with the reason, as if it were
disabled. What refers to it is then left out as if the entity did not exist.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from ipaddress import ip_network
from typing import TypeVar
from urllib.parse import urlsplit

from pydantic import ValidationError

from relay_gateway.catalog import specs
from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.catalog.grants import GrantCompiler, GrantedModel
from relay_gateway.catalog.pricing import compile_rates
from relay_gateway.catalog.snapshot import (
    Binding,
    Host,
    HostKey,
    Model,
    Policy,
    PresentedKey,
    Pricing,
    QuarantinedRow,
    RelayKey,
    Snapshot,
)
from relay_gateway.errors import RelayError
from relay_gateway.plugin.providers import UpstreamHost, UpstreamProvider, encode_headers
from relay_gateway.plugin.secrets import RowBinding, SecretBackend

T = TypeVar("T")
SpecT = TypeVar("SpecT", bound=specs.Spec)


class BadRowError(RelayError):
    """A row that cannot be compiled; the message is its reason."""


def seal_binding(row_id: str, generation: int) -> RowBinding:
    """The place that the credential of a host key is bound to."""
    return RowBinding("host key", row_id, "spec.valueFrom", generation)


def build_snapshot(
    revision: int,
    rows: Iterable[EntityRow],
    *,
    providers: Mapping[str, UpstreamProvider],
    backends: Mapping[str, SecretBackend],
) -> Snapshot:
    """A snapshot of ``rows`` at ``revision``, for the installed ``providers`` and ``backends``."""
    return _Builder(revision, rows, providers, backends).build()


class _Builder:
    """Compiles kind after kind, each from the kinds before it."""

    def __init__(
        self,
        revision: int,
        rows: Iterable[EntityRow],
        providers: Mapping[str, UpstreamProvider],
        backends: Mapping[str, SecretBackend],
    ) -> None:
        self._revision = revision
        self._providers = providers
        self._backends = backends
        self._quarantined: list[QuarantinedRow] = []
        self._specs: dict[str, dict[str, specs.Spec]] = {}
        self._rows: defaultdict[str, list[EntityRow]] = defaultdict(list)
        for row in rows:
            self._rows[row.kind].append(row)

    def build(self) -> Snapshot:
        vendors = self._compile("provider", specs.ProviderSpec, lambda row, _: row.slug)
        hosts = self._compile("host", specs.HostSpec, self._host)
        pricings = self._compile("pricing", specs.PricingSpec, _pricing)
        models = self._compile(
            "model", specs.ModelSpec, lambda row, spec: _model(row, spec, vendors, hosts, pricings)
        )
        names, wildcards = _names(models, self._specs["model"])
        compiler = GrantCompiler(
            (_granted(model) for model in models.values()),
            {host.slug: host.id for host in hosts.values()},
        )
        policies = self._compile(
            "policy", specs.PolicySpec, lambda row, spec: _policy(row, spec, compiler)
        )
        keys = self._compile(
            "host key",
            specs.HostKeySpec,
            lambda row, spec: self._host_key(row, spec, hosts, policies),
        )
        relay_keys = self._relay_keys(policies)
        return Snapshot(
            revision=self._revision,
            entities=sum(map(len, self._rows.values())),
            relay_keys=relay_keys,
            policies=policies,
            models=names,
            models_by_id=models,
            wildcards=wildcards,
            hosts=hosts,
            hosts_by_slug={host.slug: host for host in hosts.values()},
            path_prefixes=frozenset(h.path_prefix for h in hosts.values() if h.path_prefix),
            host_keys=keys,
            keys_by_host=_by_host(keys.values()),
            quarantined=tuple(self._quarantined),
        )

    def _compile(
        self, kind: str, model: type[SpecT], compile_one: Callable[[EntityRow, SpecT], T]
    ) -> dict[str, T]:
        compiled: dict[str, T] = {}
        kept: dict[str, specs.Spec] = {}
        for row in self._rows[kind]:
            try:
                spec = model.model_validate(row.spec)
                if spec.enabled:
                    compiled[row.id] = compile_one(row, spec)
                    kept[row.id] = spec
            except (BadRowError, ValidationError, ValueError, KeyError, TypeError) as error:
                self._quarantine(row, error)
        self._specs[kind] = kept
        return compiled

    def _quarantine(self, row: EntityRow, error: Exception) -> None:
        if isinstance(error, ValidationError):
            places = (".".join(map(str, item["loc"])) for item in error.errors())
            reason = f"does not validate: {', '.join(places)}"
        elif isinstance(error, BadRowError):
            reason = str(error)
        else:
            reason = f"cannot be read ({type(error).__name__})"
        self._quarantined.append(QuarantinedRow(row.kind, row.id, row.slug, reason))

    def _host(self, row: EntityRow, spec: specs.HostSpec) -> Host:
        provider = self._providers.get(spec.adapter)
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
            max_connections=spec.max_connections,
            path_prefix=spec.path_prefix,
        )

    def _host_key(
        self,
        row: EntityRow,
        spec: specs.HostKeySpec,
        hosts: Mapping[str, Host],
        policies: Mapping[str, Policy],
    ) -> HostKey:
        if spec.host_id not in hosts:
            raise BadRowError("its host is disabled or could not be loaded")
        if spec.policy_id not in policies:
            raise BadRowError("its policy is disabled or could not be loaded")
        backend = self._backends.get(str(spec.value_from.get("kind")))
        if backend is None:
            raise BadRowError(f"secret backend {spec.value_from.get('kind')!r} is not installed")
        stored = (backend.StoredRef or backend.Ref).model_validate(row.sealed["valueFrom"])
        return HostKey(
            id=row.id,
            slug=row.slug,
            host_id=spec.host_id,
            policy=policies[spec.policy_id],
            backend=backend.name,
            stored=stored,
            binding=seal_binding(row.id, row.sealed["generation"]),
            weight=spec.weight,
            priority=spec.priority,
        )

    def _relay_keys(self, policies: Mapping[str, Policy]) -> dict[bytes, PresentedKey]:
        presented: dict[bytes, PresentedKey] = {}
        for row in self._rows["relay key"]:
            try:
                spec = _relay_key_spec(row)
                if spec.enabled and row.spec.get("revokedAt") is None:
                    presented.update(_presented(row, spec, policies))
            except (ValidationError, ValueError, KeyError, TypeError) as error:
                self._quarantine(row, error)
        return presented


def _relay_key_spec(row: EntityRow) -> specs.RelayKeySpec:
    client_owned = {k: v for k, v in row.spec.items() if k not in ("prefix", "revokedAt")}
    return specs.RelayKeySpec.model_validate(client_owned)


def _presented(
    row: EntityRow, spec: specs.RelayKeySpec, policies: Mapping[str, Policy]
) -> dict[bytes, PresentedKey]:
    key = RelayKey(
        id=row.id,
        slug=row.slug,
        policy=policies.get(spec.policy_id),
        expires_at=spec.expires_at.timestamp() if spec.expires_at else None,
        networks=tuple(ip_network(cidr) for cidr in spec.allowed_cidrs),
        tags=spec.tags,
    )
    presented = {
        bytes.fromhex(former["digest"]): PresentedKey(key, _timestamp(former["until"]))
        for former in row.sealed.get("previous", ())
    }
    presented[bytes.fromhex(row.sealed["digest"])] = PresentedKey(key)
    return presented


def _timestamp(text: str) -> float:
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _pricing(row: EntityRow, spec: specs.PricingSpec) -> Pricing:
    return Pricing(row.id, row.slug, spec.currency, compile_rates(spec.rates))


def _policy(row: EntityRow, spec: specs.PolicySpec, compiler: GrantCompiler) -> Policy:
    return Policy(
        id=row.id,
        slug=row.slug,
        grants=compiler.compile(spec.models, spec.deny),
        host_key_ids=frozenset(spec.host_key_ids),
        key_selection=spec.key_selection,
    )


def _model(
    row: EntityRow,
    spec: specs.ModelSpec,
    vendors: Mapping[str, str],
    hosts: Mapping[str, Host],
    pricings: Mapping[str, Pricing],
) -> Model:
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
    )


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


def _granted(model: Model) -> GrantedModel:
    hosts = frozenset(binding.host.id for binding in model.bindings)
    return GrantedModel(model.id, model.name, model.slug, model.provider_slug, hosts)


def _names(
    models: Mapping[str, Model], model_specs: Mapping[str, specs.Spec]
) -> tuple[dict[str, Model], tuple[tuple[str, Model], ...]]:
    """Exact names before ``provider/name``, so that a full name is never taken by a composed
    one."""
    names: dict[str, Model] = {}
    wildcards: list[tuple[str, Model]] = []
    for model in models.values():
        names[model.name] = model
    for model_id, model in models.items():
        spec = model_specs[model_id]
        for alias in spec.aliases if isinstance(spec, specs.ModelSpec) else ():
            if alias.endswith("*"):
                wildcards.append((alias[:-1], model))
            else:
                names.setdefault(alias, model)
    for model in models.values():
        names.setdefault(f"{model.provider_slug}/{model.name}", model)
    wildcards.sort(key=lambda item: (-len(item[0]), item[0]))
    return names, tuple(wildcards)


def _by_host(keys: Iterable[HostKey]) -> dict[str, tuple[HostKey, ...]]:
    pools: defaultdict[str, list[HostKey]] = defaultdict(list)
    for key in sorted(keys, key=lambda key: (key.priority, key.id)):
        pools[key.host_id].append(key)
    return {host_id: tuple(pool) for host_id, pool in pools.items()}
