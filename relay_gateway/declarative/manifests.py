"""Manifests: the documents of files, directories and standard input, each declaring an entity."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, get_args

from relay_gateway.catalog.envelope import ManagedBy
from relay_gateway.catalog.kinds import KINDS, Kind
from relay_gateway.declarative.problems import InvalidManifestsError, ManifestProblem
from relay_gateway.declarative.yaml_text import YamlDocument, read_documents
from relay_gateway.errors import ConfigurationError
from relay_gateway.ids import is_id, is_slug

STANDARD_INPUT = "-"
SUFFIXES = (".yaml", ".yml")
MAX_BYTES = 16 * 1024 * 1024
_MEMBERS = ("kind", "metadata", "spec")
_MANAGERS = get_args(ManagedBy)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What one document declares. ``spec`` and ``metadata`` are as written, references are slugs or
    ids. ``directory`` is where it was read, ``None`` for standard input."""

    kind: Kind
    slug: str
    metadata: Mapping[str, Any]
    spec: Mapping[str, Any] = field(repr=False)
    managed_by: ManagedBy = "file"
    source: str = STANDARD_INPUT
    line: int = 0
    lines: Mapping[str, int] = field(default_factory=dict, repr=False)
    directory: Path | None = None

    @property
    def entity(self) -> str:
        """Kind and slug, for messages."""
        return f"{self.kind.name} {self.slug}"

    def problem(self, where: str, code: str, message: str) -> ManifestProblem:
        """A problem with the field ``where``, at its line or that of what it should be in."""
        path, line = where, None
        while line is None and path:
            line = self.lines.get(path)
            path = _parent(path)
        return ManifestProblem(self.source, line or self.line, self.entity, where, code, message)


@dataclass(frozen=True, slots=True)
class _Text:
    source: str
    content: bytes = field(repr=False)
    directory: Path | None


def read_manifests(names: Sequence[str], stdin: BinaryIO | None = None) -> list[Manifest]:
    """The manifests in files, directories (searched whole, in order of names) and ``-``.

    Raises :class:`ConfigurationError` for what cannot be read at all and
    :class:`InvalidManifestsError` for documents that are no manifests.
    """
    manifests: list[Manifest] = []
    problems: list[ManifestProblem] = []
    for text in _texts(names, stdin):
        for document in read_documents(text.content):
            found = _Reader(text, document)
            manifests += found.manifests()
            problems += found.problems
    problems += _repeated(manifests)
    if problems:
        raise InvalidManifestsError(problems)
    return manifests


def _texts(names: Sequence[str], stdin: BinaryIO | None) -> Iterator[_Text]:
    for name in dict.fromkeys(names):
        if name == STANDARD_INPUT:
            content = _limited("standard input", stdin or sys.stdin.buffer)
            yield _Text("standard input", content, None)
            continue
        for path in _files(Path(name)):
            try:
                with path.open("rb") as file:
                    content = _limited(str(path), file)
            except OSError as error:
                raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
            yield _Text(str(path), content, path.parent)


def _limited(name: str, file: BinaryIO) -> bytes:
    content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ConfigurationError(f"{name} is larger than {MAX_BYTES} bytes; divide it")
    return content


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(
        file
        for file in path.rglob("*")
        if file.suffix in SUFFIXES
        and file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(path).parts)
    )
    if not found:
        raise ConfigurationError(f"{path} has no file that ends with {' or '.join(SUFFIXES)}")
    return found


class _Reader:
    """One document on its way to a manifest."""

    def __init__(self, text: _Text, document: YamlDocument) -> None:
        self._text = text
        self._document = document
        self._entity = ""
        self.problems: list[ManifestProblem] = []
        for fault in document.faults:
            self._add(fault.field, "invalid_yaml", fault.message, fault.line)

    def _add(self, where: str, code: str, message: str, line: int | None = None) -> None:
        line = line or self._document.lines.get(where) or self._document.line
        problem = ManifestProblem(self._text.source, line, self._entity, where, code, message)
        self.problems.append(problem)

    def manifests(self) -> Iterator[Manifest]:
        """The manifest, if the document is one in its outline."""
        value = self._document.value
        if not isinstance(value, dict):
            if not self.problems:
                self._add("", "no_manifest", f"is no manifest, which has {', '.join(_MEMBERS)}")
            return
        kind = self._kind(value.get("kind"))
        metadata = self._member(value, "metadata", required=True)
        slug = self._slug(metadata)
        self._entity = f"{kind.name} {slug}" if kind and slug else ""
        spec = self._member(value, "spec")
        managed_by = self._manager(metadata)
        for name in value.keys() - set(_MEMBERS):
            self._add(name, "unknown_field", f"is not one of {', '.join(_MEMBERS)}")
        if kind is not None and slug is not None and not self.problems:
            yield Manifest(
                kind=kind,
                slug=slug,
                metadata={k: v for k, v in metadata.items() if k != "managedBy"},
                spec=spec,
                managed_by=managed_by,
                source=self._text.source,
                line=self._document.line,
                lines=self._document.lines,
                directory=self._text.directory,
            )

    def _kind(self, given: Any) -> Kind | None:
        kind = KINDS.get(given.replace("-", " ")) if isinstance(given, str) else None
        if kind is None:
            message = f"must be one of {', '.join(map(hyphenated, KINDS))}"
            self._add("kind", "required" if given is None else "unknown_kind", message)
        return kind

    def _member(self, value: dict[str, Any], name: str, *, required: bool = False) -> Any:
        member = value.get(name)
        if member is None and not required:
            return {}
        if not isinstance(member, dict):
            self._add(name, "required" if member is None else "wrong_type", "must be a mapping")
            return {}
        return member

    def _slug(self, metadata: Mapping[str, Any]) -> str | None:
        given = metadata.get("slug")
        if isinstance(given, str) and is_slug(given) and not is_id(given):
            return given
        message = "is required: a DNS-1123 label, by which the entity is found again"
        self._add("metadata.slug", "required" if given is None else "invalid_slug", message)
        return None

    def _manager(self, metadata: Mapping[str, Any]) -> ManagedBy:
        given = metadata.get("managedBy", "file")
        for manager in _MANAGERS:
            if given == manager:
                return manager  # type: ignore[no-any-return]  # an item of the literal
        message = f"must be one of {', '.join(_MANAGERS)}; without it that is file"
        self._add("metadata.managedBy", "unknown_value", message)
        return "file"


def _repeated(manifests: Iterable[Manifest]) -> Iterator[ManifestProblem]:
    seen: dict[str, Manifest] = {}
    for manifest in manifests:
        first = seen.setdefault(manifest.entity, manifest)
        if first is not manifest:
            message = f"is declared twice, first at {first.source}:{first.line}"
            yield manifest.problem("metadata.slug", "declared_twice", message)


def hyphenated(kind: str) -> str:
    """The name of a kind as manifests have it: ``host-key``."""
    return kind.replace(" ", "-")


def _parent(path: str) -> str:
    return path[: max(path.rfind("."), path.rfind("["), 0)]
