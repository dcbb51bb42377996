"""What a catalog seed promises."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import date
from typing import Any

import pytest

from relay_gateway.catalog.kinds import KINDS, find_references
from relay_gateway.ids import is_slug
from relay_gateway.plugin import CatalogSeed


class CatalogSeedConformance:
    """Subclass and provide ``seed``."""

    @pytest.fixture
    def seed(self) -> CatalogSeed:
        """The seed, as its hook returns it."""
        raise NotImplementedError

    def test_it_says_where_its_facts_come_from_and_when(self, seed: CatalogSeed) -> None:
        assert seed.source, "prices and limits change: people have to know where to look"
        date.fromisoformat(seed.as_of)

    def test_every_slug_is_one_and_is_given_once_in_its_kind(self, seed: CatalogSeed) -> None:
        named = [(entity.kind, entity.slug) for entity in seed.entities]
        assert [slug for _, slug in named if not is_slug(slug)] == []
        assert len(named) == len(set(named))

    def test_every_entity_refers_to_earlier_ones_only(self, seed: CatalogSeed) -> None:
        known: set[tuple[str, str]] = set()
        for entity in seed.entities:
            assert entity.kind in KINDS, f"{entity.kind!r} is none of {', '.join(KINDS)}"
            found = find_references(KINDS[entity.kind], entity.spec)
            wanted = {(one.target, one.id) for one in found}
            assert wanted <= known, f"{entity.kind} {entity.slug}: {wanted - known} come later"
            known.add((entity.kind, entity.slug))

    def test_every_entity_is_one_that_the_catalog_accepts(self, seed: CatalogSeed) -> None:
        ids = {entity.slug: str(uuid.uuid4()) for entity in seed.entities}
        for entity in seed.entities:
            KINDS[entity.kind].spec.model_validate(with_ids(dict(entity.spec), ids))

    def test_every_well_known_variable_is_for_a_host_of_the_seed(self, seed: CatalogSeed) -> None:
        hosts = {entity.slug for entity in seed.entities if entity.kind == "host"}
        assert {key.host for key in seed.environment_keys} <= hosts


def with_ids(value: Any, ids: Mapping[str, str]) -> Any:
    """``value`` with every slug of a seeded entity, where a reference is, as an id."""
    if isinstance(value, dict):
        return {
            name: ids.get(inner, inner)
            if name.endswith("Id") and isinstance(inner, str)
            else with_ids(inner, ids)
            for name, inner in value.items()
        }
    return [with_ids(inner, ids) for inner in value] if isinstance(value, list) else value
