"""What rules find in one text, and what becomes of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from relay_gateway_guard_patterns.config import Place, Rule
from relay_gateway_guard_patterns.patterns import Pattern, compiled, readable


class DeniedError(Exception):
    """A rule denies what it has found; ``rule`` is its name."""

    def __init__(self, rule: str) -> None:
        super().__init__(rule)
        self.rule = rule


class Found(msgspec.Struct, frozen=True):
    """One match: from where to where, and what is put in its place; ``denied_by`` is the name of
    the rule if it denies."""

    start: int
    end: int
    mask: str
    denied_by: str | None = None


class Screen:
    """The rules for one place in one direction."""

    __slots__ = ("_rules",)

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules: list[tuple[Rule, Pattern]] = [(rule, compiled(rule.pattern)) for rule in rules]

    def __bool__(self) -> bool:
        return bool(self._rules)

    def find(self, text: str, start: int = 0) -> Sequence[Found]:
        """Matches from ``start`` on, from left to right. Of those that overlap the first is taken,
        and the longest of them, but for those that deny: they come all."""
        text = readable(text)
        found = sorted(self._all(text, start), key=lambda one: (one.start, -one.end))
        return list(_apart(found)) if len(found) > 1 else found

    def applied(self, text: str) -> str:
        """``text`` with masks. Raises :class:`DeniedError`."""
        found = self.find(text)
        return masked(text, found) if found else text

    def _all(self, text: str, start: int) -> Iterator[Found]:
        for rule, pattern in self._rules:
            denied_by = rule.name if rule.action == "deny" else None
            for first, end in pattern.spans(text, start):
                if end > first:
                    yield Found(first, end, rule.mask, denied_by)


def masked(text: str, found: Sequence[Found], start: int = 0, end: int | None = None) -> str:
    """``text`` between ``start`` and ``end``, with what was ``found`` there masked. Raises
    :class:`DeniedError`."""
    pieces, place = [], start
    for one in found:
        if one.denied_by is not None:
            raise DeniedError(one.denied_by)
        pieces += [text[place : one.start], one.mask]
        place = one.end
    return "".join((*pieces, text[place:end]))


def _apart(found: Iterable[Found]) -> Iterator[Found]:
    end = 0
    for one in found:
        if one.denied_by is not None:
            yield one
        elif one.start >= end:
            yield one
            end = one.end


class Screens:
    """The rules of one direction, by place."""

    def __init__(self, rules: Iterable[Rule], direction: str) -> None:
        active = [rule for rule in rules if rule.direction in (direction, "both")]
        self._by_place: dict[Place, Screen] = {
            place: screen
            for place in _PLACES
            if (screen := Screen(rule for rule in active if place in rule.places))
        }

    def __bool__(self) -> bool:
        return bool(self._by_place)

    def at(self, place: Place) -> Screen | None:
        """The rules that look there; ``None`` if none does."""
        return self._by_place.get(place)


_PLACES: tuple[Place, ...] = ("system", "messages", "tool_arguments", "tool_results")
