"""Which endpoint a path of the inference plane belongs to; the table comes from wire formats."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import unquote

from relay_gateway.registry.plugins import ServedEndpoint

_MODEL: Final = "{model}"

Methods = Mapping[str, ServedEndpoint]
"""The endpoints of one path, by method."""


class Found(NamedTuple):
    """What a path leads to; ``model`` is the model that it names, where it names one."""

    methods: Methods
    model: str | None


class Routes:
    """The endpoints of all wire formats. ``{model}`` stands for any text in a path, slashes too."""

    def __init__(self, endpoints: Sequence[ServedEndpoint]) -> None:
        paths: defaultdict[str, dict[str, ServedEndpoint]] = defaultdict(dict)
        for served in endpoints:
            paths[served.endpoint.path][served.endpoint.method] = served
        self._exact = {path: Found(methods, None) for path, methods in paths.items()}
        self._with_model: list[tuple[str, str, Methods]] = []
        for path, methods in paths.items():
            before, model, after = path.partition(_MODEL)
            if model:
                self._with_model.append((before, after, methods))
        self.known = sorted(f"{method} {path}" for path in paths for method in paths[path])
        """Methods and paths, for people."""

    def find(self, path: str) -> Found | None:
        """What is at ``path``, which is not decoded; ``None`` for nothing."""
        found = self._exact.get(path)
        if found is not None:
            return found
        for before, after, methods in self._with_model:
            if path.startswith(before) and path.endswith(after):
                model = path[len(before) : len(path) - len(after)]
                if model:
                    return Found(methods, unquote(model, errors="replace"))
        return None
