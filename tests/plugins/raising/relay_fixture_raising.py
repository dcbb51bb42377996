"""A plugin that raises whenever it is asked for something."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from relay_gateway.plugin import (
    PluginConfig,
    ResolvedSecret,
    RowBinding,
    SecretBackend,
    SecretRef,
    UpstreamCall,
    UpstreamProvider,
    UpstreamRequest,
    UsageRecord,
    UsageSink,
    hookimpl,
)


class Ref(SecretRef):
    kind: Literal["raising"] = "raising"


class Backend(SecretBackend[PluginConfig]):
    name = "raising"
    Ref = Ref

    async def resolve(self, stored: SecretRef, binding: RowBinding) -> ResolvedSecret:
        raise RuntimeError(f"no {stored.kind} today")


class Provider(UpstreamProvider[PluginConfig]):
    name = "raising"
    wire_formats = ("healthy.chat",)

    def build_request(self, call: UpstreamCall) -> UpstreamRequest:
        raise KeyError(call.upstream_model)


class Sink(UsageSink[PluginConfig]):
    name = "raising"

    async def write(self, records: Sequence[UsageRecord]) -> None:
        raise OSError(28, "No space left on device")


@hookimpl
def relay_register_secret_backends() -> Sequence[type[SecretBackend[PluginConfig]]]:
    return (Backend,)


@hookimpl
def relay_register_upstream_providers() -> Sequence[type[UpstreamProvider[PluginConfig]]]:
    return (Provider,)


@hookimpl
def relay_register_usage_sinks() -> Sequence[type[UsageSink[PluginConfig]]]:
    return (Sink,)
