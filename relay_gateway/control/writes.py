"""Writes to the catalog: checked, made once, effective when they are answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec
from pydantic import BaseModel

from relay_gateway.catalog.destination import redirections
from relay_gateway.catalog.envelope import EntityRow, MetadataInput, MetadataUpdate
from relay_gateway.control.bodies import validate
from relay_gateway.control.effect import take_effect
from relay_gateway.control.entities import EntityForms
from relay_gateway.control.rules import KindRules, Prepared
from relay_gateway.control.services import ControlServices
from relay_gateway.errors import (
    EntityNotFoundError,
    FieldProblem,
    InvalidEntityError,
    ManagedByFileError,
    RedirectedKeysError,
    VersionConflictError,
)
from relay_gateway.ids import is_id, is_slug, new_id
from relay_gateway.storage import CreateKey, EntityChange, NewEntity

ATTEMPTS = 10
"""How often a write that names no version is tried again when others write the same entity."""

Change = Callable[[EntityRow], Awaitable[EntityChange]]
Prepare = Callable[[str, Any], Awaitable[Prepared]]
"""Makes of an id and a valid spec what storage is to keep."""


class Terms(msgspec.Struct, frozen=True):
    """On what terms a write is made. A dry run is only checked; ``expected`` is the version that
    must be replaced; a ``forced`` one changes what files manage, too, and is audited as such;
    ``rebind`` confirms that existing credentials are to be sent elsewhere."""

    dry_run: bool = False
    expected: int | None = None
    forced: bool = False
    rebind: bool = False

    @property
    def remarks(self) -> Mapping[str, Any]:
        """What the audit log says about the write."""
        return {"forced": True} if self.forced else {}


ALWAYS = Terms()
"""On no terms: whatever version there is."""


class Made(msgspec.Struct, frozen=True):
    """A created entity; ``replayed`` says that an earlier request created it."""

    row: EntityRow
    replayed: bool = False


class EntityWriter:
    """The writes of one kind."""

    def __init__(self, services: ControlServices, rules: KindRules, forms: EntityForms) -> None:
        self._services = services
        self._rules = rules
        self._forms = forms
        self._kind = rules.kind.name

    async def create(
        self,
        data: Mapping[str, Any],
        terms: Terms = ALWAYS,
        *,
        key: str | None = None,
        prepare: Prepare | None = None,
    ) -> Made:
        """Creates an entity from a request body, or answers what the create with the idempotency
        ``key`` made before. ``prepare`` stands in for that of the kind's rules.

        Raises as :meth:`CatalogStore.create` and :meth:`CatalogStore.recall`.
        """
        once = None
        if key is not None and not terms.dry_run:
            once = CreateKey.of(key, self._kind, msgspec.json.encode(data, order="sorted"))
            former = await self._services.store.recall(once)
            if former is not None:
                return Made(former, replayed=True)
        entity = await self._new_entity(data, prepare or self._prepare_new)
        made = await self._create(entity, terms, once)
        if not terms.dry_run:
            await take_effect(self._services)
        return made

    async def replace(
        self,
        entity_id: str,
        data: Mapping[str, Any],
        terms: Terms = ALWAYS,
    ) -> EntityRow:
        """Replaces spec and client-owned metadata. Raises as :meth:`CatalogStore.update`."""

        async def change(current: EntityRow) -> EntityChange:
            check_manager(current, terms)
            _check_body_version(current, data.get("metadata"))
            body = await self._checked(self._forms.update, data, current)
            metadata: MetadataUpdate = body.metadata
            prepared = await self._prepared(data, current, current.id, body.spec)
            if not terms.rebind:
                await self._check_rebind(current, prepared)
            return EntityChange(
                slug=metadata.slug,
                display_name=metadata.display_name,
                description=metadata.description,
                labels=metadata.labels,
                spec=prepared.spec,
                sealed=prepared.sealed,
                # What a catalog shipped is the client's now: imports no longer change it.
                managed_by="api" if current.managed_by == "catalog" else None,
            )

        return await self.amend(entity_id, change, terms)

    async def amend(
        self,
        entity_id: str,
        change: Change,
        terms: Terms = ALWAYS,
    ) -> EntityRow:
        """Writes what ``change`` makes of the current row; it is asked again when somebody else
        wrote in between, unless the caller expects a version."""
        for attempt in range(1, ATTEMPTS + 1):
            current = await self._current(entity_id)
            if terms.expected is not None:
                _check_version(current, terms.expected)
            changed = await change(current)
            try:
                row = await self._services.store.update(
                    self._kind,
                    current.id,
                    changed,
                    expected_version=current.version,
                    dry_run=terms.dry_run,
                    remarks=terms.remarks,
                )
            except VersionConflictError:
                if terms.expected is not None or attempt == ATTEMPTS:
                    raise
            else:
                if not terms.dry_run:
                    await take_effect(self._services)
                return row
        raise AssertionError("the last attempt returns or raises")

    async def delete(self, entity_id: str, terms: Terms = ALWAYS) -> EntityRow:
        """Deletes an entity. Raises as :meth:`CatalogStore.delete`, and
        :class:`ManagedByFileError`."""
        for attempt in range(1, ATTEMPTS + 1):
            current = await self._current(entity_id)
            check_manager(current, terms)
            try:
                row = await self._services.store.delete(
                    self._kind,
                    current.id,
                    expected_version=terms.expected or current.version,
                    dry_run=terms.dry_run,
                    remarks=terms.remarks,
                )
            except VersionConflictError:
                if terms.expected is not None or attempt == ATTEMPTS:
                    raise
            else:
                if not terms.dry_run:
                    await take_effect(self._services)
                return row
        raise AssertionError("the last attempt returns or raises")

    async def _new_entity(self, data: Mapping[str, Any], prepare: Prepare) -> NewEntity:
        body = await self._checked(self._forms.create, data, None)
        entity_id = new_id()
        try:
            prepared = await prepare(entity_id, body.spec)
        except InvalidEntityError as error:
            raise await self._complete(error.problems, data, None) from error
        metadata: MetadataInput = body.metadata
        return NewEntity(
            kind=self._kind,
            id=entity_id,
            slug=metadata.slug,
            display_name=metadata.display_name,
            description=metadata.description,
            labels=metadata.labels,
            spec=prepared.spec,
            sealed=prepared.sealed,
        )

    async def _create(self, entity: NewEntity, terms: Terms, once: CreateKey | None) -> Made:
        if once is None:
            return Made(await self._services.store.create(entity, dry_run=terms.dry_run))
        row, made_now = await self._services.store.create_once(entity, once)
        return Made(row, replayed=not made_now)

    async def _prepare_new(self, entity_id: str, spec: Any) -> Prepared:
        return await self._rules.prepare(entity_id, spec, None)

    async def _prepared(
        self, data: Mapping[str, Any], current: EntityRow, entity_id: str, spec: Any
    ) -> Prepared:
        try:
            return await self._rules.prepare(entity_id, spec, current)
        except InvalidEntityError as error:
            raise await self._complete(error.problems, data, current) from error

    async def _check_rebind(self, current: EntityRow, prepared: Prepared) -> None:
        keys = await self._rules.redirected_keys(current, prepared)
        if keys:
            fields = redirections(self._kind, current.spec, prepared.spec)
            raise RedirectedKeysError(self._kind, current.slug, fields, keys)

    async def _checked(
        self, model: type[BaseModel], data: Mapping[str, Any], current: EntityRow | None
    ) -> Any:
        """``data`` as ``model``. Raises :class:`InvalidEntityError` with all that is wrong."""
        body, problems = validate(model, data)
        spec, metadata = data.get("spec"), data.get("metadata")
        if isinstance(spec, dict):
            problems += _unseen(await self._rules.inspect(spec, current), problems)
        if current is not None and isinstance(metadata, dict):
            problems += _ownership_problems(metadata, current)
        if problems:
            raise await self._complete(problems, data, current)
        return body

    async def _complete(
        self, problems: Sequence[FieldProblem], data: Mapping[str, Any], current: EntityRow | None
    ) -> InvalidEntityError:
        """``problems`` with what the catalog itself would find, so that one answer has them all."""
        spec, metadata = data.get("spec"), data.get("metadata")
        if not isinstance(spec, dict):
            return InvalidEntityError(problems)
        slug, name = current.slug if current else None, ""
        if isinstance(metadata, dict):
            given = metadata.get("slug")
            slug = given if isinstance(given, str) and is_slug(given) else slug
            name = str(metadata.get("displayName", ""))
        found = await self._services.store.problems(
            self._kind,
            spec,
            entity_id=current.id if current else "",
            slug=slug,
            display_name=name,
        )
        return InvalidEntityError([*problems, *_unseen(found, problems)])

    async def _current(self, entity_id: str) -> EntityRow:
        if not is_id(entity_id):
            raise EntityNotFoundError(self._kind, entity_id)
        return await self._services.store.get(self._kind, entity_id)


def check_manager(current: EntityRow, terms: Terms) -> None:
    """Raises :class:`ManagedByFileError` for what files manage, unless the write is forced."""
    if current.managed_by == "file" and not terms.forced:
        raise ManagedByFileError(current.kind, current.slug)


def _unseen(found: Sequence[FieldProblem], problems: Sequence[FieldProblem]) -> list[FieldProblem]:
    seen = {problem.field for problem in problems}
    return [problem for problem in found if problem.field not in seen]


def _ownership_problems(metadata: Mapping[str, Any], current: EntityRow) -> list[FieldProblem]:
    """What the server owns may be sent back as it was read, and not otherwise."""
    problems = []
    given = metadata.get("id")
    if isinstance(given, str) and given.lower() != current.id:
        message = f"is another id than that of the path, {current.id!r}; leave it out"
        problems.append(FieldProblem("metadata.id", "read_only", message))
    owned = {"managedBy": current.managed_by, "createdAt": current.created_at}
    for name, own in owned.items():
        given = metadata.get(name)
        if isinstance(given, str) and given != own:
            message = f"is set by the server and is {own!r}; leave it out"
            problems.append(FieldProblem(f"metadata.{name}", "read_only", message))
    return problems


def _check_body_version(current: EntityRow, metadata: Any) -> None:
    version = metadata.get("version") if isinstance(metadata, dict) else None
    if isinstance(version, int) and not isinstance(version, bool) and version > 0:
        _check_version(current, version)


def _check_version(current: EntityRow, expected: int) -> None:
    if expected != current.version:
        raise VersionConflictError(
            current.kind, current.slug, expected=expected, current=current.version
        )
