"""``GET /usage/budgets``: what was spent against each budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated

import msgspec
from fastapi import FastAPI, Query
from starlette.responses import Response

from relay_gateway.catalog.budgets import end_of, period_of
from relay_gateway.catalog.snapshot import Policy, Snapshot
from relay_gateway.catalog.specs import Budget
from relay_gateway.control.openapi import Documentation, Operation
from relay_gateway.control.services import ControlServices
from relay_gateway.control.usage_answers import answer_with
from relay_gateway.control.usage_parameters import Filter, read_text

MAX_LIMIT = 1000
NEAR = 80
"""Percent from which on a budget is ``near``."""


class BudgetView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A budget of a policy, and what one of those it is for has spent in the period that goes on.

    ``scopeValue`` is the id of a relay key, policy or model, or the value of a tag; ``null`` where
    nobody has spent anything yet. ``state`` is ``ok``, ``near`` (80 %) or ``exceeded``.
    ``periodEnd`` is ``null`` for a budget that never begins anew.
    """

    policy_id: str
    policy: str
    scope: str
    scope_value: str | None
    window: str
    action: str
    currency: str
    amount_nanos: int
    spent_nanos: int
    state: str
    period: str
    period_end: str | None


class BudgetList(msgspec.Struct, frozen=True, kw_only=True):
    """Budgets, those of which most is used up first."""

    items: tuple[BudgetView, ...]


STRUCTS = (BudgetList,)


class BudgetRoutes:
    """The route that shows how budgets stand."""

    def __init__(self, services: ControlServices, docs: Documentation) -> None:
        self._services = services
        self._docs = docs

    def add_to(self, app: FastAPI) -> None:
        """Adds the route to ``app``."""
        operation = Operation(
            "listBudgets",
            "What was spent against each budget",
            description="Of all instances together, about a second ago. Those of which most is "
            "used up come first.",
        )
        app.add_api_route(
            "/usage/budgets",
            self._list,
            methods=["GET"],
            tags=["logs"],
            **self._docs.describe(operation, answer="BudgetList"),
        )

    async def _list(
        self,
        limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = 100,
        policy_id: Annotated[Filter, Query(alias="policyId")] = None,
    ) -> Response:
        if policy_id is not None:
            read_text("policyId", policy_id)
        snapshot = self._services.live.current
        now = datetime.fromtimestamp(self._services.clock.time(), UTC)
        found: list[BudgetView] = []
        for policy in snapshot.policies.values():
            if policy_id is None or policy.id == policy_id:
                for budget in policy.budgets:
                    found += await self._views(snapshot, policy, budget, now)
        found.sort(key=lambda view: -_share(view))
        return answer_with(BudgetList(items=tuple(found[:limit])))

    async def _views(
        self, snapshot: Snapshot, policy: Policy, budget: Budget, now: datetime
    ) -> list[BudgetView]:
        period = period_of(budget.window, now)
        spent = await self._services.spending.spent(period, budget.scope, budget.currency)
        own = dict(_of_policy(snapshot, policy, budget, spent)) or {None: 0}
        end = end_of(budget.window, now)
        return [
            BudgetView(
                policy_id=policy.id,
                policy=policy.slug,
                scope=budget.scope,
                scope_value=value,
                window=budget.window,
                action=budget.action,
                currency=budget.currency,
                amount_nanos=budget.amount_nanos,
                spent_nanos=nanos,
                state=_state(nanos, budget.amount_nanos),
                period=period,
                period_end=None if end is None else end.strftime("%Y-%m-%dT%H:%M:%SZ"),
            )
            for value, nanos in own.items()
        ]


def _of_policy(
    snapshot: Snapshot, policy: Policy, budget: Budget, spent: Mapping[str, int]
) -> Iterator[tuple[str | None, int]]:
    """Of what was spent, that of those whom the budget of this policy is for."""
    if budget.scope == "policy":
        yield policy.id, spent.get(policy.id, 0)
    elif budget.scope == "relay-key":
        keys = {
            presented.key.id
            for presented in snapshot.relay_keys.values()
            if presented.key.policy_id == policy.id
        }
        yield from ((value, nanos) for value, nanos in spent.items() if value in keys)
    elif budget.scope == "global":
        yield None, spent.get("", 0)
    else:
        yield from spent.items()


def _share(view: BudgetView) -> float:
    return view.spent_nanos / view.amount_nanos if view.amount_nanos else 1.0


def _state(spent: int, amount: int) -> str:
    if spent >= amount:
        return "exceeded"
    return "near" if spent * 100 >= amount * NEAR else "ok"
