"""A guard that denies or masks what patterns match, in requests and in answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relay_gateway.plugin import Guard, hookimpl
from relay_gateway_guard_patterns.config import PatternsConfig, Rule
from relay_gateway_guard_patterns.guard import PatternGuard

__all__ = ["PatternGuard", "PatternsConfig", "Rule", "relay_register_guards"]


@hookimpl
def relay_register_guards() -> Sequence[type[Guard[Any]]]:
    """The guard of this distribution."""
    return [PatternGuard]
