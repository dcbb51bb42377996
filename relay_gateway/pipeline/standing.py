"""How limits and budgets stand: what is left, and what a request is told that finds no room."""

from __future__ import annotations

from math import ceil
from typing import Literal, NamedTuple

from relay_gateway.catalog.limit_rules import LimitRule
from relay_gateway.errors import RequestRefusedError
from relay_gateway.limits.limiter import Reservation


class Standing(NamedTuple):
    """A budget or a rule in words, whether there is any room, and what a request is told if there
    must be."""

    step: Literal["budgets", "limits"]
    message: str
    ok: bool
    refusal: RequestRefusedError | None = None


class RuleRoom(NamedTuple):
    """A rule and how much of it is ``left``, all of it again after ``reset`` seconds; both are
    ``None`` where the state store cannot be asked. Any that is left counts as room."""

    rule: LimitRule
    left: int | None
    reset: float | None

    @property
    def refuses(self) -> bool:
        """Whether a request that comes now is refused."""
        return self.left == 0 and not self.rule.shadow

    def message(self) -> str:
        """The same in words."""
        rule = self.rule
        if self.left is None:
            return f"{rule.name}: the state store cannot be asked, {rule.on_state_loss}"
        text = f"{rule.name}: {self.left} of {rule.amount} are left"
        if self.left < rule.amount:
            text += f", all of it in {ceil(self.reset or 0)} s"
        return f"{text}; it only reports" if rule.shadow else text

    def refusal(self) -> RequestRefusedError | None:
        """What a request is told that comes now, where it is refused."""
        return no_room(self.rule, self.reset or 0.0) if self.refuses else None

    def standing(self) -> Standing:
        """The same as a step of an explanation."""
        return Standing("limits", self.message(), self.left != 0, self.refusal())


def refusal_of(reservation: Reservation) -> RequestRefusedError:
    """What a request is told whose reservation was refused."""
    rule, wait = reservation.claims[reservation.refused].rule, reservation.retry_after
    if not reservation.lost:
        return no_room(rule, wait)
    return RequestRefusedError(
        503,
        "limits_unavailable",
        f"the state of the rate limit {rule.name} is unknown at the moment; it admits nothing "
        "without",
        retry_after=wait,
    )


def no_room(rule: LimitRule, wait: float) -> RequestRefusedError:
    """What a request is told that a rule has no room for; there is some after ``wait`` seconds."""
    return RequestRefusedError(
        429,
        "rate_limit_exceeded",
        f"the rate limit {rule.name} has no room for this request; try again in "
        f"{ceil(wait) or 1} s",
        retry_after=wait,
    )
