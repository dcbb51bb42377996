"""The compiled entities of one kind, and how they follow a change of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

import msgspec

from relay_gateway.catalog import specs
from relay_gateway.catalog.compile import UNREADABLE, quarantine
from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.catalog.snapshot import QuarantinedRow

T = TypeVar("T")
SpecT = TypeVar("SpecT", bound=specs.Spec)


class Patch(msgspec.Struct, frozen=True):
    """Rows that changed or are new by kind, ids of rows that are gone, and all of these rows as
    they were before."""

    changed: Mapping[str, Sequence[EntityRow]]
    deleted: frozenset[str]
    former: Sequence[EntityRow]

    def touches(self, kind: str) -> bool:
        """Whether anything of this kind changed."""
        return kind in self.changed or any(row.kind == kind for row in self.former)


class Table(msgspec.Struct, Generic[T], frozen=True):
    """Entities of one kind by id, in order of id. ``specs`` and ``compiled`` have those that can
    serve, ``problems`` those that cannot be read; disabled ones are in ``rows`` only."""

    rows: Mapping[str, EntityRow] = msgspec.field(default_factory=dict)
    specs: Mapping[str, specs.Spec] = msgspec.field(default_factory=dict)
    compiled: Mapping[str, T] = msgspec.field(default_factory=dict)
    problems: Mapping[str, QuarantinedRow] = msgspec.field(default_factory=dict)

    def differences(self, old: Table[T]) -> frozenset[str]:
        """The ids of entities that are not the same object in both."""
        if self is old:
            return frozenset()
        ids = self.compiled.keys() | old.compiled.keys()
        return frozenset(i for i in ids if self.compiled.get(i) is not old.compiled.get(i))


class _Draft(Generic[T]):
    """A table that is being made of the one before it."""

    def __init__(self, old: Table[T]) -> None:
        self._old = old
        self.rows = dict(old.rows)
        self._specs = dict(old.specs)
        self._compiled = dict(old.compiled)
        self._problems = dict(old.problems)

    def forget(self, entity_id: str) -> None:
        for part in (self._specs, self._compiled, self._problems):
            part.pop(entity_id, None)

    def compile(
        self, row: EntityRow, model: type[SpecT], compile_one: Callable[[EntityRow, SpecT], T]
    ) -> None:
        try:
            spec = model.model_validate(row.spec)
            if not spec.enabled:
                return
            made = compile_one(row, spec)
        except UNREADABLE as error:
            self._problems[row.id] = quarantine(row, error)
            return
        former = self._old.compiled.get(row.id)
        # What says the same stays the same object: pools, targets and credentials hang on it.
        self._compiled[row.id] = former if former is not None and former == made else made
        self._specs[row.id] = spec

    def table(self) -> Table[T]:
        return Table(
            _sorted(self.rows), _sorted(self._specs), _sorted(self._compiled),
            _sorted(self._problems),
        )  # fmt: skip


def advance(
    old: Table[T],
    patch: Patch,
    kind: str,
    model: type[SpecT],
    compile_one: Callable[[EntityRow, SpecT], T],
    is_stale: Callable[[SpecT], bool] | None = None,
) -> Table[T]:
    """The table after ``patch``; ``old`` itself when nothing in it is any different.

    ``is_stale`` tells which specs refer to something that changed; with it, rows that could not be
    compiled are tried again, too.
    """
    changed = {row.id: row for row in patch.changed.get(kind, ())}
    deleted = patch.deleted & old.rows.keys()
    stale: set[str] = set()
    if is_stale is not None:
        # The specs of a table are all of its own model.
        stale = {i for i, spec in old.specs.items() if is_stale(spec)}  # type: ignore[arg-type]
        stale |= old.problems.keys()
    if not (changed or deleted or stale):
        return old
    draft = _Draft(old)
    draft.rows.update(changed)
    for entity_id in changed.keys() | deleted | stale:
        draft.forget(entity_id)
        if entity_id in deleted:
            del draft.rows[entity_id]
        else:
            draft.compile(draft.rows[entity_id], model, compile_one)
    return draft.table()


def _sorted(part: dict[str, T]) -> dict[str, T]:
    ids = list(part)
    return part if ids == sorted(ids) else {i: part[i] for i in sorted(ids)}
