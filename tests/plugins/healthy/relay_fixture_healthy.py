"""A plugin of every kind with nothing wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from relay_gateway.plugin import (
    CatalogSeed,
    Dialect,
    Endpoint,
    Grant,
    Hold,
    PayloadLogger,
    PayloadRecord,
    PluginConfig,
    ResolvedSecret,
    RowBinding,
    Secret,
    SecretBackend,
    SecretRef,
    StateStore,
    UpstreamProvider,
    UsageMeter,
    UsageRecord,
    UsageSink,
    WireFormat,
    hookimpl,
)


class Ref(SecretRef):
    kind: Literal["healthy"] = "healthy"
    name: str


class Backend(SecretBackend[PluginConfig]):
    name = "healthy"
    Ref = Ref

    async def resolve(self, stored: SecretRef, binding: RowBinding) -> ResolvedSecret:
        return ResolvedSecret(Secret(f"value for {binding.field}"))


class HealthyDialect(Dialect):
    name = "healthy"


class Chat(WireFormat):
    name = "healthy.chat"
    dialect = HealthyDialect
    endpoints = (Endpoint("healthy.chat", "/v1/healthy/chat", "/chat"),)

    def meter(self) -> UsageMeter:
        return UsageMeter()


class Provider(UpstreamProvider[PluginConfig]):
    name = "healthy"
    wire_formats = ("healthy.chat",)
    defines = (Chat,)


class SinkConfig(PluginConfig):
    path: str = "usage"


class Sink(UsageSink[SinkConfig]):
    name = "healthy"
    Config = SinkConfig

    async def write(self, records: Sequence[UsageRecord]) -> None:
        self.context.logger.debug("%d records to %s", len(records), self.config.path)


class Logger(PayloadLogger[PluginConfig]):
    name = "healthy"

    async def write(self, records: Sequence[PayloadRecord]) -> None:
        self.context.logger.debug("%d payloads", len(records))


class Store(StateStore[PluginConfig]):
    name = "healthy"

    async def reserve(self, request_id: str, holds: Sequence[Hold]) -> Grant:
        left = tuple(hold.limit - hold.amount for hold in holds)
        return Grant(-1, 0.0, left, tuple(0.0 for _ in holds))

    async def settle(self, request_id: str, holds: Sequence[Hold], used: Sequence[int]) -> None:
        self.context.logger.debug("%s settled", request_id)


@hookimpl
def relay_register_secret_backends() -> Sequence[type[SecretBackend[PluginConfig]]]:
    return (Backend,)


@hookimpl
def relay_register_upstream_providers() -> Sequence[type[UpstreamProvider[PluginConfig]]]:
    return (Provider,)


@hookimpl
def relay_register_usage_sinks() -> Sequence[type[UsageSink[SinkConfig]]]:
    return (Sink,)


@hookimpl
def relay_register_payload_loggers() -> Sequence[type[PayloadLogger[PluginConfig]]]:
    return (Logger,)


@hookimpl
def relay_register_state_stores() -> Sequence[type[StateStore[PluginConfig]]]:
    return (Store,)


@hookimpl
def relay_register_catalog_seeds() -> Sequence[CatalogSeed]:
    return (CatalogSeed("healthy", source="made up", as_of="2025-01-01"),)
