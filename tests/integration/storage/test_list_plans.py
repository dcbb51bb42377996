"""How the databases look for a page: every kind, every filter and every order, by an index."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from sqlalchemy import Connection, event, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from relay_gateway.catalog.fields import ListField, list_fields
from relay_gateway.catalog.kinds import KINDS
from relay_gateway.storage import CatalogStore, Listing, NewEntity
from relay_gateway.storage.listing import Value

ORDERED = frozenset({"id", "slug", "displayName", "createdAt", "updatedAt"})
"""The orders that an index has ready."""
VALUES: Mapping[str, Value] = {
    "text": "x", "number": 1.0, "flag": True, "instant": "2026-01-01T00:00:00Z", "reference": "x",
}  # fmt: skip


class Explainer:
    """Notes the statements of lists, and says how the database goes about them."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._noted: list[tuple[str, Any]] = []
        event.listen(engine.sync_engine, "before_cursor_execute", self._note)

    def _note(self, _: Connection, __: object, statement: str, values: Any, *___: object) -> None:
        if "FROM entities" in statement and not statement.startswith("EXPLAIN"):
            self._noted.append((statement, values))

    async def plans(self) -> list[list[str]]:
        """The steps of each statement since the last time; those under the limit of a page begin
        with ``page:``."""
        noted, self._noted = self._noted, []
        async with self._engine.connect() as connection:
            if connection.dialect.name == "sqlite":
                return [await _sqlite_steps(connection, *entry) for entry in noted]
            # The few rows of a test would be read from end to end, which says nothing.
            await connection.execute(text("SET LOCAL enable_seqscan = off"))
            await connection.execute(text("SET LOCAL enable_sort = off"))
            return [await _postgresql_steps(connection, *entry) for entry in noted]


async def _sqlite_steps(connection: AsyncConnection, statement: str, values: Any) -> list[str]:
    rows = await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
    steps, pages = [], set[int]()
    for step, parent, _, detail in map(tuple, rows.all()):
        if parent in pages or detail.startswith(("CO-ROUTINE", "MATERIALIZE")):
            pages.add(step)
        steps.append(f"page: {detail}" if parent in pages else detail)
    return steps


async def _postgresql_steps(connection: AsyncConnection, statement: str, values: Any) -> list[str]:
    explained = await connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement}", values)
    found = explained.scalar_one()
    plan = json.loads(found) if isinstance(found, str) else found
    return list(_steps(plan[0]["Plan"], ""))


def _steps(plan: dict[str, Any], prefix: str) -> Iterator[str]:
    yield f"{prefix}{plan['Node Type']} {plan.get('Relation Name', '')}"
    prefix = "page: " if plan["Node Type"] == "Limit" else prefix
    for inner in plan.get("Plans", ()):
        yield from _steps(inner, prefix)


@pytest.fixture
async def explainer(store: CatalogStore, engine: AsyncEngine) -> Explainer:
    await store.write_all(
        [
            NewEntity(kind=kind, display_name=f"E{n}", spec={}, labels={"team": "a"})
            for kind in KINDS
            for n in range(20)
        ]
    )
    async with engine.begin() as connection:
        await connection.execute(text("ANALYZE"))
    return Explainer(engine)


def fields() -> Iterator[tuple[str, ListField]]:
    for kind in KINDS.values():
        for listed in list_fields(kind).values():
            yield kind.name, listed


def whole(steps: list[str]) -> list[str]:
    """The steps that read all entities, whatever their kind."""
    return [step for step in steps if "SCAN entities" in step or "Seq Scan entities" in step]


def sorts(steps: list[str]) -> list[str]:
    """The steps that sort before the page is cut off. An incremental one sorts only what is equal
    in the order of an index."""
    return [
        step
        for step in steps
        if step.startswith("page:") and ("TEMP B-TREE" in step or step.startswith("page: Sort"))
    ]


async def test_no_order_reads_other_kinds_and_those_with_an_index_are_not_sorted(
    store: CatalogStore, explainer: Explainer
) -> None:
    for kind, listed in fields():
        for descending in (False, True) if listed.sortable else ():
            listing = Listing(sort=listed, descending=descending)
            page = await store.page(kind, limit=5, listing=listing)
            if page.next_cursor:
                await store.page(kind, limit=5, listing=listing, cursor=page.next_cursor)
            for steps in await explainer.plans():
                assert whole(steps) == [], (kind, listed.name, steps)
                assert not sorts(steps) or listed.name not in ORDERED, (kind, listed.name, steps)


async def test_no_filter_reads_other_kinds(store: CatalogStore, explainer: Explainer) -> None:
    for kind, listed in fields():
        for value in (VALUES[listed.type], None):
            await store.page(kind, limit=5, listing=Listing(filters=[(listed, [value])]))
            for steps in await explainer.plans():
                assert whole(steps) == [], (kind, listed.name, steps)


async def test_neither_labels_nor_searches_read_other_kinds(
    store: CatalogStore, explainer: Explainer
) -> None:
    for kind in KINDS:
        for listing in (Listing(labels=[("team", "a")]), Listing(search="x")):
            await store.page(kind, limit=5, listing=listing)
            for steps in await explainer.plans():
                assert whole(steps) == [], (kind, steps)
