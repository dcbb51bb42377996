"""Where a request may go: an ordered plan of hosts and keys, or a precise refusal."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from relay_gateway.catalog.snapshot import Binding, Host, HostKey, Model, Policy, Snapshot
from relay_gateway.errors import RequestRefusedError


@dataclass(frozen=True, slots=True)
class Candidate:
    """A host that may be asked, as what, and with which keys (empty for one without
    authentication)."""

    model: Model
    binding: Binding
    keys: tuple[HostKey, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Candidates in groups of equal priority, the best group first. Within a group weights
    decide."""

    model: Model
    groups: tuple[tuple[Candidate, ...], ...]

    def candidates(self) -> Sequence[Candidate]:
        """All candidates in the order in which this request should try them."""
        if len(self.groups) == 1 and len(self.groups[0]) == 1:
            return self.groups[0]
        return [candidate for group in self.groups for candidate in _weighted(group)]


class Router:
    """Makes plans and remembers them for as long as the snapshot they were made from is current."""

    def __init__(self) -> None:
        self._snapshot = Snapshot()
        self._plans: dict[tuple[str, str, str, str], Plan] = {}

    def route(
        self,
        snapshot: Snapshot,
        policy: Policy | None,
        name: str,
        wire_format: str,
        pin: str | None,
    ) -> Plan:
        """The plan for a model named ``name`` under ``policy``; ``pin`` is the slug of a wanted
        host."""
        model, pinned = snapshot.find_model(name)
        if model is None:
            raise RequestRefusedError(
                404, "model_not_found", f"no model is called {name!r}", param="model"
            )
        if pin is not None:
            pinned = snapshot.hosts_by_slug.get(pin)
            if pinned is None:
                raise RequestRefusedError(
                    400, "invalid_request", f"no host is called {pin!r}", param="upstream-host"
                )
        if snapshot is not self._snapshot:
            self._snapshot, self._plans = snapshot, {}
        where = pinned.id if pinned else ""
        key = (policy.id if policy else "", model.id, wire_format, where)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = make_plan(snapshot, policy, model, wire_format, pinned)
        return plan


def make_plan(
    snapshot: Snapshot, policy: Policy | None, model: Model, wire_format: str, pinned: Host | None
) -> Plan:
    """The plan for ``model``: its own bindings by priority, then those of its fallback models."""
    groups = _groups(snapshot, policy, model, wire_format, pinned)
    for model_id in model.fallbacks:
        fallback = snapshot.models_by_id.get(model_id)
        if fallback is not None and policy is not None and policy.grants.hosts(model_id):
            try:
                groups += _groups(snapshot, policy, fallback, wire_format, pinned)
            except RequestRefusedError:
                continue
    return Plan(model, tuple(groups))


def usable_models(snapshot: Snapshot, policy: Policy | None) -> list[Model]:
    """The models that a request under ``policy`` can be routed to, by name."""
    if policy is None:
        return []
    return sorted(
        (m for m in snapshot.models_by_id.values() if is_usable(snapshot, policy, m)),
        key=lambda model: model.name,
    )


def is_usable(snapshot: Snapshot, policy: Policy, model: Model) -> bool:
    """Whether ``policy`` grants the model at a host that it also has a key for."""
    allowed = policy.grants.hosts(model.id) or frozenset()
    return any(
        binding.host.no_auth or _candidate(snapshot, policy, model, binding).keys
        for binding in model.bindings
        if binding.host.id in allowed
    )


def _groups(
    snapshot: Snapshot, policy: Policy | None, model: Model, wire_format: str, pinned: Host | None
) -> list[tuple[Candidate, ...]]:
    allowed = policy.grants.hosts(model.id) if policy is not None else None
    if allowed is None or policy is None:
        raise _not_allowed(model)
    bindings = [binding for binding in model.bindings if pinned is None or binding.host is pinned]
    if not bindings:
        raise _unserved(model, pinned)
    bindings = [binding for binding in bindings if binding.host.id in allowed]
    if not bindings:
        raise _not_allowed(model)
    speaking = [binding for binding in bindings if wire_format in binding.wire_formats]
    if not speaking:
        raise RequestRefusedError(
            400,
            "invalid_request",
            f"no host of model {model.name!r} can be asked in the format of this endpoint",
            param="model",
        )
    candidates = [_candidate(snapshot, policy, model, binding) for binding in speaking]
    usable = [found for found in candidates if found.keys or found.binding.host.no_auth]
    if not usable:
        raise RequestRefusedError(
            503,
            "no_available_host_key",
            f"no host of model {model.name!r} has a host key that this policy may draw",
            retry_after=60,
        )
    ordered = groupby(usable, key=lambda candidate: candidate.binding.priority)
    return [tuple(group) for _, group in ordered]


def _candidate(snapshot: Snapshot, policy: Policy, model: Model, binding: Binding) -> Candidate:
    host_id = binding.host.id
    wanted = policy.host_key_ids
    keys = tuple(
        key
        for key in snapshot.keys_by_host.get(host_id, ())
        if (not wanted or key.id in wanted) and key.policy.grants.allows(model.id, host_id)
    )
    return Candidate(model, binding, () if binding.host.no_auth else keys)


def _weighted(group: tuple[Candidate, ...]) -> list[Candidate]:
    """A random order in which each next one is drawn by weight (weight 0 comes last)."""
    if len(group) == 1:
        return list(group)
    # Efraimidis and Spirakis: the largest u^(1/w) first is a draw by weight without replacement.
    drawn = [(_draw(candidate.binding.weight), index) for index, candidate in enumerate(group)]
    return [group[index] for _, index in sorted(drawn, reverse=True)]


def _draw(weight: int) -> float:
    return random.random() ** (1 / weight) if weight else -1.0  # noqa: S311 - chance, not secrecy


def _not_allowed(model: Model) -> RequestRefusedError:
    return RequestRefusedError(
        403,
        "model_not_allowed",
        f"the policy of this relay key does not grant the model {model.name!r}",
        param="model",
    )


def _unserved(model: Model, pinned: Host | None) -> RequestRefusedError:
    where = f"host {pinned.slug!r} does not serve" if pinned else "no enabled host serves"
    status = 400 if pinned else 503
    code = "invalid_request" if pinned else "no_available_host"
    return RequestRefusedError(
        status,
        code,
        f"{where} the model {model.name!r}",
        param="model",
        retry_after=None if pinned else 60,
    )
