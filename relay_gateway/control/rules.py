"""What each kind adds to the generic create, read, update and delete."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec
from pydantic import ValidationError

from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.catalog.kinds import Kind
from relay_gateway.catalog.specs import Spec
from relay_gateway.errors import FieldProblem, Referrer

Statuses = Callable[[Sequence[str]], Awaitable[Mapping[str, Mapping[str, Any]]]]
"""Gives run-time states by the ids of the entities."""


async def no_statuses(_ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
    """Where nothing is in use: there is nothing to say of any."""
    return {}


class Prepared(msgspec.Struct, frozen=True):
    """What storage is to keep: the spec as reads show it, and what no read shows."""

    spec: dict[str, Any]
    sealed: dict[str, Any] = msgspec.field(default_factory=dict)


class KindRules:
    """The rules of a kind that has none of its own; base of the others.

    ``create_spec`` and ``update_spec`` validate input, ``documented_input`` and
    ``documented_output`` are what the OpenAPI document shows.
    """

    has_status = False
    redirects = False
    """Whether a change of an entity may send credentials elsewhere, and then has to be
    confirmed."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.create_spec: type[Spec] = kind.spec
        self.update_spec: type[Spec] = kind.spec
        self.documented_input: type[Spec] = kind.spec
        self.documented_output: type[Spec] = kind.spec

    async def inspect(
        self, spec: Mapping[str, Any], previous: EntityRow | None
    ) -> list[FieldProblem]:
        """Problems that the field models cannot see. ``spec`` is as the client sent it, so it may
        be wrong in other ways too."""
        return []

    async def prepare(self, entity_id: str, spec: Any, previous: EntityRow | None) -> Prepared:
        """What to keep of a valid ``spec``; ``previous`` is the row it replaces."""
        return Prepared(dump(spec))

    async def redirected_keys(self, current: EntityRow, prepared: Prepared) -> Sequence[Referrer]:
        """The host keys whose credentials the change would send elsewhere."""
        return ()

    def show(self, row: EntityRow) -> dict[str, Any]:
        """The spec that reads show: with every field, also those that the row was written without.

        A row that does not validate is shown as it is, so that it can be repaired.
        """
        try:
            return dump(self.update_spec.model_validate(row.spec))
        except ValidationError:
            return row.spec

    async def statuses(self, rows: Sequence[EntityRow]) -> Mapping[str, Mapping[str, Any]]:
        """Run-time state to show on reads by id of the entity, for kinds that have one.

        Never raises for a part that cannot be asked: what is not known is left out.
        """
        return {}


def dump(spec: Spec) -> dict[str, Any]:
    """A spec as the JSON that storage keeps and reads show."""
    return spec.model_dump(mode="json", by_alias=True)
