"""Host keys: the ``valueFrom`` union of the installed secret backends, and its sealing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Union

from pydantic import Field, ValidationError, create_model

from relay_gateway.catalog.build import seal_binding
from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.catalog.kinds import KINDS
from relay_gateway.catalog.specs import HostKeySpec
from relay_gateway.control.bodies import validate
from relay_gateway.control.naming import class_name, installed
from relay_gateway.control.rules import KindRules, Prepared, dump
from relay_gateway.errors import (
    FieldProblem,
    InvalidEntityError,
    PluginError,
    RelayError,
    SecretRefError,
)
from relay_gateway.plugin import SecretBackend, SecretRef

FIELD = "spec.valueFrom"
Backends = Mapping[str, SecretBackend[Any]]


class HostKeyRules(KindRules):
    """A host key's ``valueFrom`` is checked, sealed and shown by the backend of its kind.

    The stored form is kept in ``sealed["valueFrom"]`` and bound to the row and to
    ``sealed["generation"]``, which grows with each new value.
    """

    has_status = True

    def __init__(self, backends: Backends, status: Callable[[str], Mapping[str, Any]]) -> None:
        super().__init__(KINDS["host key"])
        self._backends = backends
        self._status = status
        if backends:
            self.documented_input = _documented(backends, "Ref")
            self.documented_output = _documented(backends, "PublicRef")

    def status(self, row: EntityRow) -> Mapping[str, Any] | None:
        return self._status(row.id)

    async def inspect(
        self, spec: Mapping[str, Any], previous: EntityRow | None
    ) -> list[FieldProblem]:
        return self.inspect_reference(spec, FIELD)

    def inspect_reference(self, holder: Mapping[str, Any], field: str) -> list[FieldProblem]:
        """Problems of the ``valueFrom`` in ``holder``, which the client calls ``field``."""
        value_from = holder.get("valueFrom")
        if not isinstance(value_from, dict):
            return []
        return self._read(value_from, field)[1]

    async def prepare(
        self, entity_id: str, spec: HostKeySpec, previous: EntityRow | None
    ) -> Prepared:
        ref = self._accepted(spec)
        former = _former(self._backends[ref.kind], previous)
        return await self._sealed(entity_id, spec, ref, previous, former)

    async def renew(self, spec: HostKeySpec, previous: EntityRow) -> Prepared:
        """As :meth:`prepare`, but a value that the catalog keeps must be given anew."""
        return await self._sealed(previous.id, spec, self._accepted(spec), previous, None)

    def _accepted(self, spec: HostKeySpec) -> SecretRef:
        ref, problems = self._read(spec.value_from, FIELD)
        if ref is None:
            raise InvalidEntityError(problems)
        return ref

    async def _sealed(
        self,
        entity_id: str,
        spec: HostKeySpec,
        ref: SecretRef,
        previous: EntityRow | None,
        former: SecretRef | None,
    ) -> Prepared:
        backend = self._backends[ref.kind]
        generation = previous.sealed.get("generation", 0) if previous else 0
        stored = await _seal(backend, ref, entity_id, generation + 1, former)
        # An unchanged value is still bound to the generation it was sealed for.
        kept = generation if former is not None and stored == former else generation + 1
        public = backend.publish(stored)
        return Prepared(
            {**dump(spec), "valueFrom": _json(public)},
            {"valueFrom": _json(stored), "generation": kept},
        )

    def _read(
        self, value_from: Mapping[str, Any], field: str
    ) -> tuple[SecretRef | None, list[FieldProblem]]:
        kind = value_from.get("kind")
        backend = self._backends.get(kind) if isinstance(kind, str) else None
        if backend is None:
            found = "is required" if kind is None else f"{kind!r} is not installed"
            message = f"{found}; {installed(self._backends)}"
            code = "required" if kind is None else "unknown_kind"
            return None, [FieldProblem(f"{field}.kind", code, message)]
        ref, problems = validate(backend.Ref, value_from, field)
        if ref is None:
            return None, problems
        try:
            backend.check(ref)
        except SecretRefError as error:
            return None, [_ref_problem(error, field)]
        except Exception as error:
            raise _failure(backend, error) from error
        return ref, []


async def _seal(
    backend: SecretBackend[Any],
    ref: SecretRef,
    entity_id: str,
    generation: int,
    former: SecretRef | None,
) -> SecretRef:
    try:
        return await backend.seal(ref, seal_binding(entity_id, generation), former)
    except SecretRefError as error:
        raise InvalidEntityError([_ref_problem(error, FIELD)]) from error
    except RelayError:
        raise
    except Exception as error:
        raise _failure(backend, error) from error


def _former(backend: SecretBackend[Any], previous: EntityRow | None) -> SecretRef | None:
    """What the backend kept before; ``None`` when it was another one or that cannot be read."""
    kept = previous.sealed.get("valueFrom", {}) if previous else {}
    if kept.get("kind") != backend.name:
        return None
    try:
        return (backend.StoredRef or backend.Ref).model_validate(kept)
    except ValidationError:
        return None


def _ref_problem(error: SecretRefError, field: str) -> FieldProblem:
    place = f"{field}.{error.field}" if error.field else field
    return FieldProblem(place, error.reason, str(error))


def _failure(backend: SecretBackend[Any], error: Exception) -> PluginError:
    # Only the type of the error: its text may quote the value.
    return PluginError(
        f"the secret backend {backend.name!r} failed ({type(error).__name__}); the log says where"
    )


def _json(ref: SecretRef) -> dict[str, Any]:
    return ref.model_dump(mode="json", by_alias=True)


def _documented(backends: Backends, attribute: str) -> type[HostKeySpec]:
    """The spec with the union of all backends' references; ``attribute`` says in which form."""
    suffix = "Reference" if attribute == "Ref" else "PublicReference"
    refs = tuple(
        create_model(f"{class_name(name)}{suffix}", __base__=_model(backends[name], attribute))
        for name in sorted(backends)
    )
    union: Any = refs[0]
    if len(refs) > 1:
        union = Annotated[Union[refs], Field(discriminator="kind")]  # noqa: UP007  # built at run time
    return create_model(
        "HostKeySpec", __base__=HostKeySpec, __doc__=HostKeySpec.__doc__, value_from=(union, ...)
    )


def _model(backend: SecretBackend[Any], attribute: str) -> type[SecretRef]:
    if attribute == "Ref":
        return backend.Ref
    return backend.PublicRef or backend.StoredRef or backend.Ref
