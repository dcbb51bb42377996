"""Plugins of every kind that misbehave, at every method and in every way that code can."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import Any, Literal

from relay_gateway.plugin import (
    Guard,
    GuardConfig,
    PayloadLogger,
    Plugin,
    PluginConfig,
    PluginContext,
    SecretBackend,
    SecretRef,
    StateStore,
    UpstreamProvider,
    UsageReader,
    UsageSink,
    hookimpl,
)
from relay_gateway.testing.catalog import PlainFormat

BLOCK_SECONDS = 0.05
HUGE = "x" * 5_000_000


class Way(StrEnum):
    """A way to misbehave."""

    RAISE = "raise"
    EXIT = "exit"
    HANG = "hang"
    BLOCK = "block"
    RUBBISH = "rubbish"
    HUGE = "huge"


def misbehave(way: Way) -> object:
    """Does what code that is not awaited can do wrong; ``HANG`` is the same as ``BLOCK`` there."""
    if way is Way.RAISE:
        raise RuntimeError("this plugin always fails")
    if way is Way.EXIT:
        raise SystemExit(17)
    if way is Way.HUGE:
        raise ValueError(HUGE)
    if way in (Way.BLOCK, Way.HANG):
        time.sleep(BLOCK_SECONDS)
    return object()


async def misbehave_awaited(way: Way) -> object:
    """Does what code that is awaited can do wrong."""
    if way is Way.HANG:
        await asyncio.Event().wait()
    return misbehave(way)


class Chaos:
    """Hooks of plugins named ``chaos`` that misbehave in one ``way`` at the methods in ``at``."""

    def __init__(self, way: Way, *at: str) -> None:
        self._way = way
        self._at = at

    @hookimpl
    def relay_register_secret_backends(self) -> Sequence[type[SecretBackend[Any]]]:
        return (self._spoilt(_Backend, ("resolve", "seal", "wrap")),)

    @hookimpl
    def relay_register_upstream_providers(self) -> Sequence[type[UpstreamProvider[Any]]]:
        return (self._spoilt(_Provider, ("answer",)),)

    @hookimpl
    def relay_register_usage_sinks(self) -> Sequence[type[UsageSink[Any]]]:
        return (self._spoilt(_Sink, ("write", "get", "query", "summarize", "timeseries")),)

    @hookimpl
    def relay_register_payload_loggers(self) -> Sequence[type[PayloadLogger[Any]]]:
        return (self._spoilt(_Logger, ("write", "read")),)

    @hookimpl
    def relay_register_state_stores(self) -> Sequence[type[StateStore[Any]]]:
        return (self._spoilt(_Store, ("reserve", "settle")),)

    @hookimpl
    def relay_register_guards(self) -> Sequence[type[Guard[Any]]]:
        return (self._spoilt(_Guard, ("inspect_request", "inspect_response")),)

    def _spoilt(self, base: type[Any], calls: Sequence[str]) -> type[Any]:
        methods: dict[str, Any] = {
            name: _awaited(self._way)
            for name in (*calls, "aopen", "aclose")
            if name in self._at or not self._at
        }
        if "__init__" in self._at:
            methods["__init__"] = _made(self._way)
        return type(f"Chaos{base.__name__}", (base,), methods)


def spoilt_provider(way: Way, method: str) -> type[UpstreamProvider[Any]]:
    """A provider that misbehaves at one method that is not awaited."""

    def spoilt(_self: object, *_args: object) -> object:
        return misbehave(way)

    return type("SpoiltProvider", (_Provider,), {method: spoilt, "name": "plain"})


def _awaited(way: Way) -> Callable[..., Awaitable[object]]:
    async def method(_self: object, *_args: object) -> object:
        return await misbehave_awaited(way)

    return method


def _made(way: Way) -> Callable[..., None]:
    def method(self: Plugin[Any], config: PluginConfig, context: PluginContext) -> None:
        Plugin.__init__(self, config, context)
        misbehave(way)

    return method


class ChaosRef(SecretRef):
    """A reference to the secret backend."""

    kind: Literal["chaos"] = "chaos"


class _Backend(SecretBackend[PluginConfig]):
    name = "chaos"
    Ref = ChaosRef


class _Provider(UpstreamProvider[PluginConfig]):
    name = "chaos"
    wire_formats = ("plain.chat",)
    defines = (PlainFormat,)


class _Sink(UsageSink[PluginConfig], UsageReader):
    name = "chaos"
    reads = True


class _Logger(PayloadLogger[PluginConfig]):
    name = "chaos"
    reads = True


class _Store(StateStore[PluginConfig]):
    name = "chaos"
    schemes = ("chaos",)


class _Guard(Guard[GuardConfig]):
    name = "chaos"
    reads_responses = True
