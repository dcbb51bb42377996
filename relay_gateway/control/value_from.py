"""The ``valueFrom`` union of the installed secret backends: read, checked, sealed and shown."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Union

from pydantic import Field, ValidationError, create_model

from relay_gateway.catalog.build import seal_binding
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
from relay_gateway.plugin import SecretBackend, SecretRef

Backends = Mapping[str, SecretBackend[Any]]

logger = logging.getLogger(__name__)


class ValueFrom:
    """References to credentials, each handled by the backend of its kind.

    ``field`` in the methods is what the client calls the reference. A backend that fails in a way
    it should not is a :class:`PluginError`.
    """

    def __init__(self, backends: Backends) -> None:
        self._backends = backends

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

    async def seal(
        self, ref: SecretRef, row_id: str, generation: int, former: SecretRef | None, field: str
    ) -> SecretRef:
        """What the catalog keeps for ``ref``. Raises :class:`InvalidEntityError`."""
        backend = self._backends[ref.kind]
        try:
            with _plugin_failures(backend):
                return await backend.seal(ref, seal_binding(row_id, generation), former)
        except SecretRefError as error:
            raise InvalidEntityError([_problem(error, field)]) from error

    def publish(self, stored: SecretRef) -> SecretRef:
        """What reads show of a kept reference."""
        backend = self._backends[stored.kind]
        with _plugin_failures(backend):
            return backend.publish(stored)

    def kept(self, kind: str, row: EntityRow | None) -> SecretRef | None:
        """What the backend ``kind`` kept in ``row``; ``None`` when that was another one or cannot
        be read any more."""
        backend = self._backends[kind]
        kept = row.sealed.get("valueFrom", {}) if row else {}
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
        # Two backends may call their models the same; their schemas need names of their own.
        refs = tuple(
            create_model(f"{class_name(name)}{suffix}", __base__=models[name])
            for name in sorted(models)
        )
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
