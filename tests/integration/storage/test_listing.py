from __future__ import annotations

from typing import Any

import pytest

from relay_gateway.catalog.fields import ListField, list_fields
from relay_gateway.catalog.kinds import KINDS
from relay_gateway.ids import new_id
from relay_gateway.storage import (
    CatalogStore,
    EntityChange,
    InvalidCursorError,
    Listing,
    NewEntity,
)
from relay_gateway.storage.listing import Value


def field(kind: str, name: str) -> ListField:
    return list_fields(KINDS[kind])[name]


def provider(name: str, **fields: Any) -> NewEntity:
    return NewEntity(kind="provider", display_name=name, **{"spec": {}, **fields})


def host(name: str, **spec: Any) -> NewEntity:
    return NewEntity(kind="host", display_name=name, spec=spec)


async def names(store: CatalogStore, kind: str, listing: Listing, limit: int = 2) -> list[str]:
    """The display names on all pages; every page must count the same total."""
    seen: list[str] = []
    cursor = None
    for _ in range(100):
        page = await store.page(kind, limit=limit, cursor=cursor, listing=listing)
        seen += [row.display_name for row in page.items]
        assert len(page.items) <= limit
        if page.next_cursor is None:
            assert page.total == len(seen)
            return seen
        cursor = page.next_cursor
    raise AssertionError("the list does not end")


async def filtered(store: CatalogStore, kind: str, name: str, *values: Value) -> list[str]:
    return await names(store, kind, Listing(filters=[(field(kind, name), values)]))


async def add_hosts(store: CatalogStore) -> None:
    await store.write_all(
        [
            host("a", adapter="x", noAuth=True, maxConnections=9, timeouts={"connect": 2.5}),
            host("b", adapter="y", maxConnections=10, pathPrefix="p", enabled=False),
            host("c", adapter="x", pathPrefix=None, timeouts={}),
        ]
    )


FILTERED: tuple[tuple[str, list[Value], str], ...] = (
    ("adapter", ["x"], "ac"),
    ("adapter", ["x", "y"], "abc"),
    ("adapter", ["X"], ""),
    ("enabled", [True], "ac"),
    ("enabled", [False], "b"),
    ("noAuth", [False], "bc"),
    ("noAuth", [True], "a"),
    ("maxConnections", [9.0], "a"),
    ("maxConnections", [512.0], "c"),
    ("timeouts.connect", [2.5], "a"),
    ("timeouts.connect", [5.0], "bc"),
    ("pathPrefix", [None], "ac"),
    ("pathPrefix", ["p", None], "abc"),
    ("displayName", ["b"], "b"),
    ("slug", ["c"], "c"),
    ("version", [1.0], "abc"),
    ("version", [2.0], ""),
    ("managedBy", ["file"], ""),
)


async def test_filters_know_the_defaults_of_fields_that_were_left_out(store: CatalogStore) -> None:
    await add_hosts(store)
    for name, values, found in FILTERED:
        assert await filtered(store, "host", name, *values) == list(found), (name, values)


async def test_filters_on_different_fields_must_all_hold(store: CatalogStore) -> None:
    await add_hosts(store)
    filters: list[tuple[ListField, list[Value]]] = [
        (field("host", "adapter"), ["x"]),
        (field("host", "noAuth"), [False]),
    ]
    assert await names(store, "host", Listing(filters=filters)) == ["c"]


async def add_models(store: CatalogStore) -> list[str]:
    vendor, first, second = provider("Vendor"), host("First"), host("Second")
    models: list[tuple[str, dict[str, Any]]] = [
        ("One", {"name": "big", "bindings": [{"hostId": first.id}, {"hostId": second.id}]}),
        ("Two", {"aliases": ["Two.1", "mini-*"], "bindings": [{"hostId": second.id}]}),
        ("Three", {"contextWindow": 5}),
    ]
    rows = [
        NewEntity(kind="model", display_name=title, spec={"providerId": vendor.id, **spec})
        for title, spec in models
    ]
    await store.write_all([vendor, first, second, *rows])
    return [first.id, second.id]


