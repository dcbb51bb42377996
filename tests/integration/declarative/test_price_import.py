"""Imports of price lists: into a catalog that has some of it, repeatable, never over people's
work."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from relay_gateway.declarative.plan import Plan
from relay_gateway.declarative.price_import import ImportRequest
from relay_gateway.declarative.price_lists import ListedModel, ListedRate, read_price_list
from relay_gateway.errors import EntityNotFoundError

if TYPE_CHECKING:
    from .conftest import World

LISTS = Path(__file__).parents[2] / "unit" / "declarative"
HOST = """
kind: host
metadata: {slug: acme, managedBy: api}
spec: {baseUrl: "http://127.0.0.1:9", adapter: fast}
"""
SHIPPED = (
    HOST
    + """
---
kind: provider
metadata: {slug: acme, managedBy: catalog}
---
kind: pricing
metadata: {slug: shipped, managedBy: catalog}
spec:
  rates:
  - {meter: tokens.input, amount: 99}
  - {meter: tokens.input, amount: 199, aboveTokens: 5}
  - {meter: searches, unit: perUnit, amount: 0.01}
---
kind: model
metadata: {slug: large, displayName: Large, managedBy: catalog}
spec:
  name: acme-large
  providerId: acme
  capabilities: [structured-output]
  contextWindow: 5
  bindings: [{hostId: acme, pricingId: shipped, weight: 3}]
