"""Discovery over real distributions: each way to be broken, beside one that is not."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from relay_gateway.errors import DuplicatePluginError
from relay_gateway.registry import PluginInfo, PluginState, Registry

BROKEN = {
    "import_error": "ModuleNotFoundError: No module named 'relay_fixture_vendor_sdk'",
    "exits": "SystemExit: this module is a program",
    "misspelt_hook": "relay_register_secret_backend is no hook; "
    "did you mean relay_register_secret_backends?",
    "unmarked_hook": "relay_register_secret_backends is not marked with @hookimpl",
    "bad_signature": "Argument(s) {'settings'} are declared in the hookimpl",
    "wrong_api_version": "is written for version 99 of the plugin API, this gateway has version 1",
}


def by_distribution(registry: Registry, name: str) -> PluginInfo:
    return next(
        info for info in registry.inventory() if info.distribution == f"relay-fixture-{name}"
    )


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plugin_is_quarantined_with_its_traceback(
    name: str, site: Any, caplog: pytest.LogCaptureFixture
) -> None:
    site.install("healthy", name)
    registry = Registry.discover(entry_points=site.entry_points())
    info = by_distribution(registry, name.replace("_", "-"))
    assert (info.name, info.kind, info.version) == (name, "-", "1.0")
    assert info.state is PluginState.QUARANTINED
    assert BROKEN[name] in (info.error or "")
    assert (info.traceback or "").startswith("Traceback (most recent call last)")
    assert f"relay-fixture-{name.replace('_', '-')} 1.0" in caplog.text


@pytest.mark.parametrize("name", BROKEN)
def test_healthy_plugins_are_collected_beside_a_broken_one(
    name: str, site: Any, context_factory: Any
) -> None:
    site.install("healthy", name)
    registry = Registry.discover(entry_points=site.entry_points())
    assert set(registry.secret_backends) == {"healthy"}
    plugins = registry.configure({}, context_factory)
    assert set(plugins.providers) == {"healthy"}
    assert set(plugins.wire_formats) == {"healthy.chat"}


def test_every_broken_plugin_at_once_leaves_the_healthy_one_whole(site: Any) -> None:
    site.install("healthy", *BROKEN)
    registry = Registry.discover(entry_points=site.entry_points())
    states = {info.name: info.state for info in registry.inventory() if info.name in BROKEN}
    assert states == dict.fromkeys(BROKEN, PluginState.QUARANTINED)
    healthy = [info for info in registry.inventory() if info.name == "healthy"]
    assert {info.state for info in healthy} == {PluginState.REGISTERED}
    assert {info.kind for info in healthy} == {
        "secret backend",
        "upstream provider",
        "usage sink",
        "payload logger",
        "state store",
        "catalog seed",
    }
    assert [seed.name for seed in registry.seeds] == ["healthy"]
    assert set(registry.usage_sinks) == {"healthy"}
    assert set(registry.payload_loggers) == {"healthy"}
    assert set(registry.state_stores) == {"healthy"}


def test_a_name_claimed_twice_names_both_distributions_and_refuses_the_start(
    site: Any, context_factory: Any
) -> None:
    site.install("healthy", "duplicate_name")
    registry = Registry.discover(entry_points=site.entry_points())
    with pytest.raises(DuplicatePluginError) as caught:
        registry.configure({}, context_factory)
    assert "secret backend 'healthy'" in str(caught.value)
    assert "relay-fixture-healthy 1.0 (relay_fixture_healthy.Backend)" in str(caught.value)
    assert "relay-fixture-duplicate-name 2.0" in str(caught.value)
    claimants = [info for info in registry.inventory() if info.error is not None]
    assert {info.distribution for info in claimants} == {
        "relay-fixture-healthy",
        "relay-fixture-duplicate-name",
    }
    assert "healthy" not in registry.secret_backends
    assert "healthy" in registry.usage_sinks


def test_an_endpoint_claimed_twice_names_both_distributions_and_refuses_the_start(
    site: Any, context_factory: Any
) -> None:
    site.install("healthy", "duplicate_endpoint")
    registry = Registry.discover(entry_points=site.entry_points())
    with pytest.raises(DuplicatePluginError) as caught:
        registry.configure({}, context_factory)
    assert "the endpoint 'POST /v1/healthy/chat'" in str(caught.value)
    assert "relay-fixture-healthy 1.0" in str(caught.value)
    assert "relay-fixture-duplicate-endpoint 1.0" in str(caught.value)


@pytest.mark.parametrize(
    "enabled", ["relay-fixture-healthy", "Relay_Fixture.Healthy", "healthy", "healthy==1.0"]
)
def test_t66_a_distribution_outside_the_allow_list_is_never_imported(
    enabled: str, site: Any
) -> None:
    site.install("healthy", "raising")
    registry = Registry.discover(entry_points=site.entry_points(), enabled=[enabled])
    assert set(registry.secret_backends) == {"healthy"}
    assert "relay_fixture_raising" not in sys.modules
    info = by_distribution(registry, "raising")
    assert info.state is PluginState.DISCOVERED
    assert info.error == "not imported: [plugins] enabled does not name it"


def test_t66_another_version_than_the_allow_list_asks_for_is_never_imported(site: Any) -> None:
    site.install("healthy")
    registry = Registry.discover(entry_points=site.entry_points(), enabled=["healthy==1.1"])
    assert not registry.secret_backends
    assert "relay_fixture_healthy" not in sys.modules
    (info,) = registry.inventory()
    assert info.error == "not imported: [plugins] enabled asks for version 1.1"


def test_t66_an_empty_allow_list_imports_nothing(site: Any) -> None:
    site.install("healthy")
    registry = Registry.discover(entry_points=site.entry_points(), enabled=[])
    assert [info.state for info in registry.inventory()] == [PluginState.DISCOVERED]
    assert "relay_fixture_healthy" not in sys.modules


def test_an_enabled_plugin_that_is_not_installed_is_shown(site: Any) -> None:
    registry = Registry.discover(entry_points=site.entry_points(), enabled=["acme==2"])
    (info,) = registry.inventory()
    assert (info.name, info.state) == ("acme", PluginState.QUARANTINED)
    assert info.error == "[plugins] enabled names it, but it is not installed"


def test_t66_each_loaded_plugin_is_logged_with_distribution_and_version(
    site: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "relay_gateway.registry")
    site.install("healthy")
    Registry.discover(entry_points=site.entry_points())
    assert "loaded plugin healthy of relay-fixture-healthy 1.0: secret backend healthy" in (
        caplog.text
    )


def test_what_is_installed_is_found_without_being_told(site: Any) -> None:
    site.install("healthy")
    registry = Registry.discover(enabled=["relay-fixture-healthy"])
    assert set(registry.upstream_providers) == {"healthy"}


def test_a_foreign_distribution_with_broken_metadata_hides_no_plugin(
    site: Any, caplog: pytest.LogCaptureFixture
) -> None:
    site.install("healthy")
    broken = Path(site.path) / "acme_broken-1.0.dist-info"
    broken.mkdir()
    (broken / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-broken\nVersion: 1.0\n")
    (broken / "entry_points.txt").write_text("[console_scripts]\nno equals sign\n")
    registry = Registry.discover(enabled=["relay-fixture-healthy"])
    assert set(registry.upstream_providers) == {"healthy"}
    assert "broken metadata" in caplog.text


def test_the_order_of_plugins_is_not_that_of_installation(site: Any) -> None:
    site.install("raising", "healthy", "failing_open")
    points = site.entry_points()
    forwards = Registry.discover(entry_points=points).inventory()
    assert Registry.discover(entry_points=reversed(points)).inventory() == forwards
