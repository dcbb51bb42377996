"""Credentials in manifests: taken from variables and files when they are applied.

A field of a reference that holds a credential (``value`` of ``{kind: stored}``) is written as
``{fromEnv: NAME}`` or ``{fromFile: PATH}``, so that no manifest has to hold one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec
from pydantic import SecretStr, ValidationError

from relay_gateway.catalog.compile import SEALED_FIELDS, seal_binding
from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.control.value_from import generation_of
from relay_gateway.declarative.manifests import Manifest
from relay_gateway.declarative.problems import ManifestProblem
from relay_gateway.errors import RelayError
from relay_gateway.plugin import SecretBackend
from relay_gateway.secret import Secret

Backends = Mapping[str, SecretBackend[Any]]
MAX_BYTES = 64 * 1024
COMPARE_SECONDS = 5
GATEWAYS_OWN = "RELAY_"
_SOURCES = ("fromEnv", "fromFile")


class CredentialSources(msgspec.Struct, frozen=True):
    """Where values come from, and which backends take them."""

    backends: Backends
    environ: Callable[[str], str | None]

    async def fill(
        self, manifest: Manifest, spec: dict[str, Any], previous: EntityRow | None
    ) -> list[ManifestProblem]:
        """Puts the values into ``spec``, which becomes another one. A value that is already stored
        is left out, which keeps it: it is compared in memory and never shown."""
        name = SEALED_FIELDS.get(manifest.kind.name)
        reference = spec.get(name) if name else None
        if name is None or not isinstance(reference, dict):
            return []
        problems: list[ManifestProblem] = []
        filled = dict(reference)
        backend = self.backends.get(str(reference.get("kind")))
        secret = set(_secret_fields(backend)) if backend else set()
        for field, given in reference.items():
            where = f"spec.{name}.{field}"
            if isinstance(given, dict):
                value = self._read(manifest, where, given, problems)
                if value is not None:
                    filled[field] = value
            elif field in secret and isinstance(given, str) and manifest.directory is not None:
                message = (
                    "is a credential, which a file should not hold; write {fromEnv: NAME} or "
                    "{fromFile: PATH}, or give the manifest on standard input"
                )
                problems.append(manifest.problem(where, "plaintext_credential", message))
        if backend is not None and previous is not None and len(secret & filled.keys()) == 1:
            (field,) = secret & filled.keys()
            if await _is_stored(backend, previous, name, filled[field]):
                del filled[field]
        spec[name] = filled
        return problems

    def _read(
        self,
        manifest: Manifest,
        where: str,
        given: Mapping[str, Any],
        problems: list[ManifestProblem],
    ) -> str | None:
        source, name = next(iter(given.items()), ("", None))
        if len(given) != 1 or source not in _SOURCES or not isinstance(name, str) or not name:
            message = f"must be a text, or one of {' and '.join(_SOURCES)} with a text"
            problems.append(manifest.problem(where, "wrong_type", message))
            return None
        try:
            return self._variable(name) if source == "fromEnv" else _file(manifest, name)
        except ValueError as error:
            code = "credential_unavailable"
            problems.append(manifest.problem(where, code, str(error)))
            return None

    def _variable(self, name: str) -> str:
        if name.startswith(GATEWAYS_OWN):
            raise ValueError(f"{name} is a variable of the gateway itself; use another one")
        value = self.environ(name)
        if not value:
            raise ValueError(f"the variable {name} is not set; set it where this command runs")
        return value


def _file(manifest: Manifest, name: str) -> str:
    path = (manifest.directory or Path()) / name
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) <= MAX_BYTES:
            return content.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text in UTF-8"
        raise ValueError(f"the file {path} cannot be read: {reason}") from error
    raise ValueError(f"the file {path} is larger than {MAX_BYTES} bytes, which no credential is")


def _secret_fields(backend: SecretBackend[Any]) -> Iterator[str]:
    for name, field in backend.Ref.model_fields.items():
        if SecretStr in (field.annotation, *get_args(field.annotation)):
            yield field.alias or name


async def _is_stored(backend: SecretBackend[Any], row: EntityRow, name: str, value: Any) -> bool:
    """Whether ``value`` is the credential that ``row`` keeps; a value that cannot be opened is not
    taken for the same."""
    kept = row.sealed.get(name)
    if backend.StoredRef is None or not isinstance(value, str) or not isinstance(kept, dict):
        return False
    if kept.get("kind") != backend.name:
        return False
    try:
        stored = backend.StoredRef.model_validate(kept)
        async with asyncio.timeout(COMPARE_SECONDS):
            found = await backend.resolve(
                stored, seal_binding(row.id, generation_of(row), row.kind)
            )
    except (RelayError, ValidationError, TimeoutError):
        return False
    return Secret(value).matches(found.value.reveal())
