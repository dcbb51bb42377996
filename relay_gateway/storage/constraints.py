"""What must hold between entities: references point at something, model names are unique.

Everything here runs inside a write transaction that holds the revision row, so what it finds stays
true until the commit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from relay_gateway.catalog.kinds import KINDS, FoundReference, find_references
from relay_gateway.errors import FieldProblem, Referrer
from relay_gateway.storage.rows import portions
from relay_gateway.storage.tables import entities, entity_references, model_names

MODEL = "model"


class Content(NamedTuple):
    """An entity as far as others are concerned. ``spec`` may be wrong in other ways; ``id`` is
    empty for what does not exist yet."""

    kind: str
    id: str
    slug: str
    spec: Mapping[str, Any]


class ConstraintCheck:
    """Checks the content of one write, whose entities may come in several portions. ``new`` are
    the kinds of those, by id, that are not in the database yet but count."""

    def __init__(self, connection: AsyncConnection, new: Mapping[str, str] | None = None) -> None:
        self._connection = connection
        self._new = new or {}
        self._names: dict[str, str] = {}
        """Names of models of former portions, and the slugs of those."""

    async def problems(self, contents: Sequence[Content]) -> dict[str, list[FieldProblem]]:
        """What is wrong with the references and names of ``contents``, by id."""
        references = {c.id: list(find_references(KINDS[c.kind], c.spec)) for c in contents}
        wanted = {r.id.lower() for found in references.values() for r in found}
        kinds = {i: self._new[i] for i in wanted if i in self._new}
        kinds |= await _kinds(self._connection, wanted - kinds.keys())
        names = await self._name_problems([c for c in contents if c.kind == MODEL])
        problems = {
            entity_id: [*_reference_problems(entity_id, found, kinds), *names.get(entity_id, ())]
            for entity_id, found in references.items()
        }
        return {entity_id: found for entity_id, found in problems.items() if found}

    async def _name_problems(self, models: Sequence[Content]) -> dict[str, list[FieldProblem]]:
        """What is wrong with the names of each model: others have them, there or here."""
        names = {model.id: dict(_names(model.slug, model.spec)) for model in models}
        wanted = {name for one in names.values() for name in one}
        owners = await _owners(self._connection, wanted, names)
        owners |= {name: self._names[name] for name in wanted if name in self._names}
        problems = {}
        for model in models:
            fields = names[model.id]
            taken = sorted(fields.keys() & owners.keys())
            problems[model.id] = _repeated_names(model.slug, model.spec)
            problems[model.id] += [_taken(fields[name], name, owners[name]) for name in taken]
            owners.update(dict.fromkeys(fields.keys() - owners.keys(), model.slug))
        self._names |= owners
        return problems


async def forget_constraints(connection: AsyncConnection, ids: Sequence[str]) -> None:
    """Deletes the references and names of entities."""
    for some in portions(ids):
        for column in (entity_references.c.source_id, model_names.c.entity_id):
            await connection.execute(delete(column.table).where(column.in_(some)))


async def record_constraints(connection: AsyncConnection, contents: Sequence[Content]) -> None:
    """Records the references and names of entities that have none recorded and whose rows are
    written."""
    references = [
        {"source_id": content.id, "field": reference.field, "target_id": reference.id}
        for content in contents
        for reference in find_references(KINDS[content.kind], content.spec)
    ]
    for some in portions(references):
        await connection.execute(insert(entity_references), list(some))
    names = [
        {"name": name, "entity_id": content.id}
        for content in contents
        if content.kind == MODEL
        for name in dict(_names(content.slug, content.spec))
    ]
    for names_now in portions(names):
        await connection.execute(insert(model_names), list(names_now))


async def find_referrers(
    connection: AsyncConnection, ids: Sequence[str]
) -> dict[str, list[Referrer]]:
    """Who points at entities, by the id of what is pointed at; ordered by kind, slug and field."""
    references = entity_references.c
    found: dict[str, list[Referrer]] = {}
    for some in portions(ids):
        rows = await connection.execute(
            select(
                references.target_id, entities.c.kind, entities.c.id, entities.c.slug,
                references.field,
            )
            .join(entities, entities.c.id == references.source_id)
            .where(references.target_id.in_(some))
            .order_by(entities.c.kind, entities.c.slug, references.field)
        )  # fmt: skip
        for row in rows:
            referrer = Referrer(row.kind, row.id, row.slug, f"spec.{row.field}")
            found.setdefault(row.target_id, []).append(referrer)
    return found


async def _kinds(connection: AsyncConnection, ids: Collection[str]) -> dict[str, str]:
    kinds: dict[str, str] = {}
    for wanted in portions(ids):
        rows = await connection.execute(
            select(entities.c.id, entities.c.kind).where(entities.c.id.in_(wanted))
        )
        kinds.update((row.id, row.kind) for row in rows)
    return kinds


def _reference_problems(
    entity_id: str, references: Sequence[FoundReference], kinds: Mapping[str, str]
) -> Iterator[FieldProblem]:
    for reference in references:
        message = _reference_message(reference, entity_id, kinds.get(reference.id.lower()))
        if message is not None:
            yield FieldProblem(f"spec.{reference.field}", "reference_not_found", message)


def _reference_message(
    reference: FoundReference, entity_id: str, found_kind: str | None
) -> str | None:
    if reference.id.lower() == entity_id:
        return f"must be another {reference.target}, not this one itself"
    if found_kind is None:
        return f"no {reference.target} has the id {reference.id!r}"
    if found_kind != reference.target:
        return f"{reference.id!r} is the id of a {found_kind}, a {reference.target} is needed"
    return None


def _names(slug: str, spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The names that must be unique, each with its field; a repeated one keeps its last field."""
    for field, alias in _aliases(spec):
        if not alias.endswith("*"):
            yield alias, field
    yield _own_name(slug, spec), "spec.name"


def _own_name(slug: str, spec: Mapping[str, Any]) -> str:
    name = spec.get("name")
    return name if name and isinstance(name, str) else slug


def _aliases(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    aliases = spec.get("aliases")
    for index, alias in enumerate(aliases if isinstance(aliases, list) else ()):
        if isinstance(alias, str):
            yield f"spec.aliases[{index}]", alias


def _repeated_names(slug: str, spec: Mapping[str, Any]) -> list[FieldProblem]:
    seen = {_own_name(slug, spec)}
    problems = []
    for field, alias in _aliases(spec):
        if alias in seen:
            message = f"the name {alias!r} stands twice in this model"
            problems.append(FieldProblem(field, "duplicate_name", message))
        seen.add(alias)
    return problems


async def _owners(
    connection: AsyncConnection, names: Collection[str], but: Collection[str]
) -> dict[str, str]:
    """The slugs of the models that answer to ``names``, without the models ``but`` (ids)."""
    owners: dict[str, str] = {}
    for wanted in portions(names):
        rows = await connection.execute(
            select(model_names.c.name, entities.c.slug, entities.c.id)
            .join(entities, entities.c.id == model_names.c.entity_id)
            .where(model_names.c.name.in_(wanted))
        )
        owners.update((row.name, row.slug) for row in rows if row.id not in but)
    return owners


def _taken(field: str, name: str, owner: str) -> FieldProblem:
    message = f"the model {owner!r} already answers to {name!r}; choose another name"
    return FieldProblem(field, "name_taken", message)
