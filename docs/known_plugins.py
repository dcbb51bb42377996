"""The page of known plugins, from the projects of this repository."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path


def known_plugins_page(projects: Iterable[Path]) -> Iterator[str]:
    """The page; ``projects`` are the ``pyproject.toml`` files of plugins."""
    yield (
        "These are developed together with the gateway.\n\n"
        "| distribution | what it brings |\n|---|---|"
    )
    for path in sorted(projects):
        project = tomllib.loads(path.read_text("utf-8"))["project"]
        words = project["description"].removeprefix("Relay Gateway: ")
        readme = f"../../plugins/{path.parent.name}/README.md"
        yield f"| [{project['name']}]({readme}) | {words[:1].upper()}{words[1:]} |"
