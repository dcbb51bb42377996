"""Totals over the API are the sums of the records, and repricing corrects both."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx
import pytest

from relay_gateway.plugin import LOG_DIMENSIONS
from relay_gateway.testing.scenario import Scenario

Record = dict[str, Any]
SEEN = 24
CHAT = [{"role": "user", "content": "Hello"}]
ASKED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("chat/completions", {"model": "priced", "messages": CHAT}),
    ("chat/completions", {"model": "priced", "messages": CHAT, "service_tier": "flex"}),
    ("chat/completions", {"model": "priced", "messages": CHAT, "stream": True}),
    ("chat/completions", {"model": "free-of-price", "messages": CHAT}),
    ("embeddings", {"model": "priced", "input": "Hello"}),
    ("chat/completions", {"model": "nowhere", "messages": CHAT}),
)
RATES = [
    {"meter": "tokens.input", "amount": "2"},
    {"meter": "tokens.output", "amount": "8"},
]
DOUBLED = [{**rate, "amount": str(2 * int(str(rate["amount"])))} for rate in RATES]
COSTS = {"default": 12 * 2000 + 4 * 8000, "flex": (12 * 2000 + 4 * 8000) // 2}


class World:
    """A model with a price and one without, and two teams with a relay key each."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.pricing = ""
        self.keys: list[str] = []

    async def prepare(self) -> None:
        make, url = self.scenario.create, f"{self.scenario.upstream.url}/v1"
        provider = await make("providers", "Acme")
        host = await make("hosts", "Acme", baseUrl=url, adapter="openai", noAuth=True)
        self.pricing = await make("pricings", "P", rates=RATES, multipliers={"flex": "0.5"})
        for name, pricing in (("priced", self.pricing), ("free-of-price", None)):
            bindings = [{"hostId": host, "pricingId": pricing}]
            await make("models", name, name=name, providerId=provider, bindings=bindings)
        policy = await make("policies", "All", models=["*"])
        for team in ("red", "blue"):
            self.keys.append(await self.scenario.relay_key(team, policy, tags={"team": team}))

    async def ask_everything(self) -> list[Record]:
        for number in range(SEEN):
            path, body = ASKED[number % len(ASKED)]
            headers = {"authorization": f"Bearer {self.keys[number % 4 // 2]}"}
            async with httpx.AsyncClient(headers=headers, trust_env=False) as client:
                await client.post(f"{self.scenario.gateway.inference_url}/v1/{path}", json=body)
        await self.scenario.logs(SEEN)
        return await self.exported()

    async def exported(self) -> list[Record]:
        answer = await self.scenario.admin.get("/usage/export?format=jsonl")
        return [json.loads(line) for line in answer.text.splitlines()]

    async def totals(self, path: str, **parameters: str) -> list[Any]:
        answer = await self.scenario.admin.get(f"/usage/{path}", params=parameters)
        assert answer.status_code == 200, answer.text
        items: list[Any] = answer.json()["items"]
        return items

    async def reprice(self, *options: str) -> dict[str, Any]:
        run = self.scenario.gateway.run
        code, out, err = await run("usage", "reprice", "--since", "1h", "--json", *options)
        assert code == 0, err
        found: dict[str, Any] = json.loads(out)
        return found


@pytest.fixture
async def world(scenario: Scenario) -> World:
    world = World(scenario)
    await world.prepare()
    return world


def value_of(dimension: str) -> Callable[[Record], str | None]:
    if dimension.startswith("tag:"):
        return lambda record: record["tags"].get(dimension.removeprefix("tag:"))
    field = LOG_DIMENSIONS[dimension]
    return lambda record: None if record[field] is None else str(record[field])


def assert_sums(row: Mapping[str, Any], records: Sequence[Record]) -> None:
    tokens: Counter[str] = Counter()
    cost: Counter[str] = Counter()
    for record in records:
        tokens.update(record["tokens"])
        if record["costNanos"] is not None:
            cost[record["currency"]] += record["costNanos"]
    assert row["requests"] == len(records)
    assert row["errors"] == sum(record["outcome"] != "ok" for record in records)
    assert row["unpriced"] == sum(record["unpriced"] for record in records)
    assert +Counter(row["tokens"]) == +tokens
    assert +Counter(row["costNanos"]) == +cost


async def assert_totals(world: World, records: Sequence[Record]) -> None:
    """For every dimension the rows are the groups of the records, at once and over time."""
    for dimension in (*LOG_DIMENSIONS, "tag:team"):
        groups: defaultdict[str | None, list[Record]] = defaultdict(list)
        for record in records:
            groups[value_of(dimension)(record)].append(record)
        rows = await world.totals("summary", groupBy=dimension)
        assert {row["group"][dimension] for row in rows} == set(groups), dimension
        for row in rows:
            assert_sums(row, groups[row["group"][dimension]])
        points = await world.totals("timeseries", groupBy=dimension, interval="day")
        requests: Counter[str | None] = Counter()
        for point in points:
            requests[point["row"]["group"][dimension]] += point["row"]["requests"]
        assert requests == {value: len(members) for value, members in groups.items()}


async def test_totals_are_the_sums_of_the_records_for_every_dimension(world: World) -> None:
    records = await world.ask_everything()
    assert len(records) == SEEN
    assert {record["outcome"] for record in records} == {"ok", "rejected"}
    assert any(record["unpriced"] for record in records)
    (row,) = await world.totals("summary")
    assert_sums(row, records)
    await assert_totals(world, records)
    red = [record for record in records if record["tags"].get("team") == "red"]
    (row,) = await world.totals("summary", tag="team:red")
    assert_sums(row, red)
    points = await world.totals("timeseries", tag="team:red", interval="minute")
    assert sum(point["row"]["requests"] for point in points) == len(red) > 0
    # A tier costs its multiple, and the record says by which version of the sheet.
    chats = [one for one in records if one["pricingId"] and one["endpoint"] == "chat.completions"]
    assert {one["costNanos"] for one in chats if one["tier"] == "flex"} == {COSTS["flex"]}
    assert {one["costNanos"] for one in chats if one["tier"] is None} == {COSTS["default"]}
    assert {(one["pricingId"], one["pricingVersion"]) for one in chats} == {(world.pricing, 1)}


async def test_repricing_says_what_changes_and_corrects_records_and_totals_once(
    world: World,
) -> None:
    before = await world.ask_everything()
    old = sum(one["costNanos"] or 0 for one in before)
    url = f"/pricings/by-id/{world.pricing}"
    spec = {"rates": DOUBLED, "multipliers": {"flex": "0.5"}}
    body = {"metadata": {"displayName": "P"}, "spec": spec}
    assert (await world.scenario.admin.put(url, json=body)).status_code == 200

    shown = (await world.reprice())["total"]
    priced = sum(one["costNanos"] is not None for one in before)
    assert (shown["records"], shown["changed"]) == (SEEN, priced)
    assert (shown["costBefore"], shown["costAfter"]) == ({"USD": old}, {"USD": 2 * old})
    assert await world.exported() == before

    # Of two at once each record is corrected by one.
    both = await asyncio.gather(world.reprice("--apply"), world.reprice("--apply"))
    assert sum(one["corrected"] for one in both) == priced
    after = await world.exported()
    assert sum(one["costNanos"] or 0 for one in after) == 2 * old
    assert {one["pricingVersion"] for one in after if one["costNanos"]} == {2}
    await assert_totals(world, after)
    code, out, _ = await world.scenario.gateway.run("usage", "reprice", "--since", "1h", "--apply")
    assert (code, out.splitlines()[-1]) == (0, "0 records corrected")
