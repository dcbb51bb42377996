"""Every hook has a plugin here that implements it, or is named below as reserved."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from relay_gateway.plugin import hookspecs
from relay_gateway.registry import PluginKind

ROOT = Path(__file__).parent.parent
RESERVED: set[str] = set()
"""Declared for plugins to come; whoever ships the first one takes its hook out of here."""


def declared() -> set[str]:
    return {name for name in vars(hookspecs) if name.startswith("relay_register_")}


def answers() -> Iterator[tuple[str, int]]:
    """Each hook of each distribution in ``plugins``, and how much it hands over."""
    for project in sorted(ROOT.glob("plugins/*/pyproject.toml")):
        table = tomllib.loads(project.read_text("utf-8"))["project"]["entry-points"]
        for target in table["relay_gateway"].values():
            module = import_module(target)
            for name in sorted(declared() & vars(module).keys()):
                yield name, len(getattr(module, name)())


def test_every_hook_is_implemented_by_a_plugin_or_reserved() -> None:
    implemented = {name for name, _ in answers()}
    assert implemented | RESERVED == declared()
    assert implemented & RESERVED == set(), "it is implemented: no longer reserved"


def test_no_plugin_here_implements_a_hook_with_nothing() -> None:
    assert [name for name, handed_over in answers() if not handed_over] == []


def test_every_hook_belongs_to_a_kind_of_plugin() -> None:
    assert {kind.hook for kind in PluginKind} == declared()
