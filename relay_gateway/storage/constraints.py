"""What must hold between entities: references point at something, model names are unique.

Everything here runs inside a write transaction that holds the revision row, so what it finds stays
true until the commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any

from sqlalchemy import delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from relay_gateway.catalog.kinds import KINDS, FoundReference, find_references
from relay_gateway.errors import FieldProblem, InvalidEntityError, Referrer
from relay_gateway.storage.tables import entities, entity_references, model_names

MODEL = "model"
BATCH = 10_000
"""How many values are asked for at once; databases take no more than 32 766 in a statement."""


async def apply_constraints(
    connection: AsyncConnection, kind: str, entity_id: str, slug: str, spec: Mapping[str, Any]
) -> None:
    """Checks and records the references and names of an entity whose row is already written.

    Raises :class:`InvalidEntityError` with one problem per offending field.
    """
    problems = await find_problems(connection, kind, entity_id, slug, spec)
    if problems:
        raise InvalidEntityError(problems)
    references = list(find_references(KINDS[kind], spec))
    await _record_references(connection, entity_id, references)
    if kind == MODEL:
        await _record_names(connection, entity_id, dict(_names(slug, spec)))


async def find_problems(
    connection: AsyncConnection, kind: str, entity_id: str, slug: str, spec: Mapping[str, Any]
) -> list[FieldProblem]:
    """What is wrong with the references and names in ``spec``, which may be wrong in other ways."""
    references = list(find_references(KINDS[kind], spec))
    problems = await _reference_problems(connection, entity_id, references)
    if kind == MODEL:
        problems += _repeated_names(slug, spec)
        problems += await _name_problems(connection, entity_id, dict(_names(slug, spec)))
    return problems


async def find_referrers(connection: AsyncConnection, entity_id: str) -> list[Referrer]:
    """Who points at an entity, ordered by kind, slug and field."""
    rows = await connection.execute(
        select(entities.c.kind, entities.c.id, entities.c.slug, entity_references.c.field)
        .join(entities, entities.c.id == entity_references.c.source_id)
        .where(entity_references.c.target_id == entity_id)
        .order_by(entities.c.kind, entities.c.slug, entity_references.c.field)
    )
    return [Referrer(row.kind, row.id, row.slug, f"spec.{row.field}") for row in rows]


async def _reference_problems(
    connection: AsyncConnection, entity_id: str, references: Sequence[FoundReference]
) -> list[FieldProblem]:
    kinds: dict[str, str] = {}
    for wanted in _batches({reference.id.lower() for reference in references}):
        rows = await connection.execute(
            select(entities.c.id, entities.c.kind).where(entities.c.id.in_(wanted))
        )
        kinds.update((row.id, row.kind) for row in rows)
    problems = []
    for reference in references:
        message = _reference_message(reference, entity_id, kinds.get(reference.id.lower()))
        if message is not None:
            problems.append(FieldProblem(f"spec.{reference.field}", "reference_not_found", message))
    return problems


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


async def _record_references(
    connection: AsyncConnection, entity_id: str, references: Sequence[FoundReference]
) -> None:
    await connection.execute(
        delete(entity_references).where(entity_references.c.source_id == entity_id)
    )
    if references:
        await connection.execute(
            insert(entity_references),
            [
                {"source_id": entity_id, "field": reference.field, "target_id": reference.id}
                for reference in references
            ],
        )


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


async def _name_problems(
    connection: AsyncConnection, entity_id: str, names: Mapping[str, str]
) -> list[FieldProblem]:
    found: list[Any] = []
    for wanted in _batches(names):
        rows = await connection.execute(
            select(model_names.c.name, entities.c.slug)
            .join(entities, entities.c.id == model_names.c.entity_id)
            .where(model_names.c.name.in_(wanted), model_names.c.entity_id != entity_id)
        )
        found += rows
    return [
        FieldProblem(
            names[row.name],
            "name_taken",
            f"the model {row.slug!r} already answers to {row.name!r}; choose another name",
        )
        for row in sorted(found, key=attrgetter("name"))
    ]


def _batches(items: Iterable[str]) -> Iterator[tuple[str, ...]]:
    iterator = iter(items)
    return iter(lambda: tuple(islice(iterator, BATCH)), ())


async def _record_names(
    connection: AsyncConnection, entity_id: str, names: Mapping[str, str]
) -> None:
    await connection.execute(delete(model_names).where(model_names.c.entity_id == entity_id))
    await connection.execute(
        insert(model_names), [{"name": name, "entity_id": entity_id} for name in names]
    )