async def test_references_are_found_by_id_and_by_slug_anywhere_in_a_list(
    store: CatalogStore,
) -> None:
    first, second = await add_models(store)
    for ref in (second, second.upper(), "second"):
        assert await filtered(store, "model", "hostId", ref) == ["One", "Two"]
    assert await filtered(store, "model", "hostId", first) == ["One"]
    assert await filtered(store, "model", "hostId", None) == ["Three"]
    assert await filtered(store, "model", "hostId", "vendor", new_id()) == []
    assert await filtered(store, "model", "providerId", "vendor") == ["One", "Two", "Three"]
    assert await filtered(store, "model", "pricingId", None) == ["One", "Two", "Three"]


async def test_the_name_of_a_model_is_its_slug_unless_it_has_one(store: CatalogStore) -> None:
    await add_models(store)
    assert await filtered(store, "model", "name", "big") == ["One"]
    assert await filtered(store, "model", "name", "two") == ["Two"]
    assert await filtered(store, "model", "name", "one") == []
    order = Listing(sort=field("model", "name"))
    assert await names(store, "model", order, 1) == ["One", "Three", "Two"]


async def test_t36_a_search_takes_every_character_as_itself(store: CatalogStore) -> None:
    await add_models(store)
    searches = {"BIG": ["One"], "two.1": ["Two"], "mini-": ["Two"], "t": ["Two", "Three"]}
    searches |= {character: [] for character in "%_\\'"}
    for search, found in searches.items():
        assert await names(store, "model", Listing(search=search)) == found, search


async def test_t36_signs_of_patterns_can_be_searched_for(store: CatalogStore) -> None:
    texts = ["100 %", "a_b", "c\\d", "Ünïted 模型", "x"]
    await store.write_all([provider("x", description=text) for text in texts])
    for text in texts:
        page = await store.page("provider", limit=9, listing=Listing(search=text.upper()))
        expected = texts if text == "x" else [text]
        assert [row.description for row in page.items] == expected


async def test_a_search_follows_an_update(store: CatalogStore) -> None:
    row = await store.create(provider("Acme", slug="s"))
    await store.update("provider", row.id, EntityChange(display_name="Other", spec={}))
    assert await names(store, "provider", Listing(search="acme")) == []
    assert await names(store, "provider", Listing(search="OTHER")) == ["Other"]


LABELLED = {
    (("team", "a"),): "12",
    (("team", "a"), ("env", "prod")): "1",
    (("team", "b"),): "3",
    (("team", ""),): "",
    (("tea", "a"),): "",
    (('q"uo.te$', "%'\\"),): "3",
}


async def test_every_label_that_is_asked_for_must_be_there(store: CatalogStore) -> None:
    await store.write_all(
        [
            provider("1", labels={"team": "a", "env": "prod"}),
            provider("2", labels={"team": "a", "env": "test"}),
            provider("3", labels={"team": "b", 'q"uo.te$': "%'\\"}),
            provider("4"),
        ]
    )
    for labels, found in LABELLED.items():
        assert await names(store, "provider", Listing(labels=labels)) == list(found), labels


async def test_every_order_visits_each_entity_once_also_when_values_are_nonsense(
    store: CatalogStore,
) -> None:
    specs: list[dict[str, Any]] = [
        {"maxConnections": 100, "adapter": "b", "tls": {}, "noAuth": True},
        {"maxConnections": 9, "adapter": "B", "timeouts": {"idle": 1.5}},
        {"adapter": "b", "pathPrefix": "z", "enabled": False},
        {"maxConnections": 9, "adapter": "é", "baseUrl": "http://a.test"},
        {"maxConnections": 10**400, "adapter": "ab", "timeouts": {"idle": 20}},
        {"maxConnections": "nonsense", "timeouts": "nonsense", "enabled": 5},
    ]
    await store.write_all([host(str(index), **spec) for index, spec in enumerate(specs)])
    for listed in list_fields(KINDS["host"]).values():
        if listed.sortable:
            upwards = await names(store, "host", Listing(sort=listed), 1)
            assert sorted(upwards) == [*"012345"], listed.name
            assert await names(store, "host", Listing(sort=listed), 4) == upwards
            downwards = await names(store, "host", Listing(sort=listed, descending=True), 1)
            assert downwards == upwards[::-1], listed.name


