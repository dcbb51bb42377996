"""Exports: what they hold, and that they lead back to the same catalog."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings

from relay_gateway.declarative.yaml_text import write_documents

from .catalogs import Document, catalogs
from .conftest import World, world_at

if TYPE_CHECKING:
    from relay_gateway.testing.postgres import PostgresServer

ROUNDS = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
FEW = settings(ROUNDS, max_examples=2)
STORED = "kind: box"


async def round_trip(first_url: str, second_url: str, documents: list[Document]) -> None:
    first, second = await world_at(first_url), await world_at(second_url)
    try:
        text = write_documents(documents)
        made = await first.apply(text)
        assert made.count("create") == len(documents)
        assert (await first.plan(text)).steps == ()
        exported = await first.export()
        assert "sk-" not in exported
        again = await first.plan(exported)
        assert (again.steps, again.unchanged) == ((), len(documents))
        # Secrets are the only thing that an export leaves behind.
        filled = exported.replace(STORED, f"{STORED}\n    value: sk-other")
        await second.apply(filled)
        assert await second.export() == exported
    finally:
        await first.engine.dispose()
        await second.engine.dispose()


@ROUNDS
@given(catalogs())
def test_an_export_changes_nothing_here_and_makes_the_same_elsewhere(
    documents: list[Document],
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        urls = [f"sqlite:///{Path(directory)}/{name}.sqlite3" for name in ("first", "second")]
        asyncio.run(round_trip(urls[0], urls[1], documents))


@FEW
@given(documents=catalogs())
def test_postgresql_exports_what_sqlite_takes_and_the_reverse(
    documents: list[Document], postgres_server: PostgresServer
) -> None:
    url = postgres_server.create_database()
    with tempfile.TemporaryDirectory() as directory:
        local = f"sqlite:///{Path(directory)}/catalog.sqlite3"
        try:
            asyncio.run(round_trip(url, local, documents))
        finally:
            postgres_server.drop_database(url)


async def test_an_export_is_brief_in_order_and_without_server_state(local: World) -> None:
    await local.apply(
        "kind: relay-key\nmetadata: {slug: app}\nspec: {policyId: all}\n"
        "---\nkind: policy\nmetadata: {slug: all, labels: {b: '1', a: 'yes'}}\n"
        "spec: {models: ['*'], enabled: true}\n"
    )
    assert await local.export() == (
        "---\nkind: policy\nmetadata:\n  slug: all\n  displayName: all\n"
        "  labels:\n    a: 'yes'\n    b: '1'\nspec:\n  models:\n  - '*'\n"
        "---\nkind: relay-key\nmetadata:\n  slug: app\n  displayName: app\n"
        "spec:\n  policyId: all\n"
    )


async def test_an_export_can_be_a_part_and_handed_over_to_files(local: World) -> None:
    text = (
        "kind: provider\nmetadata: {slug: a, managedBy: api, labels: {team: x}}\n"
        "---\nkind: provider\nmetadata: {slug: b, managedBy: catalog}\n"
        "---\nkind: pricing\nmetadata: {slug: a, labels: {team: x}}\n"
        "spec: {rates: [{meter: images, amount: 1}]}\n"
    )
    await local.apply(text)
    part = await local.export(kinds={"provider"}, selector={"team": "x"})
    assert part == (
        "---\nkind: provider\nmetadata:\n  slug: a\n  displayName: a\n"
        "  labels:\n    team: x\n  managedBy: api\nspec: {}\n"
    )
    plan = await local.apply(await local.export(kinds={"provider"}, adopt=True))
    changes = [(step.slug, change) for step in plan.steps for change in step.changes]
    assert [(slug, c.field, c.before, c.after) for slug, c in changes] == [
        ("a", "metadata.managedBy", "api", "file"),
        ("b", "metadata.managedBy", "catalog", "file"),
    ]


async def test_digests_keep_relay_keys_valid_elsewhere(local: World) -> None:
    await local.apply(
        "kind: policy\nmetadata: {slug: all}\n"
        "---\nkind: relay-key\nmetadata: {slug: app}\nspec: {policyId: all}\n"
    )
    before = await local.store.get("relay key", "app")
    exported = await local.export(digests=True)
    assert before.sealed["digest"] in exported
    await local.store.delete("relay key", before.id)
    plan = await local.apply(exported)
    after = await local.store.get("relay key", "app")
    assert (after.sealed, after.spec["prefix"]) == (before.sealed, before.spec["prefix"])
    assert plan.minted == {}
