"""What an empty catalog begins with: a default policy, what providers ship knowing, keys from
variables."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relay_gateway.catalog.kinds import KINDS, replace_references
from relay_gateway.catalog.specs import HostKeySpec
from relay_gateway.control.host_keys import HostKeyRules
from relay_gateway.control.rules import no_statuses
from relay_gateway.errors import RelayError
from relay_gateway.ids import new_id
from relay_gateway.plugin import CatalogSeed, EnvironmentKey, SecretBackend
from relay_gateway.storage import CatalogStore, NewEntity

DEFAULT_POLICY = "default"
ENVIRONMENT_BACKEND = "env"

_log = logging.getLogger(__name__)


class _Collected:
    """New entities and the ids under which later ones refer to them."""

    def __init__(self) -> None:
        self.entities: list[NewEntity] = []
        self.ids: dict[tuple[str, str], str] = {}

    def add(self, kind: str, slug: str, display_name: str, spec: Mapping[str, Any]) -> None:
        entity = NewEntity(
            kind=kind,
            display_name=display_name,
            slug=slug,
            spec=replace_references(KINDS[kind], spec, self.resolve),
            managed_by="catalog",
        )
        self.entities.append(entity)
        self.ids[kind, slug] = entity.id

    def resolve(self, target: str, slug: str) -> str:
        """The id of an earlier entity; what is none stays, and is refused when it is written."""
        return self.ids.get((target, slug), slug)


async def seed_catalog(
    store: CatalogStore,
    seeds: Sequence[CatalogSeed],
    backends: Mapping[str, SecretBackend],
    environ: Callable[[str], str | None],
) -> list[str]:
    """Fills an empty catalog; returns the variables that host keys were made for.

    Does nothing to a catalog that has any entity, also when two processes start at once.
    """
    if not await store.is_empty():
        return []
    collected = _Collected()
    collected.add("policy", DEFAULT_POLICY, "Default", {"models": ["*"]})
    for seed in seeds:
        for entity in seed.entities:
            collected.add(entity.kind, entity.slug, entity.display_name, entity.spec)
    variables: list[str] = []
    for seed in seeds:
        variables += [
            key.variable
            for key in seed.environment_keys
            if environ(key.variable) and await _add_key(collected, key, backends)
        ]
    written = await store.write_all(collected.entities, only_when_empty=True)
    return variables if written else []


async def _add_key(
    collected: _Collected, key: EnvironmentKey, backends: Mapping[str, SecretBackend]
) -> bool:
    host_id = collected.ids.get(("host", key.host))
    if host_id is None or ENVIRONMENT_BACKEND not in backends:
        return False
    entity_id = new_id()
    spec = HostKeySpec(
        host_id=host_id,
        policy_id=collected.ids["policy", DEFAULT_POLICY],
        value_from={"kind": ENVIRONMENT_BACKEND, "env": key.variable},
    )
    try:
        prepared = await HostKeyRules(backends, no_statuses).prepare(entity_id, spec, None)
    except RelayError as error:
        _log.warning("no host key is made for %s: %s", key.variable, error)
        return False
    collected.entities.append(
        NewEntity(
            id=entity_id,
            kind="host key",
            display_name=f"{key.host} from {key.variable}",
            spec=prepared.spec,
            sealed=prepared.sealed,
        )
    )
    return True
