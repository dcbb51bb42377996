"""A plan: what is to be made, changed and deleted, and how that is told before it is done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.secret import MASK, Secret
from relay_gateway.storage import Batch, EntityChange, EntityRemoval, EntityUpdate, NewEntity
from relay_gateway.storage.masking import masked_document

Action = Literal["create", "update", "delete"]


class FieldChange(msgspec.Struct, frozen=True):
    """A field before and after; ``None`` where there is nothing. Credentials are masked."""

    field: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Step:
    """One entity to be written."""

    action: Action
    kind: str
    slug: str
    changes: tuple[FieldChange, ...] = ()
    before: EntityRow | None = field(default=None, repr=False, compare=False)
    after: EntityRow | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps, and how many entities are as they should be already.

    ``notes`` say what was left as it is and why. ``minted`` has the plaintexts of the relay keys
    that are made, by slug; they are worth something only once the plan is carried out.
    """

    steps: tuple[Step, ...]
    unchanged: int = 0
    notes: tuple[str, ...] = ()
    minted: Mapping[str, Secret] = field(default_factory=dict, repr=False, compare=False)

    def count(self, action: Action) -> int:
        """How many steps do this."""
        return sum(step.action == action for step in self.steps)

    def batch(self) -> Batch:
        """The plan as one write, which is refused when somebody else wrote any of it meanwhile."""
        return Batch(
            create=[_new(s.after) for s in self.steps if s.after and not s.before],
            update=[_update(s.before, s.after) for s in self.steps if s.before and s.after],
            delete=[_removal(s.before) for s in self.steps if s.before and not s.after],
        )


def changes_between(before: Any, after: Any, path: str = "", name: str = "") -> list[FieldChange]:
    """The fields in which two documents differ, lists by position."""
    if before == after:
        return []
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return [
            change
            for key in dict.fromkeys([*before, *after])
            for change in changes_between(
                before.get(key), after.get(key), f"{path}.{key}" if path else key, key
            )
        ]
    if isinstance(before, list) and isinstance(after, list):
        return [
            change
            for index, (old, new) in enumerate(_side_by_side(before, after))
            for change in changes_between(old, new, f"{path}[{index}]", name)
        ]
    return [FieldChange(path, masked_document(before, name), masked_document(after, name))]


def hidden_change(kind_field: str) -> FieldChange:
    """A credential that becomes another one, of which nothing is told."""
    return FieldChange(kind_field, MASK, MASK)


def _side_by_side(before: Sequence[Any], after: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    for index in range(max(len(before), len(after))):
        yield (
            before[index] if index < len(before) else None,
            after[index] if index < len(after) else None,
        )


def _new(row: EntityRow) -> NewEntity:
    return NewEntity(
        kind=row.kind,
        id=row.id,
        slug=row.slug,
        display_name=row.display_name,
        description=row.description,
        labels=row.labels,
        managed_by=row.managed_by,
        spec=row.spec,
        sealed=row.sealed,
    )


def _update(before: EntityRow, row: EntityRow) -> EntityUpdate:
    change = EntityChange(
        display_name=row.display_name,
        description=row.description,
        labels=row.labels,
        spec=row.spec,
        sealed=row.sealed,
        managed_by=row.managed_by,
    )
    return EntityUpdate(row.kind, row.id, change, before.version)


def _removal(row: EntityRow) -> EntityRemoval:
    return EntityRemoval(row.kind, row.id, row.version)
