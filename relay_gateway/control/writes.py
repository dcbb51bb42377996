"""Writes to the catalog: checked, made once, effective when they are answered."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pydantic import BaseModel

from relay_gateway.catalog.envelope import EntityRow, MetadataUpdate
from relay_gateway.control.bodies import validate
from relay_gateway.control.entities import EntityForms
from relay_gateway.control.rules import KindRules
from relay_gateway.control.services import ControlServices
from relay_gateway.errors import (
    EntityNotFoundError,
    FieldProblem,
    InvalidEntityError,
    VersionConflictError,
)
from relay_gateway.ids import is_id, new_id
from relay_gateway.storage import EntityChange, NewEntity

ATTEMPTS = 10
"""How often a write that names no version is tried again when others write the same entity."""

Change = Callable[[EntityRow], Awaitable[EntityChange]]

logger = logging.getLogger(__name__)


class EntityWriter:
    """The writes of one kind."""

    def __init__(self, services: ControlServices, rules: KindRules, forms: EntityForms) -> None:
        self._services = services
        self._rules = rules
        self._forms = forms
        self._kind = rules.kind.name

    async def create(self, data: Mapping[str, Any]) -> EntityRow:
        """Creates an entity from a request body. Raises as :meth:`CatalogStore.create`."""
        body = await self.checked(self._forms.create, data)
        entity_id = new_id()
        prepared = await self._rules.prepare(entity_id, body.spec, None)
        metadata = body.metadata
        row = await self._services.store.create(
            NewEntity(
                kind=self._kind,
                id=entity_id,
                slug=metadata.slug,
                display_name=metadata.display_name,
                description=metadata.description,
                labels=metadata.labels,
                spec=prepared.spec,
                sealed=prepared.sealed,
            )
        )
        await self.take_effect()
        return row

    async def replace(
        self, entity_id: str, data: Mapping[str, Any], expected: int | None
    ) -> EntityRow:
        """Replaces spec and client-owned metadata. Raises as :meth:`CatalogStore.update`."""

        async def change(current: EntityRow) -> EntityChange:
            body = await self.checked(self._forms.update, data, current)
            metadata: MetadataUpdate = body.metadata
            _check_body_version(current, metadata.version)
            prepared = await self._rules.prepare(current.id, body.spec, current)
            return EntityChange(
                slug=metadata.slug,
                display_name=metadata.display_name,
                description=metadata.description,
                labels=metadata.labels,
                spec=prepared.spec,
                sealed=prepared.sealed,
            )

        return await self.amend(entity_id, change, expected)

    async def amend(self, entity_id: str, change: Change, expected: int | None = None) -> EntityRow:
        """Writes what ``change`` makes of the current row; it is asked again when somebody else
        wrote in between, unless the caller ``expected`` a version."""
        for attempt in range(1, ATTEMPTS + 1):
            current = await self._current(entity_id)
            if expected is not None and expected != current.version:
                raise VersionConflictError(
                    self._kind, current.slug, expected=expected, current=current.version
                )
            changed = await change(current)
            try:
                row = await self._services.store.update(
                    self._kind, current.id, changed, expected_version=current.version
                )
            except VersionConflictError:
                if expected is not None or attempt == ATTEMPTS:
                    raise
            else:
                await self.take_effect()
                return row
        raise AssertionError("the last attempt returns or raises")

    async def delete(self, entity_id: str, expected: int | None) -> EntityRow:
        """Deletes an entity. Raises as :meth:`CatalogStore.delete`."""
        row = await self._services.store.delete(self._kind, entity_id, expected_version=expected)
        await self.take_effect()
        return row

    async def checked(
        self, model: type[BaseModel], data: Mapping[str, Any], current: EntityRow | None = None
    ) -> Any:
        """``data`` as ``model``. Raises :class:`InvalidEntityError` with all that is wrong."""
        body, problems = validate(model, data)
        spec, metadata = data.get("spec"), data.get("metadata")
        if isinstance(spec, dict):
            seen = {problem.field for problem in problems}
            found = await self._rules.inspect(spec, current)
            problems += [problem for problem in found if problem.field not in seen]
        if current is not None and isinstance(metadata, dict):
            problems += _identity_problems(metadata, current)
        if problems:
            raise InvalidEntityError(problems)
        return body

    async def take_effect(self) -> None:
        """Makes a committed write effective here. A failure is not the client's: the write is done,
        the next rebuild picks it up and readiness tells."""
        try:
            await self._services.refresh()
        except Exception:
            logger.exception("a catalog write is committed, but the snapshot was not rebuilt")

    async def _current(self, entity_id: str) -> EntityRow:
        if not is_id(entity_id):
            raise EntityNotFoundError(self._kind, entity_id)
        return await self._services.store.get(self._kind, entity_id)


def _identity_problems(metadata: Mapping[str, Any], current: EntityRow) -> list[FieldProblem]:
    given = metadata.get("id")
    if not isinstance(given, str) or given.lower() == current.id:
        return []
    message = f"is another id than that of the path, {current.id!r}; leave it out"
    return [FieldProblem("metadata.id", "read_only", message)]


def _check_body_version(current: EntityRow, version: int | None) -> None:
    if version is not None and version != current.version:
        raise VersionConflictError(
            current.kind, current.slug, expected=version, current=current.version
        )
