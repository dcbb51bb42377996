"""From rows to snapshots: what can serve is compiled, the rest reported, what is the same shared.

One bad row never keeps the others from loading: it is left out, with the reason, as if it were
disabled. What refers to it is then left out as if the entity did not exist.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from threading import Lock
from typing import Any

import msgspec
from msgspec.structs import replace

from relay_gateway.catalog import specs
from relay_gateway.catalog.compile import (
    compile_host,
    compile_host_key,
    compile_model,
    compile_policy,
    compile_pricing,
    granted_model,
    seal_binding,
)
from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.catalog.garbage import uncollected
from relay_gateway.catalog.grants import GrantCompiler, GrantedModel
from relay_gateway.catalog.intake import Intake, KeyChange
from relay_gateway.catalog.limit_rules import RateLimit, compile_rate_limit
from relay_gateway.catalog.sections import DEFAULTS, RuntimeSettings, read_runtime_settings
from relay_gateway.catalog.snapshot import (
    Host,
    HostKey,
    Model,
    Policy,
    PresentedKey,
    Pricing,
    QuarantinedRow,
    Snapshot,
)
from relay_gateway.catalog.tables import Patch, Table, advance
from relay_gateway.plugin.providers import UpstreamProvider
from relay_gateway.plugin.secrets import SecretBackend

__all__ = ["Intake", "SavedRows", "SnapshotBuilder", "build_snapshot", "seal_binding"]

StoredSettings = Mapping[str, Mapping[str, Any]]

OF_PLUGINS = frozenset({"host", "host key"})
"""Kinds whose rows mean something else when other plugins are installed."""


def build_snapshot(
    revision: int,
    rows: Iterable[EntityRow],
    *,
    providers: Mapping[str, UpstreamProvider],
    backends: Mapping[str, SecretBackend],
    settings: RuntimeSettings = DEFAULTS,
) -> Snapshot:
    """A snapshot of ``rows`` at ``revision``, for the installed ``providers`` and ``backends``."""
    snapshot = SnapshotBuilder(providers, backends).load(revision, rows, {})
    return replace(snapshot, settings=settings)


class SavedRows(msgspec.Struct, frozen=True):
    """All that a snapshot was built from: each row as JSON, and the settings that were set."""

    revision: int
    rows: Sequence[bytes]
    settings: StoredSettings


class _State(msgspec.Struct, frozen=True):
    """What one build leaves for the next."""

    vendors: Table[str] = msgspec.field(default_factory=Table)
    hosts: Table[Host] = msgspec.field(default_factory=Table)
    pricings: Table[Pricing] = msgspec.field(default_factory=Table)
    models: Table[Model] = msgspec.field(default_factory=Table)
    rate_limits: Table[RateLimit] = msgspec.field(default_factory=Table)
    policies: Table[Policy] = msgspec.field(default_factory=Table)
    host_keys: Table[HostKey] = msgspec.field(default_factory=Table)
    granted: Mapping[str, GrantedModel] = msgspec.field(default_factory=dict)
    slugs: Mapping[str, str] = msgspec.field(default_factory=dict)
    relay_keys: dict[bytes, PresentedKey] = msgspec.field(default_factory=dict)
    bad_relay_keys: Mapping[str, QuarantinedRow] = msgspec.field(default_factory=dict)
    settings: StoredSettings = msgspec.field(default_factory=dict)
    snapshot: Snapshot = msgspec.field(default_factory=Snapshot)


class SnapshotBuilder:
    """Builds snapshot after snapshot, each from the one before it and what has changed since.

    Objects of entities that did not change are the same objects in the next snapshot. A build that
    fails leaves everything as it was. May be called from any thread, one build at a time, from
    :meth:`intake` to :meth:`apply`.
    """

    def __init__(
        self, providers: Mapping[str, UpstreamProvider], backends: Mapping[str, SecretBackend]
    ) -> None:
        self._providers = providers
        self._backends = backends
        self._state = _State()
        self._stored: dict[str, bytes] = {}
        self._plugins = 0
        self._built_with = 0
        self._lock = Lock()

    @property
    def revision(self) -> int:
        """The revision of the last build."""
        return self._state.snapshot.revision

    def intake(self) -> Intake:
        """Where the rows of the next build go."""
        changed = self._plugins != self._built_with
        return Intake(self._stored, self._plugins, OF_PLUGINS if changed else frozenset())

    def plugins_changed(self) -> None:
        """Has the next build, which must be of all rows, compile anew what depends on plugins."""
        self._plugins += 1

    def apply(
        self,
        revision: int,
        intake: Intake,
        settings: StoredSettings,
        deleted: Collection[str] | None = None,
    ) -> Snapshot:
        """The snapshot of the rows of the last one, with those that were taken in and without
        those ``deleted`` (ids); when that is ``None``, of exactly those that were taken in."""
        with self._lock, uncollected(stays=intake.is_large):
            if deleted is None:
                deleted = [i for i in self._stored if i not in intake.seen]
            snapshot = self._build(revision, intake, deleted, settings)
            self._built_with = intake.plugins
            intake.forget_seen()
            return snapshot

    def load(self, revision: int, rows: Iterable[EntityRow], settings: StoredSettings) -> Snapshot:
        """The snapshot of exactly these ``rows``."""
        intake = self.intake()
        with uncollected(stays=intake.is_large):
            intake.add(rows)
            return self.apply(revision, intake, settings)

    def change(
        self,
        revision: int,
        changed: Iterable[EntityRow],
        deleted: Collection[str],
        settings: StoredSettings,
    ) -> Snapshot:
        """The snapshot of the rows of the last one, but for those ``changed`` or new and those
        ``deleted`` (ids)."""
        intake = self.intake()
        intake.add(changed)
        return self.apply(revision, intake, settings, deleted)

    def saved(self) -> SavedRows:
        """What the last snapshot was built from."""
        with self._lock:
            return SavedRows(self.revision, list(self._stored.values()), self._state.settings)

    def _build(
        self, revision: int, intake: Intake, deleted: Collection[str], settings: StoredSettings
    ) -> Snapshot:
        patch = intake.patch(deleted)
        new = sum(i not in self._stored for i in intake.texts)
        entities = len(self._stored) + new - len(patch.deleted)
        step = _Step(self._state, patch, intake.keys, self._providers, self._backends)
        state = step.state(revision, entities, settings)
        # Nothing below can fail: either all of it is the new state, or nothing is.
        self._state = state
        self._stored.update(intake.texts)
        for entity_id in patch.deleted:
            del self._stored[entity_id]
        return state.snapshot


class _Step:
    """Compiles kind after kind, each from the kinds before it."""

    def __init__(
        self,
        old: _State,
        patch: Patch,
        keys: KeyChange,
        providers: Mapping[str, UpstreamProvider],
        backends: Mapping[str, SecretBackend],
    ) -> None:
        self._old = old
        self._patch = patch
        self._keys = keys
        self._providers = providers
        self._backends = backends

    def state(self, revision: int, entities: int, settings: StoredSettings) -> _State:
        """The state after the patch."""
        old, patch = self._old, self._patch
        vendors = advance(
            old.vendors, patch, "provider", specs.ProviderSpec, lambda row, _: row.slug
        )
        hosts = advance(
            old.hosts, patch, "host", specs.HostSpec,
            lambda row, spec: compile_host(row, spec, self._providers, self._backends),
        )  # fmt: skip
        pricings = advance(old.pricings, patch, "pricing", specs.PricingSpec, compile_pricing)
        models = self._models(vendors, hosts, pricings)
        granted = self._granted(models)
        slugs = {host.slug: host.id for host in hosts.compiled.values()}
        rate_limits = advance(
            old.rate_limits, patch, "rate limit", specs.RateLimitSpec, compile_rate_limit
        )
        policies = self._policies(granted, slugs, rate_limits)
        host_keys = self._host_keys(hosts, policies)
        relay_keys, bad_relay_keys = self._relay_keys()
        tables: Sequence[Table[Any]] = (
            vendors, hosts, pricings, models, rate_limits, policies, host_keys,
        )  # fmt: skip
        quarantined = [bad for table in tables for bad in table.problems.values()]
        names, wildcards = self._names(models)
        by_slug, prefixes = self._places(hosts)
        snapshot = Snapshot(
            revision=revision,
            entities=entities,
            relay_keys=relay_keys,
            policies=policies.compiled,
            models=names,
            models_by_id=models.compiled,
            wildcards=wildcards,
            hosts=hosts.compiled,
            hosts_by_slug=by_slug,
            path_prefixes=prefixes,
            host_keys=host_keys.compiled,
            keys_by_host=self._pools(host_keys),
            rate_limits=rate_limits.compiled,
            quarantined=(*quarantined, *bad_relay_keys.values()),
            settings=self._settings(settings),
        )
        return _State(
            vendors, hosts, pricings, models, rate_limits, policies, host_keys, granted, slugs,
            relay_keys, bad_relay_keys, settings, snapshot,
        )  # fmt: skip

    def _models(
        self, vendors: Table[str], hosts: Table[Host], pricings: Table[Pricing]
    ) -> Table[Model]:
        old = self._old
        moved = (
            vendors.differences(old.vendors)
            | hosts.differences(old.hosts)
            | pricings.differences(old.pricings)
        )

        def refers(spec: specs.ModelSpec) -> bool:
            return spec.provider_id in moved or any(
                binding.host_id in moved or binding.pricing_id in moved for binding in spec.bindings
            )

        return advance(
            old.models, self._patch, "model", specs.ModelSpec,
            lambda row, spec: compile_model(
                row, spec, vendors.compiled, hosts.compiled, pricings.compiled
            ),
            refers if moved else None,
        )  # fmt: skip

    def _granted(self, models: Table[Model]) -> Mapping[str, GrantedModel]:
        if models is self._old.models:
            return self._old.granted
        granted = {model.id: granted_model(model) for model in models.compiled.values()}
        return self._old.granted if granted == self._old.granted else granted

    def _policies(
        self,
        granted: Mapping[str, GrantedModel],
        slugs: Mapping[str, str],
        rate_limits: Table[RateLimit],
    ) -> Table[Policy]:
        same = granted is self._old.granted and slugs == self._old.slugs
        moved = rate_limits.differences(self._old.rate_limits)
        if same and not moved and not self._patch.touches("policy"):
            return self._old.policies
        compiler = GrantCompiler(granted.values(), slugs)

        def refers(spec: specs.PolicySpec) -> bool:
            return any(one.rate_limit_id in moved for one in spec.rate_limits)

        stale = refers if moved else None
        return advance(
            self._old.policies, self._patch, "policy", specs.PolicySpec,
            lambda row, spec: compile_policy(row, spec, compiler, rate_limits.compiled),
            stale if same else _every,
        )  # fmt: skip

    def _host_keys(self, hosts: Table[Host], policies: Table[Policy]) -> Table[HostKey]:
        old = self._old
        moved = hosts.differences(old.hosts) | policies.differences(old.policies)

        def refers(spec: specs.HostKeySpec) -> bool:
            return spec.host_id in moved or spec.policy_id in moved

        return advance(
            old.host_keys, self._patch, "host key", specs.HostKeySpec,
            lambda row, spec: compile_host_key(
                row, spec, hosts.compiled, policies.compiled, self._backends
            ),
            refers if moved else None,
        )  # fmt: skip

    def _relay_keys(
        self,
    ) -> tuple[dict[bytes, PresentedKey], Mapping[str, QuarantinedRow]]:
        before, keys = self._old.relay_keys, self._keys
        if not (keys.former or keys.presented or keys.bad):
            return before, self._old.bad_relay_keys
        # copy() takes the table as it is, where dict() would hash every key again.
        presented = before.copy()
        for digest, key_id in keys.former:
            if digest in presented and presented[digest].key.id == key_id:
                del presented[digest]
        presented.update(keys.presented)
        bad = {**self._old.bad_relay_keys, **keys.bad}
        return presented, {i: problem for i, problem in bad.items() if problem is not None}

    def _names(
        self, models: Table[Model]
    ) -> tuple[Mapping[str, Model], tuple[tuple[str, Model], ...]]:
        if models is self._old.models:
            return self._old.snapshot.models, self._old.snapshot.wildcards
        return _names(models.compiled, models.specs)

    def _places(self, hosts: Table[Host]) -> tuple[Mapping[str, Host], frozenset[str]]:
        if hosts is self._old.hosts:
            return self._old.snapshot.hosts_by_slug, self._old.snapshot.path_prefixes
        found = hosts.compiled.values()
        prefixes = frozenset(host.path_prefix for host in found if host.path_prefix)
        return {host.slug: host for host in found}, prefixes

    def _pools(self, keys: Table[HostKey]) -> Mapping[str, tuple[HostKey, ...]]:
        if keys is self._old.host_keys:
            return self._old.snapshot.keys_by_host
        pools: defaultdict[str, list[HostKey]] = defaultdict(list)
        for key in sorted(keys.compiled.values(), key=lambda key: (key.priority, key.id)):
            pools[key.host_id].append(key)
        return {host_id: tuple(pool) for host_id, pool in pools.items()}

    def _settings(self, settings: StoredSettings) -> RuntimeSettings:
        if settings == self._old.settings:
            return self._old.snapshot.settings
        return read_runtime_settings(settings)


def _every(_spec: specs.Spec) -> bool:
    return True


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
