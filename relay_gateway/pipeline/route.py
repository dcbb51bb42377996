"""Where a request may go: an ordered plan of hosts and keys, or a precise refusal."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from enum import IntEnum
from itertools import groupby

import msgspec
from msgspec.structs import replace

from relay_gateway.catalog.snapshot import (
    Binding,
    Deprecation,
    Host,
    HostKey,
    Model,
    Policy,
    Snapshot,
)
from relay_gateway.errors import RequestRefusedError
from relay_gateway.pipeline.translate import Speech

LATER_SECONDS = 60.0
"""After which a caller is told to ask again what only a change of the catalog can help."""
MAX_REPLACEMENTS = 8
"""So many times a model that has ended may be replaced by one that has ended, too."""


class Candidate(msgspec.Struct, frozen=True):
    """A host that may be asked, as what, and with which keys (empty for one without
    authentication). ``speech`` is what it is asked in where that is not the caller's own format."""

    model: Model
    binding: Binding
    keys: tuple[HostKey, ...]
    speech: Speech | None = None


Speak = Callable[[str, Binding], Speech | None]
"""What to ask a host in that does not speak a wire format; ``None`` where it cannot be asked."""


def untranslated(_wire_format: str, _binding: Binding) -> Speech | None:
    """The rule of a gateway that translates nothing."""
    return None


class Obstacle(IntEnum):
    """What keeps a request from a binding, in the order in which it is looked for."""

    PIN = 1
    """Another host is pinned."""
    GRANT = 2
    """The policy does not grant the model at this host."""
    FORMAT = 3
    """The host cannot be asked in the format of the endpoint."""
    KEYS = 4
    """The host has no key that the policy may draw and that may serve the model."""


class Weighed(msgspec.Struct, frozen=True):
    """A binding as a candidate, and the first thing that keeps it from being one."""

    candidate: Candidate
    obstacle: Obstacle | None


class Plan(msgspec.Struct, frozen=True):
    """Candidates in groups of equal priority, the best group first. Within a group weights
    decide. ``deprecation`` is that of the model that was asked for, ``replaced`` that model where
    it has ended and another one serves."""

    model: Model
    groups: tuple[tuple[Candidate, ...], ...]
    deprecation: Deprecation | None = None
    replaced: Model | None = None

    def candidates(self) -> Sequence[Candidate]:
        """All candidates in the order in which this request should try them."""
        if len(self.groups) == 1 and len(self.groups[0]) == 1:
            return self.groups[0]
        return [candidate for group in self.groups for candidate in _weighted(group)]


class Router:
    """Makes plans and remembers them for as long as the snapshot they were made from is current."""

    def __init__(self, speak: Speak = untranslated) -> None:
        self._speak = speak
        self._snapshot = Snapshot()
        self._plans: dict[tuple[str, str, str, str, str], Plan] = {}

    def route(
        self,
        snapshot: Snapshot,
        policy: Policy | None,
        name: str,
        wire_format: str,
        pin: str | None,
        now: float = 0.0,
    ) -> Plan:
        """The plan for a model named ``name`` under ``policy``; ``pin`` is the slug of a wanted
        host, ``now`` the time since the epoch, at which a model may have ended."""
        asked, pinned = find(snapshot, name, pin)
        model = asked if asked.deprecation is None else in_force(snapshot, asked, now)
        if snapshot is not self._snapshot:
            self._snapshot, self._plans = snapshot, {}
        where = pinned.id if pinned else ""
        key = (policy.id if policy else "", model.id, wire_format, where, asked.id)
        plan = self._plans.get(key)
        if plan is None:
            plan = make_plan(snapshot, policy, model, wire_format, pinned, self._speak)
            if asked.deprecation is not None:
                replaced = asked if model is not asked else None
                plan = replace(plan, deprecation=asked.deprecation, replaced=replaced)
            self._plans[key] = plan
        return plan


def find(snapshot: Snapshot, name: str, pin: str | None) -> tuple[Model, Host | None]:
    """The model that ``name`` means and the host that it or ``pin``, a slug, wants."""
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
    return model, pinned


def in_force(snapshot: Snapshot, model: Model, now: float) -> Model:
    """The model that serves for ``model`` at a time since the epoch: itself until it ends, then its
    replacement; still itself where there is none that can serve."""
    for _ in range(MAX_REPLACEMENTS):
        end = model.deprecation
        if end is None or end.sunset is None or now < end.sunset or end.replacement_id is None:
            return model
        follower = snapshot.models_by_id.get(end.replacement_id)
        if follower is None:
            return model
        model = follower
    return model


def make_plan(
    snapshot: Snapshot,
    policy: Policy | None,
    model: Model,
    wire_format: str,
    pinned: Host | None,
    speak: Speak = untranslated,
) -> Plan:
    """The plan for ``model``: its own bindings by priority, then those of its fallback models."""
    groups = _groups(snapshot, policy, model, wire_format, pinned, speak)
    for fallback in granted_fallbacks(snapshot, policy, model):
        try:
            groups += _groups(snapshot, policy, fallback, wire_format, pinned, speak)
        except RequestRefusedError:
            continue
    return Plan(model, tuple(groups))


