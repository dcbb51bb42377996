"""Whose code a module is: found by the classes that plugins have registered."""

from __future__ import annotations

from collections.abc import Iterable

from relay_gateway.plugin import Plugin
from relay_gateway.registry.instances import Key

_CORE = "relay_gateway"


def owners_of(module: str, classes: Iterable[tuple[Key, type[Plugin]]]) -> list[Key]:
    """The plugins whose class is defined in ``module``, else those that share its package.

    A distribution may have several: which of them it was, its code does not tell.
    """
    known = [(key, plugin.__module__) for key, plugin in classes]
    exact = [key for key, home in known if home == module]
    package = module.partition(".")[0]
    if exact or package == _CORE:
        return exact
    return [key for key, home in known if home.partition(".")[0] == package]
