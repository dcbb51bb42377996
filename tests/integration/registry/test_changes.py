"""Plugins enabled, disabled and reconfigured while they are used."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import SecretStr

from relay_gateway.errors import PluginConfigError, PluginUnavailableError
from relay_gateway.plugin import PluginConfig, PluginContext, UsageRecord, UsageSink, hookimpl
from relay_gateway.registry import Change, PluginChange, PluginKind, Plugins, Registry, Timing
from relay_gateway.registry.configure import Sections
from relay_gateway.secret import MASK
from relay_gateway.testing.catalog import PlainProvider
from relay_gateway.testing.instances import until

SINK = PluginKind.USAGE_SINK
QUICK = Timing(opening=1.0, closing=1.0, grace=0.1, first_retry=0.01, finishing=0.05)


class SinkConfig(PluginConfig):
    place: str = "here"
    token: SecretStr = SecretStr("")
    opens: bool = True


class Sink(UsageSink[SinkConfig]):
    """Notes what becomes of its instances, in order."""

    name = "noting"
    Config = SinkConfig
    events: ClassVar[list[str]] = []

    def __init__(self, config: SinkConfig, context: PluginContext) -> None:
        super().__init__(config, context)
        self.go_on = asyncio.Event()

    async def aopen(self) -> None:
        if not self.config.opens:
            raise OSError(f"nothing at {self.config.place}")
        self.events.append(f"open {self.config.place}")

    async def aclose(self) -> None:
        self.events.append(f"close {self.config.place}")

    async def write(self, records: Sequence[UsageRecord]) -> None:
        await self.go_on.wait()
        self.events.append(f"wrote {self.config.place}")


@pytest.fixture(autouse=True)
def _forget() -> None:
    Sink.events.clear()


class World:
    """Plugins of a registry, and plans for them."""

    def __init__(self, directory: Path, sections: Sections, timing: Timing = QUICK) -> None:
        self.registry = Registry.discover(entry_points=(), extra=(Brought(),))
        self.plugins: Plugins = self.registry.configure(
            sections, lambda name: PluginContext(name, directory, "sqlite:///x"), timing=timing
        )

    async def start(self) -> None:
        """Opens the plugins, with the sink."""
        self.plugins.usage_sink("noting")
        await self.plugins.aopen()

    async def change(self, sections: Sections) -> list[PluginChange]:
        """Makes other sections effective."""
        return await self.plugins.change(self.plugins.plan_again(None, lambda _: sections))

    @property
    def sink(self) -> Sink:
        sink = self.plugins.usage_sink("noting")
        assert isinstance(sink, Sink)
        return sink


class Brought:
    """Hooks of a program's own plugins."""

    @hookimpl
    def relay_register_usage_sinks(self) -> Sequence[type[UsageSink[Any]]]:
        return (Sink,)

    @hookimpl
    def relay_register_upstream_providers(self) -> Sequence[type[PlainProvider]]:
        return (PlainProvider,)


def at(place: str, **values: Any) -> Sections:
    return {"usage_sinks": {"noting": {"place": place, **values}}}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, at("one"))


async def test_a_new_instance_is_open_before_the_old_one_is_closed(world: World) -> None:
    await world.start()
    assert await world.change(at("two")) == [PluginChange(SINK, "noting", Change.RECONFIGURED)]
    await until(lambda: len(Sink.events) == 3)
    assert Sink.events == ["open one", "open two", "close one"]
    assert world.sink.config.place == "two"
    await world.plugins.aclose()


async def test_what_is_under_way_ends_with_the_old_instance(world: World) -> None:
    await world.start()
    old = world.sink
    world.plugins._instances._timing = Timing(finishing=5.0)
    writing = asyncio.create_task(old.write(()))
    await asyncio.sleep(0)
    await world.change(at("two"))
    assert Sink.events == ["open one", "open two"]
    old.go_on.set()
    await writing
    await until(lambda: "close one" in Sink.events)
    assert Sink.events == ["open one", "open two", "wrote one", "close one"]
    await world.plugins.aclose()


async def test_a_call_that_never_ends_keeps_an_old_instance_for_a_while_only(world: World) -> None:
    await world.start()
    writing = asyncio.create_task(world.sink.write(()))
    await asyncio.sleep(0)
    await world.change(at("two"))
    await until(lambda: "close one" in Sink.events)
    assert not writing.done()
    writing.cancel()
    await world.plugins.aclose()


