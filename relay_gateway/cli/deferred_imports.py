"""Loads packages without what a server has no use for.

Modules that are left out are there all the same: who asks for a name of theirs gets it, and the
module is loaded then. Models that are not prepared are prepared when they are first used. Only what
commands call does this, so that nothing changes for those who use the gateway as a library.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

import msgspec

UNUSED: Mapping[str, Sequence[str]] = {
    "sqlalchemy.ext.asyncio": ("session", "scoping"),
    "uvicorn": ("main",),
}
"""By package: its sessions load the object-relational mapper, its command line a library for such,
together 8 MiB and 60 ms."""

UNPREPARED = "fastapi"
"""Its forty models of an OpenAPI document are used when the document is asked for: 1 MiB, 40 ms."""


def load_without_unused() -> None:
    """Loads the packages of :data:`UNUSED`, and :data:`UNPREPARED` without preparing its models;
    one that is loaded already stays as it is."""
    for package, modules in UNUSED.items():
        if package not in sys.modules:
            _load_without(package, [f"{package}.{module}" for module in modules])
    if UNPREPARED not in sys.modules:
        _load_unprepared(UNPREPARED)


def _load_unprepared(package: str) -> None:
    """Loads a package whose pydantic models make their validators when they first need them."""
    from pydantic import BaseModel

    usual = BaseModel.model_config
    BaseModel.model_config = {**usual, "defer_build": True}
    try:
        import_module(package)
    finally:
        BaseModel.model_config = usual


class _Place(msgspec.Struct, frozen=True):
    """Where a name is to be found, in place of what it names."""

    module: str


class _Absent(ModuleType):
    """Stands in for a module while its package takes names from it."""

    def __getattr__(self, name: str) -> _Place:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Place(self.__name__)


def _load_without(package: str, modules: Sequence[str]) -> None:
    sys.modules.update({module: _Absent(module) for module in modules})
    try:
        loaded = import_module(package)
    finally:
        for module in modules:
            del sys.modules[module]
    names = vars(loaded)
    later = {name: value.module for name, value in names.items() if isinstance(value, _Place)}
    for name in later:
        del names[name]
    names["__getattr__"] = _finder(package, names, later)


def _finder(package: str, names: dict[str, Any], later: Mapping[str, str]) -> Callable[[str], Any]:
    """What the package calls for a name that it does not have (PEP 562)."""

    def find(name: str) -> Any:
        if name not in later:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        names[name] = found = getattr(import_module(later[name]), name)
        return found

    return find
