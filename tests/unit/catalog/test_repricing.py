"""Stored requests at the prices of today: which sheet counts, and what is left as it was."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.catalog.repricing import PriceSheets
from relay_gateway.testing.records import usage_record

PROVIDER, HOST, OTHER_HOST, MODEL = "01", "02", "03", "04"
CHEAP, DEAR, OWN = "11", "12", "13"


def sheet(pricing_id: str, amount: str, version: int = 3, **spec: Any) -> EntityRow:
    rates = [{"meter": meter, "amount": amount} for meter in ("tokens.input", "tokens.output")]
    return EntityRow(
        id=uuid(pricing_id),
        kind="pricing",
        slug=f"sheet-{pricing_id}",
        display_name="Sheet",
        version=version,
        spec={"rates": rates, **spec},
    )


def model(*bindings: dict[str, Any]) -> EntityRow:
    spec = {"providerId": uuid(PROVIDER), "bindings": list(bindings)}
    return EntityRow(id=uuid(MODEL), kind="model", slug="m", display_name="M", spec=spec)


def bound(pricing_id: str | None, host: str = HOST, **more: Any) -> dict[str, Any]:
    return {
        "hostId": uuid(host),
        "pricingId": uuid(pricing_id) if pricing_id is not None else None,
        **more,
    }


def uuid(last: str) -> str:
    return f"01890a5d-ac96-774b-bcce-b302099a80{last}"


def record(**fields: Any) -> Any:
    found = {
        "model_id": uuid(MODEL),
        "host_id": uuid(HOST),
        "tokens": {"input": 10, "output": 5},
        "pricing_id": uuid(OWN),
        "pricing_version": 1,
        "cost_nanos": 15_000,
        **fields,
    }
    return usage_record(**found)


def test_the_sheet_of_the_binding_prices_the_record_and_its_version_is_noted() -> None:
    before = record()
    sheets = PriceSheets([model(bound(DEAR)), sheet(DEAR, "2"), sheet(OWN, "1")])
    assert sheets.repriced(before) == msgspec.structs.replace(
        before, cost_nanos=30_000, pricing_id=uuid(DEAR), pricing_version=3
    )


@pytest.mark.parametrize(
    "rows",
    [
        [sheet(OWN, "2")],
        [model(), sheet(OWN, "2")],
        [model(bound(DEAR, OTHER_HOST)), sheet(DEAR, "9"), sheet(OWN, "2")],
        [model(bound(None)), sheet(OWN, "2")],
        [model(bound(DEAR)), sheet(DEAR, "9", enabled=False), sheet(OWN, "2")],
    ],
)
def test_without_a_sheet_at_the_host_the_one_of_the_record_counts(rows: list[EntityRow]) -> None:
    after = PriceSheets(rows).repriced(record())
    assert after is not None
    assert (after.cost_nanos, after.pricing_id) == (30_000, uuid(OWN))


@pytest.mark.parametrize("rows", [[], [sheet(OWN, "2", enabled=False)], [sheet(OWN, "x")]])
def test_a_record_without_any_sheet_keeps_its_price(rows: list[EntityRow]) -> None:
    assert PriceSheets(rows).repriced(record()) is None


def test_a_request_that_no_host_was_asked_for_stays_free() -> None:
    rates = [{"meter": "requests", "unit": "perUnit", "amount": "1"}]
    sheets = PriceSheets([model(bound(DEAR)), sheet(DEAR, "1", rates=rates)])
    refused = record(host_id=None, pricing_id=None, cost_nanos=None, currency=None, tokens={})
    assert sheets.repriced(refused) is None


def test_a_price_that_is_the_same_changes_nothing_not_even_the_version() -> None:
    before = record()
    assert PriceSheets([sheet(OWN, "1", version=9)]).repriced(before) is before


def test_an_unpriced_request_gets_a_price_once_there_is_a_sheet() -> None:
    before = record(pricing_id=None, cost_nanos=None, currency=None, unpriced=True)
    after = PriceSheets([model(bound(CHEAP)), sheet(CHEAP, "1", currency="EUR")]).repriced(before)
    assert after is not None
    assert (after.cost_nanos, after.currency, after.unpriced) == (15_000, "EUR", False)


def test_of_several_bindings_at_one_host_the_one_that_answered_is_meant() -> None:
    sheets = PriceSheets(
        [
            model(bound(CHEAP, upstreamName="small"), bound(DEAR, upstreamName="large")),
            sheet(CHEAP, "1"),
            sheet(DEAR, "2"),
        ]
    )
    by_name = sheets.sheet_of(record(upstream_model="large", pricing_id=None))
    by_sheet = sheets.sheet_of(record(upstream_model="small", pricing_id=uuid(DEAR)))
    first = sheets.sheet_of(record(upstream_model="unheard-of", pricing_id=None))
    found = [one.slug for one in (by_name, by_sheet, first) if one is not None]
    assert found == ["sheet-12", "sheet-12", "sheet-11"]


def test_the_tier_of_the_record_counts() -> None:
    sheets = PriceSheets([sheet(OWN, "2", multipliers={"flex": "0.25"})])
    after = sheets.repriced(record(tier="flex"))
    assert after is not None
    assert after.cost_nanos == 7_500
