"""Opening, working and closing, with plugins that fail at each of them beside one that does not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from relay_gateway.errors import PluginLoadError, PluginUnavailableError
from relay_gateway.plugin import RowBinding
from relay_gateway.registry import PluginInfo, PluginKind, Plugins, PluginState, Registry, Timing

TOKEN = "tok-4f1c"
FAILING = ("secret backend", "failing_open")
BINDING = RowBinding("host key", "1", "spec.valueFrom", 1)


def info_of(plugins: Plugins, kind: str, name: str) -> PluginInfo:
    return next(info for info in plugins.inventory() if (info.kind, info.name) == (kind, name))


async def until(condition: Callable[[], bool]) -> None:
    """Gives the event loop to others until ``condition`` holds; an error after two seconds."""
    async with asyncio.timeout(2):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0)


@pytest.fixture
async def configured(site: Any, context_factory: Any, timing: Timing) -> AsyncIterator[Any]:
    """Installs and configures fixtures; whatever was made is closed after the test."""
    made: list[Plugins] = []

    def configure(*names: str, sections: dict[str, Any] | None = None) -> Plugins:
        site.install(*names)
        registry = Registry.discover(entry_points=site.entry_points())
        made.append(registry.configure(sections or {}, context_factory, timing=timing))
        return made[-1]

    yield configure
    for plugins in made:
        await plugins.aclose()


async def resolve(plugins: Plugins, name: str) -> str:
    backend = plugins.secret_backends[name]
    resolved = await backend.resolve(backend.Ref.model_construct(kind=name), BINDING)
    return resolved.value.reveal()


async def test_opened_plugins_are_open_and_closed_ones_are_closed(configured: Any) -> None:
    plugins = configured("healthy")
    assert info_of(plugins, "secret backend", "healthy").state is PluginState.CONFIGURED
    await plugins.aopen()
    assert info_of(plugins, "secret backend", "healthy").state is PluginState.OPEN
    assert info_of(plugins, "usage sink", "healthy").state is PluginState.REGISTERED
    await plugins.aclose()
    assert info_of(plugins, "secret backend", "healthy").state is PluginState.CLOSED


async def test_a_plugin_that_fails_to_open_is_opened_again_in_the_background(
    configured: Any,
) -> None:
    plugins = configured("healthy", "failing_open")
    await plugins.aopen()
    info = info_of(plugins, "secret backend", "failing_open")
    assert info.state is PluginState.FAILED
    assert "ConnectionRefusedError: nobody listens" in (info.error or "")
    assert "relay_fixture_failing_open.py" in (info.traceback or "")
    assert await resolve(plugins, "healthy") == "value for spec.valueFrom"
    backend: Any = plugins.secret_backends["failing_open"]
    await until(lambda: info_of(plugins, *FAILING).state is PluginState.OPEN)
    assert backend.attempts == 3
    assert info_of(plugins, *FAILING).error is None


async def test_a_required_plugin_that_fails_to_open_refuses_the_start(configured: Any) -> None:
    section = {"required": True, "token": TOKEN}
    plugins = configured(
        "healthy", "failing_open", sections={"secret_backends": {"failing_open": section}}
    )
    with pytest.raises(PluginLoadError) as caught:
        await plugins.aopen()
    assert str(caught.value) == (
        "secret backend 'failing_open' (relay-fixture-failing-open 1.0) is required and could not "
        "be opened: ConnectionRefusedError: nobody listens to '<secret>' there"
    )
    backend: Any = plugins.secret_backends["failing_open"]
    assert (backend.attempts, backend.closed) == (1, 1)
    assert info_of(plugins, "secret backend", "healthy").state is PluginState.CLOSED


async def test_what_a_plugin_says_about_its_credential_is_masked(
    configured: Any, caplog: pytest.LogCaptureFixture
) -> None:
    plugins = configured(
        "failing_open", sections={"secret_backends": {"failing_open": {"token": TOKEN}}}
    )
    await plugins.aopen()
    info = info_of(plugins, *FAILING)
    assert "'<secret>'" in (info.error or "")
    assert TOKEN not in repr(info)
    assert TOKEN not in caplog.text


async def test_closing_ends_the_retries_and_closes_a_plugin_that_never_opened_once(
    configured: Any,
) -> None:
    plugins = configured(
        "failing_open", sections={"secret_backends": {"failing_open": {"failures": 1_000_000}}}
    )
    await plugins.aopen()
    backend: Any = plugins.secret_backends["failing_open"]
    await until(lambda: backend.attempts >= 3)
    await plugins.aclose()
    await plugins.aclose()
    assert backend.closed == 1
    assert info_of(plugins, *FAILING).state is PluginState.CLOSED
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("section", [{}, {"deaf": True}])
async def test_a_plugin_that_does_not_get_done_delays_the_others_by_its_deadline_only(
    section: dict[str, bool], configured: Any, caplog: pytest.LogCaptureFixture
) -> None:
    plugins = configured("healthy", "slow_open", sections={"usage_sinks": {"slow_open": section}})
    plugins.usage_sink("slow_open")
    async with asyncio.timeout(2):
        await plugins.aopen()
    info = info_of(plugins, "usage sink", "slow_open")
    assert (info.state, info.error) == (PluginState.FAILED, "TimeoutError: not done after 0.05 s")
    assert await resolve(plugins, "healthy") == "value for spec.valueFrom"
    caplog.set_level(logging.ERROR)
    async with asyncio.timeout(2):
        await plugins.aclose()
    assert "failed while closing: TimeoutError: not done after 0.05 s" in caplog.text
    assert info_of(plugins, "secret backend", "healthy").state is PluginState.CLOSED


async def test_plugins_are_closed_in_reverse_order(configured: Any) -> None:
    plugins = configured("healthy", "raising")
    closed: list[str] = []
    for name, backend in plugins.secret_backends.items():

        async def aclose(name: str = name) -> None:
            closed.append(name)

        backend.aclose = aclose
    await plugins.aopen()
    await plugins.aclose()
    assert closed == list(reversed(plugins.secret_backends))


async def test_a_plugin_that_fails_to_close_keeps_no_other_from_closing(
    configured: Any, caplog: pytest.LogCaptureFixture
) -> None:
    plugins = configured("healthy", "raising")

    async def aclose() -> None:
        raise SystemExit(3)

    backend: Any = plugins.secret_backends["raising"]
    backend.aclose = aclose
    await plugins.aopen()
    await plugins.aclose()
    assert "(relay-fixture-raising 1.0) failed while closing: called sys.exit(3)" in caplog.text
    assert info_of(plugins, "secret backend", "healthy").state is PluginState.CLOSED


async def test_a_sink_first_asked_for_while_running_is_opened_at_once(configured: Any) -> None:
    plugins = configured("healthy")
    await plugins.aopen()
    plugins.usage_sink("healthy")
    await until(lambda: info_of(plugins, "usage sink", "healthy").state is PluginState.OPEN)


async def test_after_closing_no_sink_is_made_any_more(configured: Any) -> None:
    plugins = configured("healthy")
    await plugins.aopen()
    await plugins.aclose()
    with pytest.raises(PluginUnavailableError, match="the gateway is stopping"):
        plugins.usage_sink("healthy")


async def test_failures_at_request_time_are_counted_for_the_plugin_that_raised(
    configured: Any, caplog: pytest.LogCaptureFixture
) -> None:
    plugins = configured("healthy", "raising")
    await plugins.aopen()
    for _ in range(5):
        with pytest.raises(RuntimeError) as caught:
            await resolve(plugins, "raising")
        plugins.report(PluginKind.SECRET_BACKEND, "raising", caught.value)
    info = info_of(plugins, "secret backend", "raising")
    assert (info.failures, info.state) == (5, PluginState.OPEN)
    assert info.error == "RuntimeError: no raising today"
    assert "relay_fixture_raising.py" in (info.traceback or "")
    logged = [record for record in caplog.records if "times so far" in record.getMessage()]
    assert len(logged) == 3
    others = [line for line in plugins.inventory() if line.name == "healthy"]
    assert {line.failures for line in others} == {0}
    assert info_of(plugins, "upstream provider", "raising").failures == 0
    assert await resolve(plugins, "healthy") == "value for spec.valueFrom"


async def test_a_report_about_an_unknown_plugin_changes_nothing(configured: Any) -> None:
    plugins = configured("healthy")
    before = plugins.inventory()
    plugins.report("usage sink", "absent", ValueError("x"))
    assert plugins.inventory() == before
