"""Grants and denies of a policy, compiled into constant-time answers.

A reference is ``provider``, ``provider/model``, ``model``, ``@host``, ``provider@host``,
``provider/model@host`` or ``*``. A model is named by its name or its slug, providers and hosts by
their slugs. A deny wins over any grant.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec


class GrantedModel(msgspec.Struct, frozen=True):
    """What references can say about one model: its ways to be named and the hosts that serve it."""

    id: str
    name: str
    slug: str
    provider_slug: str
    host_ids: frozenset[str]


class Grants(msgspec.Struct, frozen=True):
    """Compiled grants: for each granted model, the hosts it may be called at; for each model that
    a deny took hosts from, which denies took which."""

    hosts_by_model: Mapping[str, frozenset[str]] = msgspec.field(default_factory=dict)
    denied: Mapping[str, tuple[tuple[str, frozenset[str]], ...]] = msgspec.field(
        default_factory=dict
    )

    def hosts(self, model_id: str) -> frozenset[str] | None:
        """The ids of the hosts at which the model may be called; ``None`` when it is not
        granted."""
        return self.hosts_by_model.get(model_id)

    def allows(self, model_id: str, host_id: str) -> bool:
        """Whether the model may be called at this host."""
        hosts = self.hosts_by_model.get(model_id)
        return hosts is not None and host_id in hosts

    def deny_of(self, model_id: str, host_id: str | None = None) -> str | None:
        """The first deny that takes away the model (at this host) from what is granted; ``None``
        where no grant gives it in the first place."""
        for reference, hosts in self.denied.get(model_id, ()):
            if host_id is None or host_id in hosts:
                return reference
        return None


NOTHING = Grants()


class GrantCompiler:
    """Compiles the grants of many policies against one set of models; equal lists are compiled
    once."""

    def __init__(self, models: Iterable[GrantedModel], host_ids_by_slug: Mapping[str, str]) -> None:
        self._models = {model.id: model for model in models}
        self._host_ids = host_ids_by_slug
        self._index: defaultdict[str, set[str]] = defaultdict(set)
        self._compiled: dict[tuple[tuple[str, ...], tuple[str, ...]], Grants] = {}
        for model in self._models.values():
            for name in _names(model):
                self._index[name].add(model.id)

    def compile(self, grants: Sequence[str], denies: Sequence[str]) -> Grants:
        """The models and hosts that remain of ``grants`` after ``denies``."""
        key = (tuple(grants), tuple(denies))
        found = self._compiled.get(key)
        if found is None:
            found = self._compiled[key] = self._compile(grants, denies)
        return found

    def reach(self, reference: str, model_id: str) -> frozenset[str]:
        """The ids of the hosts at which ``reference`` means the model; empty where it does not."""
        models, host_id = self._meaning(reference)
        return self._hosts(model_id, host_id) if model_id in models else frozenset()

    def _compile(self, grants: Sequence[str], denies: Sequence[str]) -> Grants:
        allowed: defaultdict[str, set[str]] = defaultdict(set)
        for reference in grants:
            for model_id, hosts in self._matches(reference):
                allowed[model_id] |= hosts
        denied: defaultdict[str, list[tuple[str, frozenset[str]]]] = defaultdict(list)
        for reference in denies:
            for model_id, hosts in self._matches(reference):
                if model_id in allowed:
                    denied[model_id].append((reference, hosts & allowed[model_id]))
                    allowed[model_id] -= hosts
                    if not allowed[model_id]:
                        del allowed[model_id]
        return Grants(
            {model_id: frozenset(hosts) for model_id, hosts in allowed.items()},
            {
                model_id: tuple(one for one in taken if one[1] or model_id not in allowed)
                for model_id, taken in denied.items()
            },
        )

    def _matches(self, reference: str) -> Iterator[tuple[str, frozenset[str]]]:
        """The models that ``reference`` means, each with the hosts that it means of it."""
        models, host_id = self._meaning(reference)
        for model_id in models:
            hosts = self._hosts(model_id, host_id)
            if hosts or host_id is None:
                yield model_id, hosts

    def _meaning(self, reference: str) -> tuple[Collection[str], str | None]:
        """The models that ``reference`` names, and the host that it names beside them."""
        named = self._named(reference)
        if named is not None:
            return named, None
        base, at, slug = reference.rpartition("@")
        host_id = self._host_ids.get(slug) if at else None
        if host_id is None:
            return (), None
        return (self._named(base) or ()) if base else self._models, host_id

    def _hosts(self, model_id: str, host_id: str | None) -> frozenset[str]:
        hosts = self._models[model_id].host_ids
        return hosts if host_id is None else hosts & {host_id}

    def _named(self, reference: str) -> Collection[str] | None:
        if reference == "*":
            return self._models
        return self._index.get(reference)


def _names(model: GrantedModel) -> set[str]:
    provider = model.provider_slug
    return {
        provider,
        model.name,
        model.slug,
        f"{provider}/{model.name}",
        f"{provider}/{model.slug}",
    }