async def test_ties_stand_in_order_of_creation(store: CatalogStore) -> None:
    await add_hosts(store)
    listing = Listing(sort=field("host", "adapter"))
    assert await names(store, "host", listing, 1) == ["a", "c", "b"]


async def test_texts_sort_by_code_point_numbers_by_size_and_absent_values_first(
    store: CatalogStore,
) -> None:
    await store.write_all([provider(name) for name in ("b", "B", "é", "a-b", "ab", "a b")])
    order = Listing(sort=field("provider", "displayName"))
    assert await names(store, "provider", order) == ["B", "a b", "a-b", "ab", "b", "é"]
    await store.write_all([host(str(n), maxConnections=n) for n in (100, 9, 20)])
    await store.write_all([host("z", pathPrefix="z"), host("none"), host("a", pathPrefix="a")])
    sizes = Listing(sort=field("host", "maxConnections"), filters=[
        (field("host", "displayName"), ["100", "9", "20", "none"])
    ])  # fmt: skip
    assert await names(store, "host", sizes, 3) == ["9", "20", "100", "none"]
    prefixes = Listing(sort=field("host", "pathPrefix"), descending=True)
    assert (await names(store, "host", prefixes))[:3] == ["z", "a", "none"]


async def test_times_sort_and_compare_to_the_fraction(store: CatalogStore) -> None:
    policy = NewEntity(kind="policy", display_name="p", spec={})
    moments = ["2030-01-01T00:00:00.5Z", "2030-01-01T00:00:00Z", "2029-12-31T23:59:59.999999Z"]
    keys = [
        NewEntity(
            kind="relay key", display_name=str(n), spec={"policyId": policy.id, "expiresAt": at}
        )
        for n, at in enumerate([*moments, None])
    ]
    await store.write_all([policy, *keys])
    listed = field("relay key", "expiresAt")
    assert await names(store, "relay key", Listing(sort=listed)) == ["3", "2", "1", "0"]
    assert await filtered(store, "relay key", "expiresAt", moments[1]) == ["1"]
    assert await filtered(store, "relay key", "expiresAt", None) == ["3"]


async def test_a_page_goes_on_where_the_last_ended_though_that_entity_is_gone(
    store: CatalogStore,
) -> None:
    rows = await store.write_all([provider(name) for name in "cab"])
    order = Listing(sort=field("provider", "displayName"))
    first = await store.page("provider", limit=1, listing=order)
    await store.delete("provider", rows[1].id)
    await store.create(provider("aa"))
    rest = await store.page("provider", limit=9, cursor=first.next_cursor, listing=order)
    assert [row.display_name for row in rest.items] == ["aa", "b", "c"]


async def test_a_cursor_belongs_to_one_kind_order_and_set_of_filters(store: CatalogStore) -> None:
    await store.write_all([*map(provider, "ab"), host("a"), host("b")])
    order = Listing(sort=field("provider", "displayName"))
    cursor = (await store.page("provider", limit=1, listing=order)).next_cursor
    others = [
        ("host", Listing(sort=field("host", "displayName"))),
        ("provider", Listing()),
        ("provider", Listing(sort=order.sort, descending=True)),
        ("provider", Listing(sort=order.sort, search="a")),
        ("provider", Listing(sort=order.sort, labels=[("a", "b")])),
        ("provider", Listing(sort=order.sort, filters=[(field("provider", "slug"), ["a"])])),
    ]
    for kind, listing in others:
        with pytest.raises(InvalidCursorError):
            await store.page(kind, limit=1, cursor=cursor, listing=listing)
