"""From rows to snapshots: what can serve is compiled, the rest reported, what is the same shared.

One bad row never keeps the others from loading: it is left out, with the reason, as if it were
disabled. What refers to it is then left out as if the entity did not exist.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

import msgspec

from relay_gateway.catalog import specs
from relay_gateway.catalog.compile import (
    UNREADABLE,
    compile_host,
    compile_host_key,
    compile_model,
    compile_policy,
    compile_pricing,
    compile_relay_key,
    digests_of,
    granted_model,
    quarantine,
    seal_binding,
)
from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.catalog.garbage import uncollected
from relay_gateway.catalog.grants import GrantCompiler, GrantedModel
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

__all__ = ["SavedRows", "SnapshotBuilder", "build_snapshot", "seal_binding"]

StoredSettings = Mapping[str, Mapping[str, Any]]
MANY = 1000
"""So many changed rows are worth keeping the garbage collector away."""
_RELAY_KEY = "relay key"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(EntityRow).decode


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


@dataclass(frozen=True, slots=True)
class SavedRows:
    """All that a snapshot was built from: each row as JSON, and the settings that were set."""

    revision: int
    rows: Sequence[bytes]
    settings: StoredSettings


@dataclass(frozen=True, slots=True)
class _State:
    """What one build leaves for the next."""

    vendors: Table[str] = field(default_factory=Table)
    hosts: Table[Host] = field(default_factory=Table)
    pricings: Table[Pricing] = field(default_factory=Table)
    models: Table[Model] = field(default_factory=Table)
    policies: Table[Policy] = field(default_factory=Table)
    host_keys: Table[HostKey] = field(default_factory=Table)
    granted: Mapping[str, GrantedModel] = field(default_factory=dict)
    slugs: Mapping[str, str] = field(default_factory=dict)
    relay_keys: dict[bytes, PresentedKey] = field(default_factory=dict)
    bad_relay_keys: Mapping[str, QuarantinedRow] = field(default_factory=dict)
    settings: StoredSettings = field(default_factory=dict)
    snapshot: Snapshot = field(default_factory=Snapshot)


class SnapshotBuilder:
    """Builds snapshot after snapshot, each from the one before it and what has changed since.

    Objects of entities that did not change are the same objects in the next snapshot. A build that
    fails leaves everything as it was. May be called from any thread, one build at a time.
    """

    def __init__(
        self, providers: Mapping[str, UpstreamProvider], backends: Mapping[str, SecretBackend]
    ) -> None:
        self._providers = providers
        self._backends = backends
        self._state = _State()
        self._stored: dict[str, bytes] = {}
        self._lock = Lock()

    @property
    def revision(self) -> int:
        """The revision of the last build."""
        return self._state.snapshot.revision

    def load(self, revision: int, rows: Iterable[EntityRow], settings: StoredSettings) -> Snapshot:
        """The snapshot of exactly these ``rows``."""
        with self._lock, uncollected():
            encoded = [(row, _encode(row)) for row in rows]
            gone = self._stored.keys() - {row.id for row, _ in encoded}
            changed = [item for item in encoded if self._stored.get(item[0].id) != item[1]]
            return self._build(revision, changed, gone, settings)

    def change(
        self,
        revision: int,
        changed: Sequence[EntityRow],
        deleted: Collection[str],
        settings: StoredSettings,
    ) -> Snapshot:
        """The snapshot of the rows of the last one, but for those ``changed`` or new and those
        ``deleted`` (ids)."""
        with self._lock, uncollected() if len(changed) >= MANY else nullcontext():
            encoded = [(row, _encode(row)) for row in changed]
            return self._build(revision, encoded, deleted, settings)

    def saved(self) -> SavedRows:
        """What the last snapshot was built from."""
        with self._lock:
            return SavedRows(self.revision, list(self._stored.values()), self._state.settings)

    def _build(
        self,
        revision: int,
        changed: Sequence[tuple[EntityRow, bytes]],
        deleted: Collection[str],
        settings: StoredSettings,
    ) -> Snapshot:
        by_kind: defaultdict[str, list[EntityRow]] = defaultdict(list)
        for row, _ in changed:
            by_kind[row.kind].append(row)
        encoded = {row.id: text for row, text in changed}
        former = [_decode(self._stored[i]) for i in (*encoded, *deleted) if i in self._stored]
        patch = Patch(by_kind, frozenset(deleted), former)
        entities = len(self._stored) + len(encoded) - len(former)
        state = _Step(self._state, patch, self._providers, self._backends).state(
            revision, entities, settings
        )
        # Nothing below can fail: either all of it is the new state, or nothing is.
        self._state = state
        self._stored.update(encoded)
        for entity_id in deleted:
            self._stored.pop(entity_id, None)
        return state.snapshot


class _Step:
    """Compiles kind after kind, each from the kinds before it."""

    def __init__(
        self,
        old: _State,
        patch: Patch,
        providers: Mapping[str, UpstreamProvider],
        backends: Mapping[str, SecretBackend],
    ) -> None:
        self._old = old
        self._patch = patch
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
            lambda row, spec: compile_host(row, spec, self._providers),
        )  # fmt: skip
        pricings = advance(old.pricings, patch, "pricing", specs.PricingSpec, compile_pricing)
        models = self._models(vendors, hosts, pricings)
        granted = self._granted(models)
        slugs = {host.slug: host.id for host in hosts.compiled.values()}
        policies = self._policies(granted, slugs)
        host_keys = self._host_keys(hosts, policies)
        relay_keys, bad_relay_keys = self._relay_keys()
        tables: Sequence[Table[Any]] = (vendors, hosts, pricings, models, policies, host_keys)
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
            quarantined=(*quarantined, *bad_relay_keys.values()),
            settings=self._settings(settings),
        )
        return _State(
            vendors, hosts, pricings, models, policies, host_keys, granted, slugs,
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
        self, granted: Mapping[str, GrantedModel], slugs: Mapping[str, str]
    ) -> Table[Policy]:
        same = granted is self._old.granted and slugs == self._old.slugs
        if same and not self._patch.touches("policy"):
            return self._old.policies
        compiler = GrantCompiler(granted.values(), slugs)
        return advance(
            self._old.policies, self._patch, "policy", specs.PolicySpec,
            lambda row, spec: compile_policy(row, spec, compiler),
            None if same else _every,
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
        """Relay keys depend on nothing but their rows, so that there may be very many."""
        before = self._old.relay_keys
        if not self._patch.touches(_RELAY_KEY):
            return before, self._old.bad_relay_keys
        # copy() takes the table as it is, where dict() would hash every key again.
        presented, bad = before.copy(), dict(self._old.bad_relay_keys)
        for row in self._patch.former:
            if row.kind == _RELAY_KEY:
                bad.pop(row.id, None)
                for digest in digests_of(row):
                    if digest in presented and presented[digest].key.id == row.id:
                        del presented[digest]
        for row in self._patch.changed[_RELAY_KEY]:
            try:
                presented.update(compile_relay_key(row))
            except UNREADABLE as error:
                bad[row.id] = quarantine(row, error)
        return presented, bad

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
