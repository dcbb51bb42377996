"""Host keys: what they hold is sealed on its way into the catalog."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import create_model

from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.catalog.kinds import KINDS
from relay_gateway.catalog.specs import HostKeySpec
from relay_gateway.control.rules import KindRules, Prepared, dump
from relay_gateway.control.value_from import Backends, ValueFrom
from relay_gateway.errors import FieldProblem, InvalidEntityError
from relay_gateway.plugin import SecretRef

FIELD = "spec.valueFrom"
ROTATION_FIELD = "valueFrom"


class HostKeyRules(KindRules):
    """A host key's ``valueFrom`` is checked, sealed and shown by the backend of its kind.

    The stored form is kept in ``sealed["valueFrom"]`` and bound to the row and to
    ``sealed["generation"]``, which grows with each new value.
    """

    has_status = True

    def __init__(self, backends: Backends, status: Callable[[str], Mapping[str, Any]]) -> None:
        super().__init__(KINDS["host key"])
        self._references = ValueFrom(backends)
        self._status = status
        self.documented_input = _documented(self._references.written_type())
        self.documented_output = _documented(self._references.shown_type())

    def status(self, row: EntityRow) -> Mapping[str, Any] | None:
        return self._status(row.id)

    async def inspect(
        self, spec: Mapping[str, Any], previous: EntityRow | None
    ) -> list[FieldProblem]:
        return self._problems(spec, FIELD)

    async def prepare(
        self, entity_id: str, spec: HostKeySpec, previous: EntityRow | None
    ) -> Prepared:
        ref = self._accepted(spec, FIELD)
        former = self._references.kept(ref.kind, previous)
        generation = _generation(previous) + 1
        stored = await self._references.seal(ref, entity_id, generation, former, FIELD)
        if former is not None and stored == former:
            # An unchanged value is still bound to the generation it was sealed for.
            generation -= 1
        return self._prepared(spec, stored, generation)

    async def rotate(self, body: Mapping[str, Any], previous: EntityRow) -> Prepared:
        """The same host key with the ``valueFrom`` in ``body``, with a value of its own.

        Raises :class:`InvalidEntityError`.
        """
        problems = self._problems(body, ROTATION_FIELD)
        if problems:
            raise InvalidEntityError(problems)
        spec = HostKeySpec.model_validate({**previous.spec, "valueFrom": body["valueFrom"]})
        ref = self._accepted(spec, ROTATION_FIELD)
        generation = _generation(previous) + 1
        stored = await self._references.seal(ref, previous.id, generation, None, ROTATION_FIELD)
        return self._prepared(spec, stored, generation)

    def _problems(self, holder: Mapping[str, Any], field: str) -> list[FieldProblem]:
        value = holder.get("valueFrom")
        return self._references.read(value, field)[1] if isinstance(value, dict) else []

    def _accepted(self, spec: HostKeySpec, field: str) -> SecretRef:
        ref, problems = self._references.read(spec.value_from, field)
        if ref is None:
            raise InvalidEntityError(problems)
        return ref

    def _prepared(self, spec: HostKeySpec, stored: SecretRef, generation: int) -> Prepared:
        public = self._references.publish(stored)
        return Prepared(
            {**dump(spec), "valueFrom": _json(public)},
            {"valueFrom": _json(stored), "generation": generation},
        )


def _generation(row: EntityRow | None) -> int:
    generation: int = row.sealed.get("generation", 0) if row else 0
    return generation


def _json(ref: SecretRef) -> dict[str, Any]:
    return ref.model_dump(mode="json", by_alias=True)


def _documented(union: Any) -> type[HostKeySpec]:
    return create_model(
        "HostKeySpec", __base__=HostKeySpec, __doc__=HostKeySpec.__doc__, value_from=(union, ...)
    )
