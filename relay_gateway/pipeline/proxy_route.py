"""Which host a request in proxy mode goes to, and whether the caller's policy lets it.

The caller speaks to the host itself, so ``model`` is what the host calls it. A name that a binding
of the host has as its upstream name means that model; any other is looked up as in gateway mode.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from relay_gateway.catalog.snapshot import Binding, Host, Model, Policy, Snapshot
from relay_gateway.errors import RequestRefusedError
from relay_gateway.pipeline.route import not_allowed


class Served(NamedTuple):
    """A model as a host serves it."""

    model: Model
    binding: Binding


class Errand(msgspec.Struct, frozen=True):
    """Where a request in proxy mode wants to go. ``path`` is what follows the ``prefix``, if that
    is one; ``names_model`` says that it belongs to an endpoint whose requests name a model."""

    prefix: str | None
    path: str
    query: bytes
    pin: str | None
    names_model: bool


class _Index(msgspec.Struct):
    """What is looked up in one snapshot."""

    snapshot: Snapshot
    by_prefix: dict[str, list[Host]] = msgspec.field(default_factory=lambda: defaultdict(list))
    by_upstream_name: dict[str, list[Served]] = msgspec.field(
        default_factory=lambda: defaultdict(list)
    )
    hosts_of: dict[str, frozenset[str]] = msgspec.field(default_factory=dict)


class ProxyRouter:
    """Chooses hosts; remembers what it looked up for as long as the snapshot is current."""

    def __init__(self) -> None:
        self._index = _Index(Snapshot())

    def host(self, snapshot: Snapshot, policy: Policy | None, errand: Errand) -> Host | None:
        """The host that is certain without the model: the pinned one, or the only one with the
        prefix. ``policy`` is ``None`` for a caller without a relay key.

        Raises :class:`RequestRefusedError` where no host can come of it.
        """
        if errand.pin is not None:
            return self._checked(snapshot, policy, _pinned(snapshot, errand.pin))
        if errand.prefix is None or policy is None:
            return None
        hosts = self._of(snapshot).by_prefix[errand.prefix]
        allowed = [host for host in hosts if self._allows(snapshot, policy, host)]
        if not allowed:
            raise _no_host(f"the hosts at /{errand.prefix}")
        open_ones = [host for host in allowed if host.proxy_mode]
        if not open_ones:
            raise _closed(allowed[0])
        return open_ones[0] if len(open_ones) == 1 else None

    def by_model(
        self, snapshot: Snapshot, policy: Policy, errand: Errand, name: str, wire_format: str
    ) -> Host:
        """The host for the model ``name``, among those with the errand's prefix where it has one.

        Raises :class:`RequestRefusedError`.
        """
        served = self._of(snapshot).by_upstream_name.get(name) or _named(snapshot, name)
        granted = [one for one in served if _grants(policy, one)]
        if not granted:
            raise not_allowed(policy, served[0].model) if served else _not_granted(name)
        here = [one.binding for one in granted if _fits(one.binding.host, errand)]
        spoken = [one for one in here if not wire_format or wire_format in one.wire_formats]
        usable = [one for one in spoken if one.host.proxy_mode]
        if spoken and not usable:
            raise _closed(spoken[0].host)
        if not usable:
            raise _unserved(name)
        best = min(one.priority for one in usable)
        return _drawn([one for one in usable if one.priority == best]).host

    def judge(
        self, snapshot: Snapshot, policy: Policy | None, host: Host, name: str
    ) -> Served | None:
        """What ``name`` means at ``host``; raises :class:`RequestRefusedError` (403) where the
        policy does not grant it. Without a policy it may be unknown."""
        called = self._of(snapshot).by_upstream_name.get(name, ())
        served = [one for one in called if _at(one, host)]
        served = served or [one for one in _named(snapshot, name) if _at(one, host)]
        if policy is None:
            return served[0] if served else None
        for one in served:
            if policy.grants.allows(one.model.id, host.id):
                return one
        raise not_allowed(policy, served[0].model, host) if served else _not_granted(name)

    def _checked(self, snapshot: Snapshot, policy: Policy | None, host: Host) -> Host:
        if not host.proxy_mode:
            raise _closed(host)
        if policy is not None and not self._allows(snapshot, policy, host):
            raise _no_host(f"the host {host.slug!r}")
        return host

    def _allows(self, snapshot: Snapshot, policy: Policy, host: Host) -> bool:
        """Whether the policy grants any model at ``host``."""
        known = self._of(snapshot).hosts_of
        hosts = known.get(policy.id)
        if hosts is None:
            granted = policy.grants.hosts_by_model.values()
            hosts = known[policy.id] = frozenset().union(*granted)
        return host.id in hosts

    def _of(self, snapshot: Snapshot) -> _Index:
        if self._index.snapshot is not snapshot:
            index = self._index = _Index(snapshot)
            for host in snapshot.hosts.values():
                if host.path_prefix is not None:
                    index.by_prefix[host.path_prefix].append(host)
            for model in snapshot.models_by_id.values():
                for binding in model.bindings:
                    index.by_upstream_name[binding.upstream_name].append(Served(model, binding))
        return self._index


def upstream_path(base: str, path: str) -> str:
    """``path`` below the path of a host's base URL; a segment that ends the one and begins the
    other, as ``/v1`` does, is there once."""
    last = base.rpartition("/")[2]
    if last and path[1:].partition("/")[0] == last:
        return base + path[1 + len(last) :]
    return base + path


def _pinned(snapshot: Snapshot, slug: str) -> Host:
    host = snapshot.hosts_by_slug.get(slug)
    if host is None:
        raise RequestRefusedError(
            400, "invalid_request", f"no host is called {slug!r}", param="upstream-host"
        )
    return host


def _named(snapshot: Snapshot, name: str) -> list[Served]:
    """What callers of the gateway mean by ``name``."""
    model, pinned = snapshot.find_model(name)
    if model is None:
        return []
    hosts = [binding for binding in model.bindings if pinned is None or binding.host is pinned]
    return [Served(model, binding) for binding in hosts]


def _at(one: Served, host: Host) -> bool:
    return one.binding.host is host


def _grants(policy: Policy, one: Served) -> bool:
    return policy.grants.allows(one.model.id, one.binding.host.id)


def _fits(host: Host, errand: Errand) -> bool:
    return errand.prefix is None or host.path_prefix == errand.prefix


def _drawn(bindings: Sequence[Binding]) -> Binding:
    weights = [binding.weight for binding in bindings]
    if not any(weights):
        return bindings[0]
    return random.choices(bindings, weights)[0]  # noqa: S311 - chance, not secrecy


def _closed(host: Host) -> RequestRefusedError:
    return RequestRefusedError(
        403, "proxy_mode_disabled", f"the host {host.slug!r} may not be reached in proxy mode"
    )


def _no_host(what: str) -> RequestRefusedError:
    return RequestRefusedError(
        403, "model_not_allowed", f"the policy of this relay key grants no model at {what}"
    )


def _not_granted(name: str) -> RequestRefusedError:
    return RequestRefusedError(
        403,
        "model_not_allowed",
        f"the policy of this relay key does not grant the model {name!r} here",
        param="model",
    )


def _unserved(name: str) -> RequestRefusedError:
    return RequestRefusedError(
        400,
        "invalid_request",
        f"no host that this request may go to serves the model {name!r} at this endpoint; "
        "pin one, or ask at its path prefix",
        param="model",
    )
