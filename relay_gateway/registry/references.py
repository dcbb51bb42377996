"""Credentials of plugins: a ``valueFrom`` reference in a plugin's section, resolved when asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from relay_gateway.errors import FAULTS, SecretError, SecretRefError, SecretUnavailableError
from relay_gateway.plugin import ResolvedSecret, RowBinding, SecretBackend, SecretRef
from relay_gateway.redaction import LIVE

DEADLINE: Final = 5.0
"""Seconds that a backend may take."""


async def resolve_reference(
    backends: Mapping[str, SecretBackend[Any]], reference: Mapping[str, Any], plugin: str
) -> ResolvedSecret:
    """What ``reference``, in the section of ``plugin``, leads to.

    Raises :class:`SecretError`: a backend that fails in a way of its own is one that cannot be
    asked, and what it said is not repeated.
    """
    backend, ref = _read(backends, reference)
    try:
        async with asyncio.timeout(DEADLINE):
            resolved = await backend.resolve(ref, RowBinding("plugin", plugin, "value_from", 1))
    except TimeoutError:
        raise SecretUnavailableError(
            f"secret backend {backend.name!r} did not answer within {DEADLINE:g} s"
        ) from None
    except SecretError:
        raise
    except FAULTS as error:  # plugins raise what they like
        raise SecretUnavailableError(
            f"secret backend {backend.name!r} failed with {type(error).__name__}"
        ) from None
    LIVE.add(resolved.value)
    return resolved


def _read(
    backends: Mapping[str, SecretBackend[Any]], reference: Mapping[str, Any]
) -> tuple[SecretBackend[Any], SecretRef]:
    """The backend that ``reference`` names, and its own model of it."""
    kind = reference.get("kind")
    backend = backends.get(kind) if isinstance(kind, str) else None
    if backend is None:
        there = ", ".join(sorted(name for name, one in backends.items() if not one.seals))
        raise SecretRefError(
            f"no configured secret backend is called {kind!r}; there are: {there or 'none'}",
            field="kind",
        )
    if backend.seals or backend.StoredRef is not None:
        raise SecretRefError(
            f"{kind!r} keeps values in the catalog; a section of relay.toml needs a backend that "
            "finds them elsewhere",
            field="kind",
        )
    return backend, _model_of(backend, reference)


def _model_of(backend: SecretBackend[Any], reference: Mapping[str, Any]) -> SecretRef:
    try:
        ref: SecretRef = backend.Ref.model_validate(reference)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False, include_input=False)
        listed = "; ".join(
            f"{'.'.join(map(str, one['loc'])) or 'it'}: {one['msg'].lower()}" for one in details
        )
        field = ".".join(map(str, details[0]["loc"]))
    else:
        backend.check(ref)
        return ref
    # Raised here, where the error that quotes what it refuses is no context any more.
    raise SecretRefError(f"this is no reference to {backend.name!r}: {listed}", field=field)
