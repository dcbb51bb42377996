"""A plugin that misbehaves: neither the gateway nor the other plugins suffer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from relay_gateway.delivery.delivery import Delivery
from relay_gateway.delivery.line import Pace
from relay_gateway.errors import (
    PluginError,
    PluginUnavailableError,
    SecretError,
    StateUnavailableError,
)
from relay_gateway.limits import guarded_store
from relay_gateway.limits.guarded_store import GuardedStore
from relay_gateway.pipeline import credentials as credentials_module
from relay_gateway.pipeline.credentials import Credentials
from relay_gateway.plugin import (
    Hold,
    LogQuery,
    PayloadLogger,
    PayloadRecord,
    PluginConfig,
    PluginContext,
    RowBinding,
    SecretBackend,
    SystemClock,
    UsageRecord,
    UsageSink,
    hookimpl,
)
from relay_gateway.registry import PluginKind, Plugins, Registry, Timing
from relay_gateway.registry import calls as calls_module
from relay_gateway.registry.calls import TERMS, Terms
from relay_gateway.testing.catalog import TableBackend, TableRef
from relay_gateway.testing.chaos import Chaos, ChaosRef, Way, spoilt_provider
from relay_gateway.testing.instances import until
from relay_gateway.testing.records import usage_record
from relay_gateway.testing.world import PipelineWorld, json_answer

QUICK = Timing(opening=0.1, closing=0.1, grace=0.05, first_retry=5.0, finishing=0.1)
FAST = Pace(batch=0.001, answer=0.1, first_retry=0.005, last_retry=0.02)
WAYS = pytest.mark.parametrize("way", list(Way), ids=str)
HOLDS = [Hold("k", 1, 10, 60.0, "fixed-window")]


class CalmSink(UsageSink[PluginConfig]):
    name = "calm"

    def __init__(self, config: PluginConfig, context: PluginContext) -> None:
        super().__init__(config, context)
        self.ids: list[str] = []

    async def write(self, records: Sequence[UsageRecord]) -> None:
        self.ids += [record.request_id for record in records]


class CalmLogger(PayloadLogger[PluginConfig]):
    name = "calm"

    def __init__(self, config: PluginConfig, context: PluginContext) -> None:
        super().__init__(config, context)
        self.ids: list[str] = []

    async def write(self, records: Sequence[PayloadRecord]) -> None:
        self.ids += [record.request_id for record in records]


class CalmBackend(TableBackend):
    def __init__(self, config: PluginConfig, context: PluginContext) -> None:
        super().__init__({"key": "sk-calm-value"}, context.data_dir)
        self.context = context


class Calm:
    """Plugins beside those that misbehave."""

    @hookimpl
    def relay_register_secret_backends(self) -> Sequence[type[SecretBackend[Any]]]:
        return (CalmBackend,)

    @hookimpl
    def relay_register_usage_sinks(self) -> Sequence[type[UsageSink[Any]]]:
        return (CalmSink,)

    @hookimpl
    def relay_register_payload_loggers(self) -> Sequence[type[PayloadLogger[Any]]]:
        return (CalmLogger,)


def plugins_with(chaos: Chaos, directory: Path) -> Plugins:
    registry = Registry.discover(entry_points=(), extra=(chaos, Calm()))
    return registry.configure({}, lambda name: PluginContext(name, directory, ""), timing=QUICK)


class Source:
    """A host key of a backend."""

    def __init__(self, backend: str, stored: Any) -> None:
        self.id = backend
        self.backend = backend
        self.stored = stored
        self.binding = RowBinding("host key", backend, "value", 1)


@WAYS
@pytest.mark.parametrize("method", ["__init__", "aopen", "aclose"])
async def test_a_gateway_lives_and_ends_with_a_guard_whose_life_goes_wrong(
    way: Way, method: str, tmp_path: Path
) -> None:
    plugins = plugins_with(Chaos(way, method), tmp_path)
    async with asyncio.timeout(5):
        try:
            plugins.guard("chaos")
        except PluginUnavailableError:
            assert method == "__init__"
        await plugins.aopen()
        states = {(str(i.kind), i.name): str(i.state) for i in plugins.inventory()}
        is_open = plugins.is_open(PluginKind.GUARD, "chaos")
        assert is_open is (states["guard", "chaos"] == "open")
        await plugins.aclose()


@WAYS
@pytest.mark.parametrize("method", ["__init__", "aopen", "aclose"])
async def test_others_live_and_end_beside_one_whose_life_goes_wrong(
    way: Way, method: str, tmp_path: Path
) -> None:
    plugins = plugins_with(Chaos(way, method), tmp_path)
    plugins.usage_sink("calm")
    plugins.payload_logger("calm")
    async with asyncio.timeout(5):
        await plugins.aopen()
        states = {(str(i.kind), i.name): str(i.state) for i in plugins.inventory()}
        assert {states[kind, "calm"] for kind in ("usage sink", "payload logger")} == {"open"}
        assert states["secret backend", "table"] == "open"
        assert states["secret backend", "chaos"] in ("open", "failed", "quarantined")
        await plugins.aclose()
    assert all(len(info.error or "") <= 500 for info in plugins.inventory())


@WAYS
async def test_others_resolve_beside_a_backend_that_misbehaves(
    way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials_module, "DEADLINE", 0.2)
    plugins = plugins_with(Chaos(way, "resolve"), tmp_path)
    await plugins.aopen()
    report = partial(plugins.report, PluginKind.SECRET_BACKEND)
    credentials = Credentials(plugins.secret_backends, SystemClock(), report=report)
    failing = asyncio.create_task(credentials.get(Source("chaos", ChaosRef())))
    secret = await credentials.get(Source("table", TableRef(entry="key")))
    assert secret.reveal() == "sk-calm-value"
    with pytest.raises(SecretError):
        await failing
    (failed,) = [i for i in plugins.inventory() if (i.kind, i.name) == ("secret backend", "chaos")]
    assert failed.failures == 1
    await credentials.aclose()
    await plugins.aclose()


@WAYS
async def test_others_are_delivered_to_beside_sinks_that_misbehave(
    way: Way, tmp_path: Path
) -> None:
    plugins = plugins_with(Chaos(way, "write"), tmp_path)
    await plugins.aopen()
    delivery = Delivery(
        tmp_path,
        plugins.usage_sink,
        plugins.payload_logger,
        partial(plugins.report, PluginKind.USAGE_SINK),
        report_payload=partial(plugins.report, PluginKind.PAYLOAD_LOGGER),
        pace=FAST,
    )
    await delivery.open(("chaos", "calm"))
    delivery.switch_payloads(("chaos", "calm"))
    records = [usage_record(request_id=f"r{n}") for n in range(20)]
    for record in records:
        delivery.put(record)
        delivery.put_payload(
            PayloadRecord(request_id=record.request_id, started_at="", request=b"", response=b"")
        )
    sink: Any = plugins.usage_sink("calm")
    logger: Any = plugins.payload_logger("calm")
    expected = [record.request_id for record in records]
    await until(lambda: sink.ids == expected and logger.ids == expected)
    if way in (Way.RAISE, Way.EXIT, Way.HUGE, Way.HANG):
        await until(
            lambda: _failures(plugins, "usage sink") and _failures(plugins, "payload logger")
        )
    async with asyncio.timeout(5):
        await delivery.aclose(0.1)
        await plugins.aclose()


@WAYS
async def test_reading_from_one_that_misbehaves_ends_in_an_error_of_the_gateway(
    way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terms = {**TERMS[PluginKind.USAGE_SINK], "query": Terms(0.1, 2)}
    monkeypatch.setattr(calls_module, "TERMS", {**TERMS, PluginKind.USAGE_SINK: terms})
    plugins = plugins_with(Chaos(way, "query"), tmp_path)
    sink: Any = plugins.usage_sink("chaos")
    if way in (Way.BLOCK, Way.RUBBISH):
        await sink.query(LogQuery())
    else:
        expected = PluginError if way in (Way.EXIT, Way.HANG) else Exception
        with pytest.raises(expected):
            await sink.query(LogQuery())
        assert _failures(plugins, "usage sink") == 1
    await plugins.aclose()


@WAYS
async def test_limits_go_on_beside_a_state_store_that_misbehaves(
    way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarded_store, "LINGER_SECONDS", 0.2)
    plugins = plugins_with(Chaos(way, "reserve", "settle"), tmp_path)
    report = partial(plugins.report, PluginKind.STATE_STORE)
    store = GuardedStore(plugins.state_store("chaos"), SystemClock(), report)
    with pytest.raises(StateUnavailableError):
        await store.reserve("r1", HOLDS)
    store.settle("r1", HOLDS, [0])
    async with asyncio.timeout(5):
        await store.aclose()
    assert _failures(plugins, "state store") >= 1
    await plugins.aclose()


@WAYS
@pytest.mark.parametrize("method", ["build_request", "classify", "takes_usage_option"])
async def test_a_provider_that_misbehaves_fails_its_own_requests_only(
    way: Way, method: str, tmp_path: Path
) -> None:
    world = PipelineWorld(tmp_path)
    calm = world.provider
    spoilt: Any = spoilt_provider(way, method)(PluginConfig(), calm.context)
    world.dispatcher._providers["plain"] = spoilt  # type: ignore[index]
    replies = [json_answer(500) for _ in range(3)]
    record = await world.run(world.caller(), *replies)
    assert record.status >= 500
    world.records.clear()
    world.dispatcher._providers["plain"] = calm  # type: ignore[index]
    for host in (world.east, world.west):
        world.dispatcher.breakers.reset(host)
    assert (await world.run(world.caller(), json_answer())).status == 200


def _failures(plugins: Plugins, kind: str) -> int:
    return sum(i.failures for i in plugins.inventory() if (i.kind, i.name) == (kind, "chaos"))
