"""Distributions that are imported only as they were when somebody looked at them."""

from __future__ import annotations

from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from relay_gateway.registry import PluginState, Registry
from relay_gateway.registry.digest import digest_of
from relay_gateway.server.plugin_inventory import distributions_of

NAME = "relay-fixture-healthy"


def healthy(site: Path) -> Distribution:
    (found,) = [one for one in distributions(path=[str(site)]) if one.name == NAME]
    return found


def error_with(enabled: str, site: Path) -> str | None:
    points = list(healthy(site).entry_points)
    registry = Registry.discover(enabled=[enabled], entry_points=points)
    states = {info.state for info in registry.inventory()}
    assert states <= {PluginState.REGISTERED, PluginState.DISCOVERED}
    return registry.inventory()[0].error


def test_what_has_the_digest_that_is_asked_for_is_imported(site: Any) -> None:
    site.install("healthy")
    digest = digest_of(healthy(site.path))
    assert digest is not None
    assert error_with(f"{NAME}==1.0 {digest}", site.path) is None
    assert error_with(f"{NAME} {digest.upper().replace('SHA256', 'sha256')}", site.path) is None


def test_a_changed_file_is_noticed_and_what_the_installer_adds_is_not(site: Any) -> None:
    site.install("healthy")
    path = site.path
    before = digest_of(healthy(path))
    (info,) = path.glob("*.dist-info")
    (info / "INSTALLER").write_text("somebody")
    assert digest_of(healthy(path)) == before
    module = path / "relay_fixture_healthy.py"
    module.write_text(module.read_text() + "\n# changed\n")
    after = digest_of(healthy(path))
    assert after != before
    error = error_with(f"{NAME} {before}", path)
    assert error == (
        f"not imported: its files have the digest {after}, and [plugins] enabled asks for {before}"
    )


def test_files_that_are_not_there_and_editable_installations_cannot_be_verified(site: Any) -> None:
    site.install("healthy")
    path = site.path
    (info,) = path.glob("*.dist-info")
    (info / "direct_url.json").write_text('{"url": "file:///x", "dir_info": {"editable": true}}')
    assert digest_of(healthy(path)) is None
    assert "its files cannot be verified" in str(error_with(f"{NAME} sha256:0", path))
    (info / "direct_url.json").unlink()
    (path / "relay_fixture_healthy.py").unlink()
    assert digest_of(healthy(path)) is None


def test_a_digest_with_a_typing_error_lets_nothing_in(site: Any) -> None:
    site.install("healthy")
    error = error_with(f"{NAME} sha265:0", site.path)
    assert "asks for sha256: (sha265:0)" in str(error)


def test_the_inventory_has_a_line_for_each_distribution() -> None:
    lines = list(distributions_of(Registry.discover().inventory()))
    (openai,) = [one for one in lines if one["distribution"] == "relay-gateway-provider-openai"]
    assert "upstream provider openai: registered" in openai["plugins"]
    assert set(openai) == {"distribution", "version", "digest", "plugins"}
