"""What limits have decided so far, rule by rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, get_args

from relay_gateway.catalog.limit_rules import LimitRule

Decision = Literal["allowed", "refused", "shadow", "lost"]
MAX_RULES = 1000
OTHER = "other"
"""Stands for rules that came when there were too many."""


class Tally:
    """Counts of decisions by the name of the rule. ``shadow`` are requests that a shadow rule would
    have refused, ``lost`` those that met the rule while the state store could not be asked."""

    def __init__(self) -> None:
        self._counts: dict[Decision, dict[str, int]] = {one: {} for one in get_args(Decision)}
        self._allowed = self._counts["allowed"]

    def add(self, rule: str, decision: Decision) -> None:
        """Counts one decision."""
        counts = self._counts[decision]
        if rule not in counts and sum(map(len, self._counts.values())) >= 4 * MAX_RULES:
            rule = OTHER
        counts[rule] = counts.get(rule, 0) + 1

    def allow(self, claims: Sequence[tuple[LimitRule, object]]) -> None:
        """Counts that the rules of all ``claims`` allowed a request."""
        allowed = self._allowed
        for rule, _ in claims:
            if rule.name in allowed:
                allowed[rule.name] += 1
            else:
                self.add(rule.name, "allowed")

    def __iter__(self) -> Iterator[tuple[str, Decision, int]]:
        for decision, counts in self._counts.items():
            for rule, count in list(counts.items()):
                yield rule, decision, count
