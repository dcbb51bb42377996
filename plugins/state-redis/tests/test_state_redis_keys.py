"""What is in Redis: which keys, for how long, and what happens to them in odd circumstances."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, get_args

import pytest

from relay_gateway.plugin import Hold, Strategy
from relay_gateway.testing.clock import FakeClock
from relay_gateway_state_redis.scripts import RESERVE, SETTLE
from relay_gateway_state_redis.testing.groups import RedisCluster
from relay_gateway_state_redis.testing.server import RedisServer

STRATEGIES: Sequence[Strategy] = get_args(Strategy)
WINDOW = 30.0
HOLDS = [Hold(f"rule {one}", 2, 10, WINDOW, one) for one in STRATEGIES]


def keys_of(server: RedisServer, pattern: str = "*") -> list[str]:
    found = server.command("KEYS", pattern)
    assert isinstance(found, list)
    return sorted(key.decode() for key in found if isinstance(key, bytes))


def milliseconds_left(server: RedisServer, key: str) -> int:
    left = server.command("PTTL", key)
    assert isinstance(left, int)
    return left


async def test_every_key_ends_by_itself(server: RedisServer, opened: Any) -> None:
    store = await opened(server.url)
    for request_id in ("settled", "crashed"):
        await store.reserve(request_id, HOLDS)
    await store.settle("settled", HOLDS, [5] * len(HOLDS))
    await store.settle("unheard-of", HOLDS, [5] * len(HOLDS))
    counters = keys_of(server, "{relay}:[cg]:*")
    assert len(counters) == len(HOLDS)
    for key in counters:
        assert 0 < milliseconds_left(server, key) <= 2 * WINDOW * 1000, key
    for key in keys_of(server, "{relay}:r:*"):
        assert 0 < milliseconds_left(server, key) <= 3_600_000, key
    assert len(keys_of(server, "{relay}:r:*")) == 2, "the record of a settled request is gone"


async def test_a_gauge_that_nothing_is_held_of_leaves_no_key(
    server: RedisServer, opened: Any
) -> None:
    store = await opened(server.url)
    gauge = [hold for hold in HOLDS if hold.strategy == "gauge"]
    for request_id in ("one", "another"):
        await store.reserve(request_id, gauge)
    for request_id in ("one", "another"):
        await store.settle(request_id, gauge, [0])
    assert keys_of(server) == []


async def test_gateways_with_other_namespaces_share_nothing(
    server: RedisServer, opened: Any
) -> None:
    first = await opened(server.url, namespace="production")
    second = await opened(server.url, namespace="staging")
    whole = [Hold("rule", 10, 10, WINDOW, "fixed-window")]
    assert (await first.reserve("one", whole)).refused == -1
    assert (await second.reserve("one", whole)).refused == -1
    assert (await first.reserve("two", whole)).refused == 0
    assert all(key.startswith(("{production}:", "{staging}:")) for key in keys_of(server))


async def test_all_keys_of_a_cluster_are_in_one_slot(cluster: RedisCluster, opened: Any) -> None:
    for server in cluster.masters:
        server.command("FLUSHALL")
    store = await opened(cluster.url, namespace="one-slot")
    odd = [Hold(key, 1, 10, WINDOW, "fixed-window") for key in ("{a}", "b}{c", "{}", "d")]
    await store.reserve("request-{x}", [*HOLDS, *odd])
    owner = cluster.owner("{one-slot}:")
    assert len(keys_of(owner)) == len(HOLDS) + len(odd) + 1
    assert all(keys_of(server) == [] for server in cluster.masters if server is not owner)


async def test_scripts_that_the_server_forgot_are_sent_again(
    server: RedisServer, opened: Any
) -> None:
    store = await opened(server.url)
    await store.reserve("one", HOLDS)
    server.command("SCRIPT", "FLUSH")
    grants = await asyncio.gather(*(store.reserve(f"r{number}", HOLDS) for number in range(8)))
    assert sorted(grant.refused for grant in grants) == [-1] * 4 + [0] * 4
    answers = server.command("SCRIPT", "EXISTS", RESERVE.digest, SETTLE.digest)
    assert answers == [1, 0], "a server learns a script when it is first used"


async def test_f65_a_settlement_that_overtakes_its_reservation_is_not_lost(
    server: RedisServer, opened: Any
) -> None:
    # A frozen server, when it goes on, may read two connections in any order.
    store = await opened(server.url)
    await store.settle("late", HOLDS, [0] * len(HOLDS))
    await store.reserve("late", HOLDS)
    grant = await store.reserve("another", HOLDS)
    assert grant.remaining == (8,) * len(HOLDS), "nobody would ever give back what it took"


async def test_what_one_gateway_reserved_another_may_settle(
    server: RedisServer, opened: Any
) -> None:
    first, second = await opened(server.url), await opened(server.url)
    await first.reserve("request", HOLDS)
    await second.settle("request", HOLDS, [0] * len(HOLDS))
    await first.settle("request", HOLDS, [7] * len(HOLDS))
    assert (await first.reserve("another", HOLDS)).remaining == (8,) * len(HOLDS)


async def test_a_request_may_reserve_several_times(server: RedisServer, opened: Any) -> None:
    store = await opened(server.url)
    first, second = [HOLDS[0]], [HOLDS[1]]
    await store.reserve("request", first)
    assert (await store.reserve("request", second)).remaining == (8,)
    await store.settle("request", first, [0])
    await store.settle("request", second, [1])
    grant = await store.reserve("probe", [HOLDS[0], HOLDS[1]])
    assert [round(left) for left in grant.remaining] == [8, 7]


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_f60_a_clock_that_is_set_back_neither_forgives_nor_locks(
    server: RedisServer, opened: Any, turned_clock: FakeClock, strategy: Strategy
) -> None:
    store = await opened(server.url)
    whole = [Hold("rule", 10, 10, WINDOW, strategy)]
    await store.reserve("before", whole)
    turned_clock.set_time(turned_clock.time() - 3600)
    refused = await store.reserve("after", whole)
    assert refused.refused == 0, "what was counted is forgotten"
    if strategy == "gauge":
        await store.settle("before", whole, [0])  # leases are not for clocks, but for crashes
    else:
        turned_clock.advance(1.1 * WINDOW + 0.001)
    assert (await store.reserve("later", whole)).refused == -1, "time stands still"


async def test_a_rule_that_changed_meanwhile_is_left_alone_by_a_settlement(
    server: RedisServer, opened: Any
) -> None:
    store = await opened(server.url)
    old = [Hold("rule", 4, 10, WINDOW, "sliding-window")]
    new = [Hold("rule", 1, 10, WINDOW, "fixed-window")]
    await store.reserve("before", old)
    await store.reserve("after", new)
    for used in (9, 0):
        await store.settle("before", old, [used])
    assert (await store.reserve("probe", new)).remaining == (8,)


async def test_figures_beyond_32_bits_come_and_go_unchanged(
    server: RedisServer, opened: Any
) -> None:
    store = await opened(server.url)
    hold = [Hold("cost", 2**51 - 1, 2**52, 2_678_400.0, "session-window")]
    grant = await store.reserve("one", hold)
    assert grant.remaining == (2**51 + 1,)
    assert grant.reset == (2_678_400.0,)
    await store.settle("one", hold, [2**50 + 7])
    assert (await store.reserve("two", hold)).remaining == (2**52 - 2**50 - 7 - 2**51 + 1,)


async def test_a_month_of_windows_fits_into_the_lifetime_of_keys(
    server: RedisServer, opened: Any
) -> None:
    store = await opened(server.url)
    await store.reserve("one", [Hold("cost", 1, 2, 31 * 86400.0, "fixed-window")])
    (counter,) = keys_of(server, "{relay}:c:*")
    assert milliseconds_left(server, counter) > 61 * 86_400_000
