"""Ten thousand entities: any page of a list within 50 ms."""

from __future__ import annotations

from time import perf_counter, process_time

from sqlalchemy import insert, text
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.catalog.fields import list_fields
from relay_gateway.catalog.kinds import KINDS
from relay_gateway.ids import new_id
from relay_gateway.storage import CatalogStore, Listing, NewEntity
from relay_gateway.storage.listing import Value
from relay_gateway.storage.tables import entities, entity_references

COUNT = 10_000
BOUND_SECONDS = 0.05
ATTEMPTS = 20
FIELDS = list_fields(KINDS["relay key"])


async def fill(store: CatalogStore, engine: AsyncEngine) -> None:
    """Ten thousand relay keys, past the store: writing them is not what is measured here."""
    policies = [NewEntity(kind="policy", display_name=f"p{n}", spec={}) for n in range(10)]
    await store.write_all(policies)
    rows = []
    for number in range(COUNT):
        spec = {
            "enabled": number % 3 != 0,
            "policyId": policies[number % 10].id,
            "prefix": f"sk-relay-{number:07d}",
            "expiresAt": f"2030-01-01T00:{number % 60:02d}:00Z",
            "rateLimitIds": [],
            "tags": {"team": f"t{number % 50}"},
            "payloadLogging": False,
            "allowedCidrs": ["10.0.0.0/8"],
        }
        moment = f"2026-01-01T00:00:{number % 60:02d}.{number:06d}Z"
        rows.append(
            {
                "id": new_id(), "kind": "relay key", "slug": f"key-{number}",
                "display_name": f"Key {number % 1000}", "description": "of a team",
                "labels": {"team": f"t{number % 50}"}, "managed_by": "api", "spec": spec,
                "sealed": {"digest": "0" * 64, "previous": []}, "version": 1,
                "created_at": moment, "updated_at": moment,
                "search_text": f"key {number % 1000}\nkey-{number}\nof a team",
            }
        )  # fmt: skip
    references = [
        {"source_id": row["id"], "field": "policyId", "target_id": policies[number % 10].id}
        for number, row in enumerate(rows)
    ]
    async with engine.begin() as connection:
        await connection.execute(insert(entities), rows)
        await connection.execute(insert(entity_references), references)
        await connection.execute(text("ANALYZE"))


def filtered(name: str, *values: Value) -> Listing:
    return Listing(filters=[(FIELDS[name], values)])


LISTINGS = {
    "creation": Listing(),
    **{f"by {name}": Listing(sort=field) for name, field in FIELDS.items() if field.sortable},
    "newest": Listing(sort=FIELDS["updatedAt"], descending=True),
    "flag": filtered("enabled", True),
    "text": filtered("prefix", "sk-relay-0000007"),
    "absent": filtered("revokedAt", None),
    "reference": filtered("policyId", "p3"),
    "search": Listing(search="EY 99"),
    "search in vain": Listing(search="100%"),
    "label": Listing(labels=[("team", "t7")]),
}


async def test_any_page_of_ten_thousand_entities_takes_at_most_50_ms(
    store: CatalogStore, engine: AsyncEngine
) -> None:
    await fill(store, engine)
    slow = {}
    for title, listing in LISTINGS.items():
        first = await store.page("relay key", limit=100, listing=listing)
        taken, worked = [1.0], [1.0]
        for _ in range(ATTEMPTS):
            if max(min(taken), min(worked)) <= BOUND_SECONDS:
                break
            started = perf_counter()
            await store.page("relay key", limit=100, listing=listing, cursor=first.next_cursor)
            taken.append(perf_counter() - started)
            started = process_time()
            await store.page("relay key", limit=1000, listing=listing)
            worked.append(process_time() - started)
        # The best is what the query costs; the others are what else this machine did. Of a page of
        # a thousand our own work counts: a busy machine interrupts it too often.
        if max(min(taken), min(worked)) > BOUND_SECONDS:
            slow[title] = (min(taken), min(worked))
    assert slow == {}
