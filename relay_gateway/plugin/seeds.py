"""Catalog seeds: what a provider ships knowing about hosts, models and prices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class SeedEntity:
    """One entity to create. ``kind`` is the singular name (``model``); ``spec`` is JSON in
    camelCase, in which references are slugs instead of ids."""

    kind: str
    slug: str
    display_name: str
    spec: Mapping[str, Any]
    description: str = ""


@dataclass(frozen=True, slots=True)
class EnvironmentKey:
    """A well-known variable: where it is set at the first start, a host key for ``host`` (a slug)
    is created that refers to it."""

    variable: str
    host: str


@dataclass(frozen=True, slots=True)
class CatalogSeed:
    """Entities in an order in which each refers only to earlier ones, written once to an empty
    catalog.

    ``source`` says where the facts come from, ``as_of`` when they were read (ISO date).
    """

    name: str
    source: str
    as_of: str
    entities: Sequence[SeedEntity] = ()
    environment_keys: Sequence[EnvironmentKey] = field(default_factory=tuple)
