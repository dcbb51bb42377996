"""What is wrong with manifests: every offending field of every document, with its line."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from relay_gateway.errors import CatalogError


class ManifestProblem(msgspec.Struct, frozen=True, order=True):
    """One offending field. ``entity`` is kind and slug, ``field`` empty for the whole of it."""

    source: str
    line: int
    entity: str
    field: str
    code: str
    message: str

    def __str__(self) -> str:
        parts = [f"{self.source}:{self.line}" if self.line else self.source, self.entity]
        return ": ".join([*filter(None, [*parts, self.field]), self.message])


class InvalidManifestsError(CatalogError):
    """Manifests that cannot be applied; nothing was written. The message has a line per problem."""

    def __init__(self, problems: Iterable[ManifestProblem]) -> None:
        self.problems = tuple(sorted(set(problems)))
        super().__init__("\n".join(map(str, self.problems)))
