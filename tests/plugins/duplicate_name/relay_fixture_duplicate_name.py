"""A plugin that claims a name of the healthy one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from relay_gateway.plugin import PluginConfig, SecretBackend, SecretRef, hookimpl


class Ref(SecretRef):
    kind: Literal["healthy"] = "healthy"


class Backend(SecretBackend[PluginConfig]):
    name = "healthy"
    Ref = Ref


@hookimpl
def relay_register_secret_backends() -> Sequence[type[SecretBackend[PluginConfig]]]:
    return (Backend,)
