"""The table of the eight kinds: names, models, and which of their fields refer to which kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from relay_gateway.catalog import specs


class ReferenceField(msgspec.Struct, frozen=True):
    """A field that holds ids of another kind. ``path`` is camelCase; ``[]`` steps into a list."""

    path: str
    target: str


class Kind(msgspec.Struct, frozen=True):
    """One catalog kind. ``name`` is singular with spaces (as in messages), ``plural`` the path
    segment."""

    name: str
    plural: str
    spec: type[specs.Spec]
    references: tuple[ReferenceField, ...] = ()


_KINDS = (
    Kind("provider", "providers", specs.ProviderSpec),
    Kind("host", "hosts", specs.HostSpec),
    Kind("pricing", "pricings", specs.PricingSpec),
    Kind(
        "model",
        "models",
        specs.ModelSpec,
        (
            ReferenceField("providerId", "provider"),
            ReferenceField("bindings[].hostId", "host"),
            ReferenceField("bindings[].pricingId", "pricing"),
            ReferenceField("fallbacks[]", "model"),
            ReferenceField("deprecated.replacementId", "model"),
        ),
    ),
    Kind("rate limit", "rate-limits", specs.RateLimitSpec),
    Kind(
        "policy",
        "policies",
        specs.PolicySpec,
        (
            ReferenceField("hostKeyIds[]", "host key"),
            ReferenceField("rateLimits[].rateLimitId", "rate limit"),
        ),
    ),
    Kind(
        "host key",
        "host-keys",
        specs.HostKeySpec,
        (ReferenceField("hostId", "host"), ReferenceField("policyId", "policy")),
    ),
    Kind(
        "relay key",
        "relay-keys",
        specs.RelayKeySpec,
        (
            ReferenceField("policyId", "policy"),
            ReferenceField("rateLimitIds[]", "rate limit"),
        ),
    ),
)

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _KINDS}
"""The kinds by singular name, each after the kinds it must refer to."""

PLURALS: Mapping[str, Kind] = {kind.plural: kind for kind in _KINDS}
"""The same by path segment."""


class FoundReference(msgspec.Struct, frozen=True):
    """One id found in a spec, and exactly where (``bindings[0].hostId``)."""

    field: str
    target: str
    id: str


def find_references(kind: Kind, spec: Mapping[str, Any]) -> Iterator[FoundReference]:
    """Every reference that ``spec`` (camelCase JSON) makes."""
    for reference in kind.references:
        for field, value in _walk(spec, reference.path.split("."), ""):
            yield FoundReference(field, reference.target, value)


def _walk(value: Any, path: Sequence[str], field: str) -> Iterator[tuple[str, str]]:
    if not path:
        if isinstance(value, str):
            yield field, value
        return
    if not isinstance(value, Mapping):
        return
    step, rest = path[0], path[1:]
    name = step.removesuffix("[]")
    inner = value.get(name)
    where = f"{field}.{name}" if field else name
    if not step.endswith("[]"):
        yield from _walk(inner, rest, where)
    elif isinstance(inner, Sequence) and not isinstance(inner, str):
        for index, item in enumerate(inner):
            yield from _walk(item, rest, f"{where}[{index}]")


def replace_references(
    kind: Kind, spec: Mapping[str, Any], replace: Callable[[str, str], str]
) -> dict[str, Any]:
    """A copy of ``spec`` in which ``replace(target kind, value)`` stands for each reference."""
    changed = dict(spec)
    for reference in kind.references:
        path = reference.path.split(".")
        changed = _replaced(changed, path, partial(replace, reference.target))
    return changed


def _replaced(value: Any, path: Sequence[str], replace: Callable[[str], str]) -> Any:
    if not path:
        return replace(value) if isinstance(value, str) else value
    name = path[0].removesuffix("[]")
    if not isinstance(value, Mapping) or name not in value:
        return value
    inner = value[name]
    if not path[0].endswith("[]"):
        return {**value, name: _replaced(inner, path[1:], replace)}
    if not isinstance(inner, list):
        return value
    return {**value, name: [_replaced(item, path[1:], replace) for item in inner]}
