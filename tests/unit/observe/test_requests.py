from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from relay_gateway.catalog.live import LiveCatalog
from relay_gateway.ids import new_id
from relay_gateway.observe import attempts as attempts_module
from relay_gateway.observe import bounded
from relay_gateway.observe import requests as requests_module
from relay_gateway.observe.requests import RequestMetrics
from relay_gateway.observe.series import Series
from relay_gateway.plugin import PluginConfig, UsageRecord
from relay_gateway.plugin.usage import Attempt
from relay_gateway.testing.catalog import CatalogDraft, PlainProvider
from relay_gateway.testing.context import plugin_context


class World:
    """A catalog with one model at two hosts, and the metrics of what is answered with it."""

    def __init__(self, directory: Path) -> None:
        draft = CatalogDraft()
        provider = draft.add("provider", "acme", {})
        self.east, self.west = draft.host("east"), draft.host("west")
        self.model = draft.model("m", [self.east, self.west], provider_id=provider)
        live = LiveCatalog()
        plain = PlainProvider(PluginConfig(), plugin_context(directory))
        live.swap(draft.snapshot({"plain": plain}, {}))
        self.metrics = RequestMetrics(live)

    def record(self, **fields: Any) -> UsageRecord:
        answered: dict[str, Any] = {
            "request_id": new_id(),
            "started_at": "2026-01-01T00:00:00Z",
            "endpoint": "chat",
            "duration_ms": 100.0,
            "overhead_ms": 0.4,
            "model_id": self.model,
            "host_id": self.east,
            "requested_model": "m",
        }
        return UsageRecord(**(answered | fields))

    def observe(self, **fields: Any) -> None:
        self.metrics.observe(self.record(**fields))

    def values(self, family: str) -> dict[tuple[str, ...], int | float]:
        return {one.labels: one.value for one in self.series(family)}

    def series(self, family: str) -> Sequence[Series]:
        return [one for one in self.metrics.series() if one.family == family]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_requests_are_counted_by_endpoint_model_host_and_outcome(world: World) -> None:
    world.observe()
    world.observe()
    world.observe(outcome="timeout", host_id=world.west)
    world.observe(outcome="rejected", host_id=None, model_id=None, requested_model=None)
    assert world.values("relay_requests_total") == {
        ("chat", "m", "east", "ok"): 2,
        ("chat", "m", "west", "timeout"): 1,
        ("chat", "none", "none", "rejected"): 1,
    }


def test_t42_what_callers_name_is_other_and_never_a_label(world: World) -> None:
    for number in range(1000):
        name = f"made-up-{number}"
        world.observe(model_id=None, host_id=None, requested_model=name, outcome="rejected")
    assert world.values("relay_requests_total") == {("chat", "other", "none", "rejected"): 1000}
    assert "made-up" not in str(list(world.metrics.series()))


def test_a_model_that_has_left_the_catalog_is_other(world: World) -> None:
    world.observe(model_id=new_id(), host_id=new_id())
    assert world.values("relay_requests_total") == {("chat", "other", "other", "ok"): 1}


def test_t42_beyond_the_limit_combinations_share_one_and_none_is_lost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests_module, "MAX_COMBINATIONS", 2)
    for endpoint in ("a", "b"):
        world.observe(endpoint=endpoint)
    for _ in range(3):
        world.observe(endpoint="a", host_id=world.west)
    world.observe(endpoint="a")
    assert world.values("relay_requests_total") == {
        ("a", "m", "east", "ok"): 2,
        ("b", "m", "east", "ok"): 1,
        ("a", "other", "other", "ok"): 3,
    }
    assert len(world.metrics._by_ids) == 2


def test_t42_codes_meters_and_results_that_a_plugin_invents_are_limited(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "MAX_NAMES", 2)
    monkeypatch.setattr(attempts_module, "MAX_RESULTS", 2)
    for name in ("a", "b", "c", "d"):
        world.observe(
            outcome="upstream_error",
            error_code=name,
            tokens={name: 1},
            attempts=(Attempt(host_id=world.east, error=name),),
        )
    kept = {("a",): 1, ("b",): 1, ("other",): 2}
    assert world.values("relay_request_errors_total") == kept
    assert world.values("relay_tokens_total") == {("m", "east", *k): v for k, v in kept.items()}
    assert world.values("relay_upstream_attempts_total") == {
        ("east", *k): v for k, v in kept.items()
    }


def test_a_duration_is_in_the_bucket_whose_bound_it_does_not_exceed(world: World) -> None:
    for duration in (0.0, 5.0, 5.001, 1_000_000.0):
        world.observe(duration_ms=duration)
    (one,) = world.series("relay_request_duration_seconds")
    assert one.labels == ("chat", "m", "east")
    assert (one.buckets[:2], one.buckets[-1], sum(one.buckets)) == ((2, 1), 1, 4)
    assert one.value == pytest.approx(1000.010001)


def test_first_tokens_and_overhead_are_measured_where_they_are_known(world: World) -> None:
    world.observe(ttft_ms=None, overhead_ms=None)
    assert [sum(one.buckets) for one in world.series("relay_overhead_seconds")] == [0]
    world.observe(ttft_ms=120.0, overhead_ms=0.1)
    (first,) = world.series("relay_time_to_first_token_seconds")
    (overhead,) = world.series("relay_overhead_seconds")
    assert (first.buckets[2], sum(first.buckets), first.value) == (1, 1, 0.12)
    assert (overhead.labels, overhead.buckets[0], sum(overhead.buckets)) == (("chat",), 1, 1)


def test_outcomes_share_histograms_and_endpoints_share_figures(world: World) -> None:
    world.observe(tokens={"input": 3})
    world.observe(tokens={"input": 4}, outcome="cancelled")
    world.observe(tokens={"input": 5}, endpoint="embeddings")
    counts = [sum(one.buckets) for one in world.series("relay_request_duration_seconds")]
    assert counts == [2, 1]
    assert world.values("relay_tokens_total") == {("m", "east", "input"): 12}


def test_an_upstream_that_counts_backwards_does_not_make_a_counter_fall(world: World) -> None:
    world.observe(tokens={"input": 5, "output": -7})
    world.observe(tokens={"input": -3, "output": 0})
    assert world.values("relay_tokens_total") == {("m", "east", "input"): 5}


def test_cost_is_added_up_in_nano_units_by_currency(world: World) -> None:
    for nanos in (1, 2, 300_000_000):
        world.observe(cost_nanos=nanos, currency="USD", tokens={"input": 1})
    world.observe(cost_nanos=7, currency="EUR", tokens={"input": 1})
    world.observe(cost_nanos=None, unpriced=True, tokens={"input": 1})
    assert world.values("relay_cost_total") == {
        ("m", "east", "USD"): 0.300000003,
        ("m", "east", "EUR"): 0.000000007,
    }
    assert world.values("relay_unpriced_requests_total") == {("m", "east"): 1}


def test_a_price_per_request_is_counted_without_any_tokens(world: World) -> None:
    world.observe(cost_nanos=5_000_000_000, currency="USD")
    assert world.values("relay_cost_total") == {("m", "east", "USD"): 5.0}


def test_every_attempt_is_counted_by_what_came_of_it(world: World) -> None:
    world.observe(
        attempts=(
            Attempt(host_id=world.east, error="throttled", status=429),
            Attempt(host_id=world.east, error="throttled", status=429),
            Attempt(host_id=world.west, status=200),
        )
    )
    assert world.values("relay_upstream_attempts_total") == {
        ("east", "throttled"): 2,
        ("west", "ok"): 1,
    }
