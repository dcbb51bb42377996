"""Host keys: what they hold is sealed on its way into the catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import create_model

from relay_gateway.catalog.destination import redirections
from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.catalog.kinds import KINDS
from relay_gateway.catalog.specs import HostKeySpec
from relay_gateway.control.rules import KindRules, Prepared, Statuses, dump
from relay_gateway.control.value_from import Backends, Kept, ValueFrom
from relay_gateway.errors import FieldProblem, InvalidEntityError, Referrer

FIELD = "spec.valueFrom"
ROTATION_FIELD = "valueFrom"


class HostKeyRules(KindRules):
    """A host key's ``valueFrom`` is checked, sealed and shown by the backend of its kind."""

    has_status = True
    redirects = True

    def __init__(self, backends: Backends, statuses: Statuses) -> None:
        super().__init__(KINDS["host key"])
        self._references = ValueFrom(backends, self.kind.name)
        self._statuses = statuses
        self.documented_input = _documented(self._references.written_type())
        self.documented_output = _documented(self._references.shown_type())

    async def statuses(self, rows: Sequence[EntityRow]) -> Mapping[str, Mapping[str, Any]]:
        return await self._statuses([row.id for row in rows])

    async def inspect(
        self, spec: Mapping[str, Any], previous: EntityRow | None
    ) -> list[FieldProblem]:
        return self._problems(spec, FIELD)

    async def prepare(
        self, entity_id: str, spec: HostKeySpec, previous: EntityRow | None
    ) -> Prepared:
        return _prepared(
            spec, await self._references.keep(spec.value_from, entity_id, previous, FIELD)
        )

    async def redirected_keys(self, current: EntityRow, prepared: Prepared) -> Sequence[Referrer]:
        moved = redirections(self.kind.name, current.spec, prepared.spec)
        if not moved or prepared.sealed["valueFrom"] != current.sealed.get("valueFrom"):
            return ()  # A credential that comes with the move is meant for its new host.
        return [Referrer(self.kind.name, current.id, current.slug, moved[0])]

    async def rotate(self, body: Mapping[str, Any], previous: EntityRow) -> Prepared:
        """The same host key with the ``valueFrom`` in ``body``, with a value of its own.

        Raises :class:`InvalidEntityError`.
        """
        problems = self._problems(body, ROTATION_FIELD)
        if problems:
            raise InvalidEntityError(problems)
        spec = HostKeySpec.model_validate({**previous.spec, "valueFrom": body["valueFrom"]})
        return _prepared(
            spec, await self._references.rotate(spec.value_from, previous, ROTATION_FIELD)
        )

    def _problems(self, holder: Mapping[str, Any], field: str) -> list[FieldProblem]:
        value = holder.get("valueFrom")
        return self._references.read(value, field)[1] if isinstance(value, dict) else []


def _prepared(spec: HostKeySpec, kept: Kept) -> Prepared:
    return Prepared({**dump(spec), "valueFrom": kept.public}, kept.sealed)


def _documented(union: Any) -> type[HostKeySpec]:
    return create_model(
        "HostKeySpec", __base__=HostKeySpec, __doc__=HostKeySpec.__doc__, value_from=(union, ...)
    )