def granted_fallbacks(snapshot: Snapshot, policy: Policy | None, model: Model) -> list[Model]:
    """The models that may stand in for ``model``, in order."""
    if policy is None:
        return []
    return [
        snapshot.models_by_id[model_id]
        for model_id in model.fallbacks
        if model_id in snapshot.models_by_id and policy.grants.hosts(model_id)
    ]


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
    snapshot: Snapshot,
    policy: Policy | None,
    model: Model,
    wire_format: str,
    pinned: Host | None,
    speak: Speak,
) -> list[tuple[Candidate, ...]]:
    if policy is None or policy.grants.hosts(model.id) is None:
        raise not_allowed(policy, model)
    found = weigh(snapshot, policy, model, wire_format, pinned, speak)
    usable = [one.candidate for one in found if one.obstacle is None]
    if not usable:
        furthest = max((one.obstacle or 0 for one in found), default=0)
        raise _refusal(policy, model, pinned, furthest)
    ordered = groupby(usable, key=lambda candidate: candidate.binding.priority)
    return [tuple(group) for _, group in ordered]


def weigh(
    snapshot: Snapshot,
    policy: Policy,
    model: Model,
    wire_format: str,
    pinned: Host | None,
    speak: Speak = untranslated,
) -> list[Weighed]:
    """Every binding of ``model`` by priority, each with what keeps this request from it."""
    allowed = policy.grants.hosts(model.id) or frozenset()
    found = []
    for binding in model.bindings:
        host, obstacle = binding.host, None
        candidate = _candidate(snapshot, policy, model, binding)
        if pinned is not None and host is not pinned:
            obstacle = Obstacle.PIN
        elif host.id not in allowed:
            obstacle = Obstacle.GRANT
        elif wire_format not in binding.wire_formats:
            candidate = replace(candidate, speech=speak(wire_format, binding))
            if candidate.speech is None:
                obstacle = Obstacle.FORMAT
            elif not (candidate.keys or host.no_auth):
                obstacle = Obstacle.KEYS
        elif not (candidate.keys or host.no_auth):
            obstacle = Obstacle.KEYS
        found.append(Weighed(candidate, obstacle))
    return found


def _refusal(
    policy: Policy, model: Model, pinned: Host | None, furthest: int
) -> RequestRefusedError:
    """Why no binding can be used: what stopped the one that came furthest."""
    if furthest == Obstacle.KEYS:
        return RequestRefusedError(
            503,
            "no_available_host_key",
            f"no host of model {model.name!r} has a host key that this policy may draw",
            retry_after=LATER_SECONDS,
        )
    if furthest == Obstacle.FORMAT:
        return RequestRefusedError(
            400,
            "invalid_request",
            f"no host of model {model.name!r} can be asked in the format of this endpoint",
            param="model",
        )
    if furthest == Obstacle.GRANT:
        return not_allowed(policy, model, pinned)
    return _unserved(model, pinned)


def _candidate(snapshot: Snapshot, policy: Policy, model: Model, binding: Binding) -> Candidate:
    host_id = binding.host.id
    wanted = policy.host_key_ids
    all_keys = snapshot.keys_by_host.get(host_id, ())
    keys = tuple(
        key
        for key in all_keys
        if (not wanted or key.id in wanted) and key.policy.grants.allows(model.id, host_id)
    )
    if len(keys) == len(all_keys):
        keys = all_keys  # the same object for as many plans as can be: pools hang on it
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


def not_allowed(
    policy: Policy | None, model: Model, host: Host | None = None
) -> RequestRefusedError:
    """The refusal of a model that is not granted (at ``host``), with the rule that decides."""
    where = f" at host {host.slug!r}" if host is not None else ""
    if policy is None:
        why = "the policy of this relay key is disabled or cannot be loaded, and grants no model"
    else:
        deny = policy.grants.deny_of(model.id, host.id if host is not None else None)
        whose = f"the policy {policy.slug!r} of this relay key"
        why = f"no grant of {whose} matches the model {model.name!r}{where}"
        if deny is not None:
            why = f"{whose} denies the model {model.name!r}{where} by its rule {deny!r}"
    return RequestRefusedError(403, "model_not_allowed", why, param="model")


def _unserved(model: Model, pinned: Host | None) -> RequestRefusedError:
    where = f"host {pinned.slug!r} does not serve" if pinned else "no enabled host serves"
    status = 400 if pinned else 503
    code = "invalid_request" if pinned else "no_available_host"
    return RequestRefusedError(
        status,
        code,
        f"{where} the model {model.name!r}",
        param="model",
        retry_after=None if pinned else LATER_SECONDS,
    )