"""
)


def read(name: str) -> list[ListedModel]:
    return read_price_list((LISTS / f"{name}.json").read_bytes())


async def take(world: World, listed: list[ListedModel], **request: Any) -> Plan:
    async def make() -> Plan:
        return await world.catalog.plan_import(listed, ImportRequest(**request))

    return await world.catalog.carry_out(await make(), make)


def planned(plan: Plan) -> list[tuple[str, str, str]]:
    return [(step.action, step.kind, step.slug) for step in plan.steps]


def one(price: str) -> list[ListedModel]:
    rate = ListedRate("tokens.input", "perMillion", Decimal(price))
    return [ListedModel("acme", "acme-large", "Acme", "Large", (rate,))]


@pytest.mark.parametrize("name", ["per_token", "per_million"])
async def test_an_import_is_one_write_and_a_second_one_none(world: World, name: str) -> None:
    await world.apply(HOST)
    before = await world.store.revision()
    plan = await take(world, read(name))
    assert plan.count("create") == len(plan.steps) > 0
    assert await world.store.revision() == before + 1
    again = await take(world, read(name))
    assert (again.steps, again.notes) == ((), plan.notes)
    assert await world.store.revision() == before + 1
    rows = (await world.store.load()).rows
    assert {row.managed_by for row in rows if row.slug != "acme"} == {"catalog"}


async def test_new_models_are_bound_to_the_namesake_of_their_provider_and_priced(
    local: World,
) -> None:
    await local.apply(HOST)
    await take(local, read("per_million"), models=["acme-large"])
    host = await local.store.get("host", "acme")
    model = await local.store.get("model", "acme-large")
    (binding,) = model.spec["bindings"]
    pricing = await local.store.get("pricing", binding["pricingId"])
    assert binding["hostId"] == host.id
    assert model.spec["contextWindow"] == 1_000_000
    assert model.spec["modalities"]["input"] == ["text", "image", "pdf"]
    assert pricing.spec["currency"] == "USD"
    long = [rate for rate in pricing.spec["rates"] if rate["aboveTokens"] == 200_000]
    assert {rate["meter"]: rate["amount"] for rate in long} == {
        "tokens.input": "6",
        "tokens.output": "22.5",
        "tokens.cacheRead": "0.6",
        "tokens.cacheWrite": "7.5",
    }


async def test_multipliers_are_taken_and_what_is_none_is_said(local: World) -> None:
    await local.apply(HOST)
    plan = await take(local, read("per_token"))
    (note,) = plan.notes
    assert note.startswith("other/acme-large: its prices for priority are no one multiple of ")
    sheets = [await local.store.get("pricing", f"{name}-acme-large") for name in ("acme", "other")]
    assert [sheet.spec["multipliers"] for sheet in sheets] == [
        {"batch": "0.5", "flex": "0.5", "priority": "1.75"},
        {"flex": "1"},
    ]


async def test_models_without_a_host_are_bound_once_there_is_one(local: World) -> None:
    await take(local, one("1"))
    assert (await local.store.get("model", "acme-large")).spec["bindings"] == []
    await local.apply(HOST)
    plan = await take(local, one("1"))
    assert planned(plan) == [("update", "model", "acme-large")]


async def test_what_was_shipped_is_brought_up_to_date_and_keeps_the_rest(local: World) -> None:
    await local.apply(SHIPPED)
    plan = await take(local, read("per_token"), existing=True)
    assert planned(plan) == [("update", "pricing", "shipped"), ("update", "model", "large")]
    model = await local.store.get("model", "large")
    assert model.spec["contextWindow"] == 1_000_000
    assert model.spec["capabilities"] == ["structured-output"]
    assert model.spec["bindings"][0]["weight"] == 3
    rates = (await local.store.get("pricing", "shipped")).spec["rates"]
    inputs = [(r["amount"], r["aboveTokens"]) for r in rates if r["meter"] == "tokens.input"]
    assert inputs == [("3", 0), ("6", 200_000)]
    assert rates[-1]["meter"] == "searches"


async def test_a_sheet_that_other_models_have_too_is_left_to_them(local: World) -> None:
    other = (
        "---\nkind: model\nmetadata: {slug: other, managedBy: api}\n"
        "spec: {providerId: acme, bindings: [{hostId: acme, pricingId: shipped}]}\n"
    )
    await local.apply(SHIPPED + other)
    plan = await take(local, one("1"))
    assert planned(plan) == [("create", "pricing", "acme-acme-large"), ("update", "model", "large")]


@pytest.mark.parametrize("manager", ["api", "file"])
async def test_what_people_wrote_is_left_alone_unless_forced(local: World, manager: str) -> None:
    await local.apply(SHIPPED.replace("managedBy: catalog", f"managedBy: {manager}"))
    plan = await take(local, one("1"))
    assert plan.steps == ()
    assert plan.notes == (
        f"model large was written by the {manager} and is left as it is; --force changes it",
    )
    forced = await take(local, one("1"), force=True)
    assert planned(forced) == [("update", "pricing", "shipped")]
    assert (await local.store.get("pricing", "shipped")).managed_by == manager


async def test_a_sheet_that_somebody_wrote_stays_with_a_shipped_model(local: World) -> None:
    shipped = SHIPPED.replace("slug: shipped, managedBy: catalog", "slug: shipped, managedBy: api")
    await local.apply(shipped)
    plan = await take(local, one("1"))
    assert plan.steps == ()
    assert "pricing shipped was written by the api" in plan.notes[0]


async def test_prices_in_another_currency_are_not_mixed(local: World) -> None:
    await local.apply(SHIPPED.replace("spec:\n  rates:", "spec:\n  currency: EUR\n  rates:", 1))
    plan = await take(local, one("1"))
    assert (plan.steps, plan.notes) == ((), ("pricing shipped is not in USD and is left as it is",))


async def test_patterns_select_by_provider_and_model(local: World) -> None:
    await take(local, read("per_token"), providers=["o*"], models=["whis*"])
    rows = (await local.store.load()).rows
    assert sorted((row.kind, row.slug) for row in rows) == [
        ("model", "whisper"),
        ("pricing", "other-whisper"),
        ("provider", "other"),
    ]


async def test_one_name_at_two_providers_makes_two_models(local: World) -> None:
    await take(local, read("per_token"), models=["acme-large"])
    rows = [row for row in (await local.store.load()).rows if row.kind == "model"]
    assert [row.spec["name"] for row in rows] == ["acme-large", "other/acme-large"]


async def test_a_host_that_is_named_must_be_there(local: World) -> None:
    with pytest.raises(EntityNotFoundError, match="'nowhere'"):
        await take(local, one("1"), host="nowhere")
    await local.apply(HOST.replace("slug: acme", "slug: west"))
    await take(local, one("1"), host="west")
    assert len((await local.store.get("model", "acme-large")).spec["bindings"]) == 1


async def test_entries_that_no_catalog_could_have_are_noted_and_left_out(local: World) -> None:
    rate = ListedRate("tokens.input", "perMillion", Decimal(1))
    plan = await take(local, [ListedModel("acme", "a b", "Acme", "x", (rate,)), *one("1")])
    assert ("create", "model", "acme-large") in planned(plan)
    assert "spec.name" in plan.notes[0] or "name" in plan.notes[0]
