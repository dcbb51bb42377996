"""Whoever holds up the event loop is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay_gateway.observe.stall_watch import Stall
from relay_gateway.plugin import PluginContext
from relay_gateway.registry import Plugins, Registry
from relay_gateway.server.stalls import CORE, Stalls


@pytest.fixture
def plugins(tmp_path: Path) -> Plugins:
    return Registry.discover().configure(
        {}, lambda name: PluginContext(name, tmp_path, f"sqlite:///{tmp_path}/x.db")
    )


def stall(*modules: str) -> Stall:
    return Stall(0.7, modules, 'File "somewhere.py", line 1, in work')


def test_the_innermost_module_of_a_plugin_tells_which(
    plugins: Plugins, caplog: pytest.LogCaptureFixture
) -> None:
    home = type(plugins.providers["echo"]).__module__
    stalls = Stalls(plugins)
    stalls.found(stall("json.decoder", home, "relay_gateway.pipeline.dispatch", "asyncio.runners"))
    assert stalls.counts == {CORE: 0, ("upstream provider", "echo"): 1}
    assert "held up, for 0.7 s so far, by upstream provider 'echo'" in caplog.text
    assert "line 1, in work" in caplog.text


def test_a_module_beside_that_of_the_class_belongs_to_all_plugins_of_the_package(
    plugins: Plugins,
) -> None:
    package = type(plugins.providers["openai"]).__module__.partition(".")[0]
    stalls = Stalls(plugins)
    stalls.found(stall(f"{package}.somewhere_inside"))
    assert ("upstream provider", "openai") in stalls.counts


def test_code_of_no_plugin_is_counted_as_such(
    plugins: Plugins, caplog: pytest.LogCaptureFixture
) -> None:
    stalls = Stalls(plugins)
    stalls.found(stall("relay_gateway.pipeline.run", "asyncio.events"))
    assert stalls.counts == {CORE: 1}
    assert "by code of no plugin" in caplog.text
