"""A plugin that claims a path of the healthy one."""

from __future__ import annotations

from collections.abc import Sequence

from relay_gateway.plugin import (
    Endpoint,
    PluginConfig,
    UpstreamProvider,
    UsageMeter,
    WireFormat,
    hookimpl,
)


class Talk(WireFormat):
    name = "duplicate.talk"
    endpoints = (Endpoint("talk", "/v1/healthy/chat", "/talk"),)

    def meter(self) -> UsageMeter:
        return UsageMeter()


class Provider(UpstreamProvider[PluginConfig]):
    name = "duplicate"
    wire_formats = ("duplicate.talk",)
    defines = (Talk,)


@hookimpl
def relay_register_upstream_providers() -> Sequence[type[UpstreamProvider[PluginConfig]]]:
    return (Provider,)
