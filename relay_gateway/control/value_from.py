"""The ``valueFrom`` union of the installed secret backends: read, checked, sealed and shown."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Annotated, Any, Union

import msgspec
from pydantic import Field, ValidationError, create_model

from relay_gateway.catalog.compile import SEALED_FIELDS, seal_binding
from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.control.bodies import validate
from relay_gateway.control.naming import class_name, installed
from relay_gateway.errors import (
    FieldProblem,
    InvalidEntityError,
    PluginError,
    RelayError,
    SecretRefError,
)
from relay_gateway.plugin import RowBinding, SecretBackend, SecretRef

Backends = Mapping[str, SecretBackend[Any]]

logger = logging.getLogger(__name__)


class Kept(msgspec.Struct, frozen=True):
    """A reference in the catalog: what reads show of it, and what the row's ``sealed`` gets."""

    public: dict[str, Any]
    sealed: dict[str, Any]


class ValueFrom:
    """References to credentials in entities of ``kind``, each handled by the backend that it names.

    What a backend keeps is in the row's ``sealed`` under the name of the field, bound to the row
    and to ``sealed["generation"]``, which grows with each new value.

    ``field`` in the methods is what the client calls the reference. A backend that fails in a way
    it should not is a :class:`PluginError`.
    """

    def __init__(self, backends: Backends, kind: str) -> None:
        self._backends = backends
        self._kind = kind
        self._member = SEALED_FIELDS[kind]

    def read(
        self, value: Mapping[str, Any], field: str
    ) -> tuple[SecretRef | None, list[FieldProblem]]:
        """The reference that a client wrote, or everything that is wrong with it."""
        kind = value.get("kind")
        backend = self._backends.get(kind) if isinstance(kind, str) else None
        if backend is None:
            return None, [self._unknown_kind(kind, field)]
        ref, problems = validate(backend.Ref, value, field)
        if ref is None:
            return None, problems
        try:
            with _plugin_failures(backend):
                backend.check(ref)
        except SecretRefError as error:
            return None, [_problem(error, field)]
        return ref, []

    async def keep(
        self, value: Mapping[str, Any], row_id: str, previous: EntityRow | None, field: str
    ) -> Kept:
        """What the catalog keeps for what a client wrote; a value that is left out is that of
        ``previous``. Raises :class:`InvalidEntityError`."""
        return await self._keep(value, row_id, previous, field, rotated=False)

    async def rotate(self, value: Mapping[str, Any], previous: EntityRow, field: str) -> Kept:
        """As :meth:`keep`, with a value of its own."""
        return await self._keep(value, previous.id, previous, field, rotated=True)

    async def _keep(
        self,
        value: Mapping[str, Any],
        row_id: str,
        previous: EntityRow | None,
        field: str,
        *,
        rotated: bool,
    ) -> Kept:
        ref, problems = self.read(value, field)
        if ref is None:
            raise InvalidEntityError(problems)
        former = None if rotated else self._former(ref.kind, previous)
        generation = generation_of(previous) + 1
        stored = await self._seal(ref, seal_binding(row_id, generation, self._kind), former, field)
        if former is not None and stored == former:
            # An unchanged value is still bound to the generation it was sealed for.
            generation -= 1
        sealed = {self._member: _json(stored), "generation": generation}
        return Kept(_json(self._publish(stored)), sealed)

    async def _seal(
        self, ref: SecretRef, binding: RowBinding, former: SecretRef | None, field: str
    ) -> SecretRef:
        backend = self._backends[ref.kind]
        try:
            with _plugin_failures(backend):
                return await backend.seal(ref, binding, former)
        except SecretRefError as error:
            raise InvalidEntityError([_problem(error, field)]) from error

    def _publish(self, stored: SecretRef) -> SecretRef:
        backend = self._backends[stored.kind]
        with _plugin_failures(backend):
            return backend.publish(stored)

    def _former(self, kind: str, row: EntityRow | None) -> SecretRef | None:
        """What the backend ``kind`` kept in ``row``; ``None`` when that was another one or cannot
        be read any more."""
        backend = self._backends[kind]
        kept = row.sealed.get(self._member, {}) if row else {}
        if kept.get("kind") != backend.name:
            return None
        try:
            return (backend.StoredRef or backend.Ref).model_validate(kept)
        except ValidationError:
            return None

    def written_type(self) -> Any:
        """The union of what clients may write, for documentation."""
        return self._union("Reference", {n: b.Ref for n, b in self._backends.items()})

    def shown_type(self) -> Any:
        """The union of what reads show, for documentation."""
        models = {n: b.PublicRef or b.StoredRef or b.Ref for n, b in self._backends.items()}
        return self._union("PublicReference", models)

    def _union(self, suffix: str, models: Mapping[str, type[SecretRef]]) -> Any:
        refs = tuple(_named(f"{class_name(name)}{suffix}", models[name]) for name in sorted(models))
        if not refs:
            return dict[str, Any]
        if len(refs) == 1:
            return refs[0]
        return Annotated[Union[refs], Field(discriminator="kind")]  # noqa: UP007  # made at run time

    def _unknown_kind(self, kind: Any, field: str) -> FieldProblem:
        there = installed(self._backends)
        if kind is None:
            return FieldProblem(f"{field}.kind", "required", f"is required; {there}")
        message = f"no installed secret backend is called {kind!r}; {there}"
        return FieldProblem(f"{field}.kind", "unknown_kind", message)


def generation_of(row: EntityRow | None) -> int:
    """The generation of the value that ``row`` has or last had; 0 before the first."""
    generation: int = row.sealed.get("generation", 0) if row else 0
    return generation


@cache
def _named(name: str, model: type[SecretRef]) -> type[SecretRef]:
    """``model`` under the name of its schema: two backends may call their models the same. Each is
    made once, however many kinds refer to it. What tells them apart has to be there."""
    kind: Any = model.model_fields["kind"].annotation
    return create_model(name, __base__=model, __doc__=model.__doc__, kind=(kind, ...))


def _json(ref: SecretRef) -> dict[str, Any]:
    return ref.model_dump(mode="json", by_alias=True)


def _problem(error: SecretRefError, field: str) -> FieldProblem:
    place = f"{field}.{error.field}" if error.field else field
    return FieldProblem(place, error.reason, str(error))


@contextmanager
def _plugin_failures(backend: SecretBackend[Any]) -> Iterator[None]:
    """Lets through what a backend may raise. Of anything else only type and place are told: its
    text may quote the value."""
    try:
        yield
    except RelayError:
        raise
    except Exception as error:  # noqa: BLE001  # whatever it is, it is the plugin's
        place = traceback.extract_tb(error.__traceback__)[-1]
        kind = type(error).__name__
        logger.error(  # noqa: TRY400  # the traceback would repeat the text
            "secret backend %r raised %s at %s:%s", backend.name, kind, place.filename, place.lineno
        )
        raise PluginError(
            f"the secret backend {backend.name!r} failed ({kind}); the log says where"
        ) from None
