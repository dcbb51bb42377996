"""What a process begins with that takes the place of another, after plugins were reloaded."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from relay_gateway.registry import Registry
from relay_gateway.server.in_force import InForce
from relay_gateway.settings import Settings
from relay_gateway.settings.model import GuardingSettings


@pytest.fixture
def started(tmp_path: Path) -> Settings:
    """The settings that the gateway was started with."""
    return Settings(data_dir=tmp_path, port=4711, usage_sinks={"file": {"path": "first"}})


@pytest.fixture
def registry() -> Registry:
    return Registry.discover(enabled=())


def test_before_any_reload_it_is_what_the_gateway_was_started_with(
    started: Settings, registry: Registry
) -> None:
    assert InForce(started, registry).now() == (started, registry)


def test_it_is_what_was_reloaded_last_and_nothing_that_needs_a_restart(
    started: Settings, registry: Registry
) -> None:
    in_force = InForce(started, registry)
    long = {"file": {"path": "second" * 10_000}}
    last = {"file": {"path": "third", "most": float("inf")}}
    for sinks in (long, last):
        guarding = GuardingSettings(order=("watch",))
        fields = {"usage_sinks": sinks, "guarding": guarding, "port": 1}
        in_force.keep(started.model_copy(update=fields))
    settings, known = in_force.now()
    assert (settings.usage_sinks, settings.guarding.order) == (last, ("watch",))
    assert (settings.port, settings.data_dir) == (4711, started.data_dir)
    assert known is registry


def test_a_time_in_a_section_can_still_be_read_as_one(
    started: Settings, registry: Registry
) -> None:
    in_force = InForce(started, registry)
    moment = datetime(2026, 11, 20, 12, tzinfo=UTC)
    in_force.keep(started.model_copy(update={"guards": {"watch": {"since": moment}}}))
    told = in_force.now()[0].guards["watch"]["since"]
    assert datetime.fromisoformat(told) == moment


def test_distributions_that_were_enabled_since_are_found(
    started: Settings, registry: Registry
) -> None:
    in_force = InForce(started, registry)
    enabled = started.plugins.model_copy(update={"enabled": ("relay-gateway-log-file",)})
    in_force.keep(started.model_copy(update={"plugins": enabled}))
    settings, known = in_force.now()
    assert settings.plugins.enabled == ("relay-gateway-log-file",)
    assert [*registry.usage_sinks] == []
    assert [*known.usage_sinks] == ["file"]