async def test_what_does_not_open_leaves_the_old_instance_at_work(world: World) -> None:
    await world.start()
    old = world.sink
    (change,) = await world.change(at("two", opens=False))
    assert change == PluginChange(SINK, "noting", Change.KEPT, "OSError: nothing at two")
    assert world.sink is old
    assert Sink.events == ["open one", "close two"]
    assert await world.change(at("one")) == []
    await world.plugins.aclose()


async def test_what_is_configured_as_before_is_left_alone(world: World) -> None:
    await world.start()
    old = world.sink
    assert await world.change(at("one")) == []
    assert world.sink is old
    await world.plugins.aclose()


async def test_sections_that_do_not_validate_change_nothing(world: World) -> None:
    await world.start()
    with pytest.raises(PluginConfigError, match=r"\[usage_sinks\.noting\] plase: unknown key"):
        await world.change({"usage_sinks": {"noting": {"plase": "two"}}})
    assert Sink.events == ["open one"]
    assert world.sink.config.place == "one"
    await world.plugins.aclose()


async def test_a_plugin_that_is_not_enabled_any_more_is_closed_and_one_that_is_comes_back(
    world: World,
) -> None:
    await world.start()
    everything = world.plugins.plan_again(None, lambda _: at("one"))
    nothing = type(everything)(everything.records, {}, {}, {}, {})
    changes = await world.plugins.change(nothing)
    assert PluginChange(SINK, "noting", Change.DISABLED) in changes
    await until(lambda: "close one" in Sink.events)
    with pytest.raises(PluginUnavailableError):
        world.plugins.usage_sink("noting")
    assert "plain" not in world.plugins.providers
    changes = await world.change(at("two"))
    assert PluginChange(SINK, "noting", Change.ENABLED) in changes
    assert await world.plugins.opened(SINK, "noting") is None
    assert Sink.events[-1] == "open two"
    assert "plain" in world.plugins.providers
    await world.plugins.aclose()


async def test_a_provider_that_was_not_there_at_the_start_comes_with_what_it_speaks(
    tmp_path: Path,
) -> None:
    everything = World(tmp_path, {}).plugins.plan_again(None, lambda _: {})
    registry = Registry.discover(entry_points=())
    plugins = registry.configure({}, lambda name: PluginContext(name, tmp_path, ""), timing=QUICK)
    nothing = plugins.plan_again(None, lambda _: {})
    endpoints, formats = plugins.endpoints, plugins.wire_formats
    assert (list(endpoints), set(formats)) == ([], set())
    changes = await plugins.change(everything)
    change = PluginChange(PluginKind.UPSTREAM_PROVIDER, "plain", Change.ENABLED)
    assert change in changes
    (plain,) = PlainProvider.defines
    assert {type(one) for one in formats.values()} == {plain}
    assert [one.endpoint for one in endpoints] == list(plain.endpoints)
    assert plain.dialect.name in plugins.dialects
    (spoken,) = formats.values()
    await plugins.change(everything)
    assert list(formats.values()) == [spoken], "requests hold the format that they began with"
    await plugins.change(nothing)
    assert (list(endpoints), set(formats), set(plugins.providers)) == ([], set(), set())
    assert set(plugins.providers_in_use) == {"plain"}, "requests that have begun end with it"
    await plugins.aclose()


async def test_figures_outlive_an_instance(world: World) -> None:
    await world.start()
    world.sink.go_on.set()
    await world.sink.write(())
    world.plugins.report(SINK, "noting", OSError("once"))
    await world.change(at("two"))
    world.sink.go_on.set()
    await world.sink.write(())
    (figures,) = [one for one in world.plugins.figures() if one.kind is SINK]
    assert figures.calls == 2
    (info,) = [one for one in world.plugins.inventory() if one.kind is SINK]
    assert (info.failures, str(info.state)) == (1, "open")
    await world.plugins.aclose()


async def test_a_description_shows_the_schema_and_no_credential(world: World) -> None:
    await world.start()
    await world.change(at("two", token="sk-very-secret"))
    (shown,) = [one for one in world.plugins.described() if one.kind == "usage sink"]
    assert shown.config == {"place": "two", "token": MASK, "opens": True, "required": False}
    assert shown.config_schema is not None
    assert set(shown.config_schema["properties"]) == {"place", "token", "opens", "required"}
    assert "sk-very-secret" not in repr(shown)
    await world.plugins.aclose()
